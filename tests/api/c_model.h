// The small model by the C API.
#pragma once

#include "infer/infer.h"
#include "tests/api/model.h"

namespace infer::test {

inline infer_engine* load_c() {
  infer_load_options options;
  infer_load_options_init(&options, sizeof(options));
  options.context = 512;
  options.threads = 1;
  infer_engine* engine = nullptr;
  REQUIRE(infer_engine_load(kModel.c_str(), &options, &engine) == INFER_OK);
  REQUIRE(engine != nullptr);
  return engine;
}

struct Seen {
  std::vector<int32_t> tokens;
  size_t stop_at = SIZE_MAX;
};

inline int on_token(void* user, int32_t token, const char* text, size_t length) {
  auto* seen = static_cast<Seen*>(user);
  if (token >= 0) seen->tokens.push_back(token);
  return text != nullptr && length < 100 && seen->tokens.size() < seen->stop_at;
}

inline infer_generate_options generate_c(int32_t tokens) {
  infer_generate_options options;
  infer_generate_options_init(&options, sizeof(options));
  options.max_tokens = tokens;
  options.ignore_end = 1;
  options.temperature = 1.0f;
  options.has_seed = 1;
  options.seed = 7;
  return options;
}

}  // namespace infer::test
