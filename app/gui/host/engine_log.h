// What the engine says while it works: warnings, such as the loss of a GPU.
#pragma once

#include <functional>
#include <string>

#include "gui/host/event_queue.h"
#include "infer/infer.hpp"

namespace infer::gui {

struct LogLine {
  Verbosity verbosity = Verbosity::info;
  std::string text;
};

/// Gets all messages of the library while it exists. One object in a process. The thread that draws
/// calls all functions.
class EngineLog {
 public:
  explicit EngineLog(WakeFn wake = {});
  ~EngineLog();
  EngineLog(const EngineLog&) = delete;
  EngineLog& operator=(const EngineLog&) = delete;

  /// Calls `see` for the messages since the last call, at most 1,000.
  void poll(const std::function<void(const LogLine&)>& see);

 private:
  EventQueue<LogLine> lines_;
};

}  // namespace infer::gui
