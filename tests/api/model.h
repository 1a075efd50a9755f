// The small model that the tests of the API run, and shortcuts that fail the test on an error.
#pragma once

#include <doctest.h>

#include <future>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/session/engine_impl.h"
#include "infer/infer.hpp"
#include "tests/support.h"

namespace infer::test {

inline const std::string kModel = data_path("golden/llama-q4_0.gguf");
/// With layers that see everything and layers with a window.
inline const std::string kWindowModel = data_path("golden/gpt-oss-f32.gguf");
/// With layers that keep a recurrent state.
inline const std::string kRecurrentModel = data_path("golden/qwen35-f32.gguf");
inline const std::vector<int32_t> kPrompt{1, 300, 262, 290};

inline std::unique_ptr<Engine> load(const LoadOptions& options, const std::string& path = kModel) {
  Result<std::unique_ptr<Engine>> engine = Engine::load(path, options);
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
  return *std::move(engine);
}

inline std::unique_ptr<Engine> load(int32_t threads = 1, int64_t context = 512) {
  LoadOptions options;
  options.threads = threads;
  options.context = context;
  return load(options);
}

inline std::unique_ptr<Session> open(Engine& engine) {
  Result<std::unique_ptr<Session>> session = engine.open_session();
  REQUIRE(session.has_value());
  return *std::move(session);
}

inline GenerateOptions sampled(int32_t tokens, uint64_t seed = 7) {
  GenerateOptions options;
  options.max_tokens = tokens;
  options.ignore_end = true;
  options.sampling.temperature = 1.0f;
  options.sampling.seed = seed;
  return options;
}

/// A sequence without a session, which goes to the scheduler by hand. It must have ended before it
/// is destroyed.
struct LooseSequence : Consumer {
  Engine::Impl& engine;
  Sequence sequence;
  std::promise<Status> ended;

  LooseSequence(Engine& e, std::vector<int32_t> tokens) : engine(EngineAccess::impl(e)) {
    sequence.kv = engine.new_sequence();
    engine.thread->call([&] { engine.ensure_sequence(sequence.kv); });
    sequence.tokens = std::move(tokens);
    sequence.consumer = this;
  }
  ~LooseSequence() override { engine.thread->post(engine.removal(sequence.kv)); }
  void submit() { engine.thread->submit(&sequence); }
  void done(Status status) override { ended.set_value(std::move(status)); }
};

/// Waits until so many sequences are with the scheduler of an engine that holds them.
inline void wait_for_sequences(Engine& engine, size_t count) {
  for (size_t active = 0; active < count;) {
    EngineAccess::impl(engine).thread->call(
        [&] { active = EngineAccess::impl(engine).scheduler->active(); });
    std::this_thread::yield();
  }
}

/// A prompt; equal seeds give equal ones.
inline std::vector<int32_t> text(int64_t length, int32_t seed) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < length; ++i) {
    tokens.push_back(static_cast<int32_t>(3 + (i * 7 + seed * 13) % 50));
  }
  return tokens;
}

/// What a session generates; empty on failure, so that it may run on any thread.
inline std::vector<int32_t> tokens_of(Session& session, const std::vector<int32_t>& prompt,
                                      const GenerateOptions& options) {
  std::vector<int32_t> tokens;
  const auto result = session.generate(prompt, options, [&](int32_t token, std::string_view) {
    if (token >= 0) tokens.push_back(token);
    return true;
  });
  if (!result) tokens.clear();
  return tokens;
}

/// What a session generates that has been started, once it has ended.
inline std::vector<int32_t> started_tokens_of(Session& session) {
  std::vector<int32_t> tokens;
  for (;;) {
    const auto event = session.next(std::numeric_limits<double>::infinity()).value().value();
    if (event.finished) return tokens;
    if (event.token >= 0) tokens.push_back(event.token);
  }
}

}  // namespace infer::test
