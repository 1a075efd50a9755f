// Waits for events of the engine's host as the window does: by polling.
#pragma once

#include <doctest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "demo/demo_model.h"
#include "gui/host/engine_host.h"
#include "tests/support.h"

namespace infer::test {

inline const std::string kSmall = data_path("golden/llama-q4_0.gguf");

/// Waits until `done`, far longer than it should take.
inline bool eventually(const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// A host with all the events it told so far.
struct Pump {
  gui::EngineHost host;
  std::vector<gui::EngineEvent> seen;
  size_t taken = 0;  ///< events that wait_for() has gone past

  size_t poll() {
    return host.poll([&](const gui::EngineEvent& event) { seen.push_back(event); });
  }
  /// The next event of this kind, whatever comes before it. Fails the test if none comes.
  template <typename Event>
  Event wait_for() {
    const bool came = eventually([&] {
      poll();
      while (taken < seen.size() && !std::holds_alternative<Event>(seen[taken])) ++taken;
      return taken < seen.size();
    });
    REQUIRE_MESSAGE(came, "no such event came");
    return std::get<Event>(seen[taken++]);
  }
  template <typename Event>
  size_t count() const {
    size_t number = 0;
    for (const gui::EngineEvent& event : seen) number += std::holds_alternative<Event>(event);
    return number;
  }
  /// The content of an answer's parts so far.
  std::string content(int64_t conversation) const {
    std::string text;
    for (const gui::EngineEvent& event : seen) {
      const auto* const part = std::get_if<gui::AnswerPart>(&event);
      if (part != nullptr && part->conversation == conversation) text += part->part.text;
    }
    return text;
  }
  gui::Loaded load(const std::string& path, int64_t context = 512) {
    LoadOptions options;
    options.threads = 1;
    options.context = context;
    host.load(path, options);
    const bool came = eventually([&] {
      poll();
      return count<gui::Loaded>() + count<gui::LoadFailed>() > 0;
    });
    REQUIRE(came);
    return wait_for<gui::Loaded>();
  }
};

inline GenerateOptions greedy(int32_t tokens) {
  GenerateOptions options;
  options.max_tokens = tokens;
  options.sampling.temperature = 0.0f;
  return options;
}

/// An answer that goes on until it is stopped.
inline GenerateOptions endless() {
  GenerateOptions options = greedy(-1);
  options.ignore_end = true;
  options.overflow = ContextOverflow::shift;
  return options;
}

inline gui::AnswerRequest asked(int64_t conversation, const std::string& text,
                                const GenerateOptions& options) {
  gui::AnswerRequest request;
  request.conversation = conversation;
  request.messages = {{"user", text}};
  request.options = options;
  return request;
}

}  // namespace infer::test
