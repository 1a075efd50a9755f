// Numbers for tests, and how far numbers are from others.
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

/// Σ(x − expected)² / Σexpected².
inline double squared_error(const std::vector<float>& found, const std::vector<float>& expected) {
  double error = 0;
  double power = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    error += (double{found[i]} - expected[i]) * (double{found[i]} - expected[i]);
    power += double{expected[i]} * expected[i];
  }
  return error / power;
}

}  // namespace infer::test
