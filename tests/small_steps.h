// A small model on a device in small steps, for tests of calls that fail.
#pragma once

#include <doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/session/engine_impl.h"
#include "infer/infer.hpp"
#include "tests/support.h"

namespace infer::test {

inline std::string small_model() { return data_path("golden/llama-q4_0.gguf"); }
inline const std::vector<int32_t> kPrompt{1, 300, 262, 290};

inline LoadOptions small_steps(const std::string& device) {
  LoadOptions load;
  load.device = device;
  load.threads = 1;
  load.context = 128;
  load.batch_rows = 2;  // two programs
  load.output_rows = 2;
  load.fewer_rows = false;
  load.exact = true;
  return load;
}

/// Loads, generates greedily and closes.
inline Result<std::vector<int32_t>> generate(const LoadOptions& load, const OpenDevice& open) {
  INFER_TRY(const std::unique_ptr<Engine> engine, Engine::Impl::open(small_model(), load, open));
  INFER_TRY(const std::unique_ptr<Session> session, engine->open_session());
  GenerateOptions options;
  options.max_tokens = 4;
  options.ignore_end = true;
  options.sampling.temperature = 0;
  std::vector<int32_t> tokens;
  const auto take = [&](int32_t token, std::string_view) {
    tokens.push_back(token);
    return true;
  };
  INFER_TRY(const GenerateResult made, session->generate(kPrompt, options, take));
  CHECK(made.generated_tokens == 4);
  return tokens;
}

}  // namespace infer::test
