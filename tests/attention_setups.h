// What tests of attention on GPUs run: steps, and prompts that are a numeric class of their own.
#pragma once

#include <cstring>
#include <limits>
#include <vector>

#include "tests/attention_run.h"

namespace infer::test {

/// The sequences one after another in steps of so many rows, which take the end of one and the
/// start of the next together.
inline Steps in_turn(const AttentionSetup& setup, int32_t sequences, size_t rows) {
  Steps steps;
  for (int32_t sequence = 0; sequence < sequences; ++sequence) {
    for (int32_t slot = setup.from; slot < setup.tokens; ++slot) {
      if (steps.empty() || steps.back().size() == rows) steps.emplace_back();
      steps.back().push_back({sequence, slot});
    }
  }
  return steps;
}

/// Step by step two rows of each of two sequences, first those of the second one, which are
/// generated.
inline Steps of_both_roles(const AttentionSetup& setup) {
  Steps steps;
  for (int32_t slot = setup.from; slot < setup.tokens; slot += 2) {
    steps.emplace_back();
    for (const int32_t sequence : {1, 0}) {
      for (int32_t s = slot; s < std::min<int64_t>(slot + 2, setup.tokens); ++s) {
        steps.back().push_back({sequence, s, sequence == 1});
      }
    }
  }
  return steps;
}

/// Prompts of the sizes that have tiles of queries on matrix units, with every type of cache that
/// these read.
inline std::vector<AttentionSetup> prompt_setups() {
  const auto setup = [](const char* name, int64_t heads, KvLayerShape kv, DType type,
                        int64_t tokens, float softcap = 0, int32_t from = 0) {
    return AttentionSetup{name, heads, kv, type, tokens, softcap, from, Roles::prompt};
  };
  return {
      setup("32, groups of 4", 4, {1, 32, 32}, DType::f16, 140),
      setup("32, groups of 7", 7, {1, 32, 32}, DType::bf16, 70),
      setup("32, deep", 2, {2, 32, 32}, DType::q8_0, 1100, 0, 1000),
      setup("32, window", 2, {1, 32, 32, 70}, DType::q4_0, 200),
      setup("64, groups of 3", 3, {1, 64, 64}, DType::q8_0, 90),
      setup("64, values in keys", 3, {1, 64, 64, 0, true}, DType::bf16, 80, 3.0f),
      setup("64, blocks for values in keys", 2, {1, 64, 64, 0, true}, DType::q4_0, 80),
      setup("80", 2, {1, 80, 80}, DType::f16, 70),
      setup("96, heads of their own", 2, {2, 96, 96}, DType::q4_0, 70),
      setup("112", 1, {1, 112, 112}, DType::bf16, 70),
      setup("128, groups of 8, softcap", 8, {1, 128, 128}, DType::f16, 66, 2.0f),
      setup("128, window", 4, {1, 128, 128, 33}, DType::q8_0, 100),
      setup("192 and 128", 2, {2, 192, 128}, DType::f16, 70),
      setup("192 and 128, blocks", 2, {1, 192, 128}, DType::q8_0, 70),
      setup("256", 2, {1, 256, 256}, DType::f16, 100),
      setup("256, window", 2, {1, 256, 256, 40}, DType::q4_0, 100),
      setup("256, values in keys", 1, {1, 256, 256, 0, true}, DType::bf16, 70),
  };
}

/// Checks that values beyond float16, and infinite ones, change no bit of the rows before their
/// token. run(setup): results of all rows.
template <typename Run>
void check_overflow(AttentionSetup setup, const Run& run) {
  const std::vector<float> plain = run(setup);
  const auto width = setup.kv.v_dim * setup.heads;
  for (const float factor : {1e6f, std::numeric_limits<float>::infinity()}) {
    CAPTURE(factor);
    setup.last_factor = factor;
    const std::vector<float> found = run(setup);
    REQUIRE(found.size() == plain.size());
    for (int64_t row = 0; row * width < static_cast<int64_t>(plain.size()); ++row) {
      if (row % setup.tokens == setup.tokens - 1) continue;
      CAPTURE(row);
      CHECK(std::memcmp(&found[static_cast<size_t>(row * width)],
                        &plain[static_cast<size_t>(row * width)],
                        static_cast<size_t>(width) * sizeof(float)) == 0);
    }
  }
}

inline bool equal(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace infer::test
