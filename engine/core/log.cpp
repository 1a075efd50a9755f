#include "engine/core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <mutex>
#include <utility>

namespace infer {
namespace {

std::atomic<LogLevel> g_level{LogLevel::warning};

struct SinkHolder {
  std::mutex mutex;
  LogSink sink;
  spdlog::logger fallback{"infer", std::make_shared<spdlog::sinks::stderr_color_sink_st>()};

  SinkHolder() {
    fallback.set_level(spdlog::level::trace);
    fallback.set_pattern("%n: %^%l%$: %v");
  }
};

SinkHolder& holder() {
  static SinkHolder instance;
  return instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
    case LogLevel::off: break;
  }
  return spdlog::level::off;
}

}  // namespace

void set_log_sink(LogSink sink) {
  SinkHolder& h = holder();
  const std::lock_guard lock(h.mutex);
  h.sink = std::move(sink);
}

void set_log_level(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }

LogLevel log_level() { return g_level.load(std::memory_order_relaxed); }

void log_message(LogLevel level, std::string_view message) {
  SinkHolder& h = holder();
  const std::lock_guard lock(h.mutex);
  if (h.sink) {
    h.sink(level, message);
  } else {
    h.fallback.log(to_spdlog(level), message);
  }
}

void log_formatted(LogLevel level, fmt::string_view text, fmt::format_args args) {
  log_message(level, fmt::vformat(text, args));
}

}  // namespace infer
