// Numbers for tests.
#pragma once

#include <cstdint>
#include <vector>

namespace infer::test {

/// Values in [−1, 1) that depend on the place alone.
inline std::vector<float> random_values(int64_t count, uint64_t state) {
  std::vector<float> x(static_cast<size_t>(count));
  for (float& value : x) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    value = static_cast<float>(state >> 40) / static_cast<float>(1 << 23) - 1.0f;
  }
  return x;
}

}  // namespace infer::test
