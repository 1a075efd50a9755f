#include "gui/host/engine_log.h"

#include <string_view>
#include <utility>

namespace infer::gui {
namespace {

constexpr size_t kMostWaiting = 1000;

}  // namespace

EngineLog::EngineLog(WakeFn wake) : lines_(std::move(wake)) {
  set_log_callback([this](Verbosity verbosity, std::string_view text) {
    lines_.push_bounded({verbosity, std::string(text)}, kMostWaiting);
  });
}

EngineLog::~EngineLog() { set_log_callback({}); }

void EngineLog::poll(const std::function<void(const LogLine&)>& see) {
  for (const LogLine& line : lines_.take()) see(line);
}

}  // namespace infer::gui
