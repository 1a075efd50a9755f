// Diagnostics of the library. Nothing is ever written to stdout; by default warnings and errors go
// to stderr. Messages are for people: no secrets, no prompt text.
#pragma once

#include <fmt/core.h>

#include <functional>
#include <string_view>

namespace infer {

enum class LogLevel { debug, info, warning, error, off };

/// Where messages go. Called from any thread, one call at a time.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Replaces the sink; an empty one restores stderr.
void set_log_sink(LogSink sink);
/// Messages below this level are dropped before they are formatted (default: warning).
void set_log_level(LogLevel level);
LogLevel log_level();

void log_message(LogLevel level, std::string_view message);
void log_formatted(LogLevel level, fmt::string_view text, fmt::format_args args);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> text, Args&&... args) {
  if (level >= log_level()) log_formatted(level, text, fmt::make_format_args(args...));
}

}  // namespace infer
