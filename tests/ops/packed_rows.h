// Weights as the CPU's kernels read them.
#pragma once

#include <vector>

#include "backends/cpu/packing.h"
#include "backends/cpu/row_kernel.h"
#include "engine/quant/quant.h"
#include "tests/random_values.h"

namespace infer::cpu {

/// `groups` groups of random rows of k weights.
inline std::vector<std::byte> packed_rows(const RowKernel& kernel, int64_t groups, int64_t k) {
  const int64_t n = groups * kernel.rows;
  const TensorDesc desc = tensor(kernel.weights, k, n);
  const std::vector<float> values = test::random_values(n * k, 7);
  std::vector<std::byte> rows(static_cast<size_t>(desc.extent_bytes()));
  if (const EncodeFn encode = quant_traits(kernel.weights).encode) {
    encode(values.data(), rows.data(), n * k);
  } else {
    // Any bytes below 64 are codes, and finite as scales.
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i] = static_cast<std::byte>(static_cast<int>((values[i] + 1) * 31.5f));
    }
  }
  const PackedLayout layout{desc, kernel.rows};
  std::vector<std::byte> packed(static_cast<size_t>(layout.bytes()));
  for (int64_t g = 0; g < groups; ++g) {
    pack_group(layout, rows.data() + g * kernel.rows * desc.stride[1], desc.stride[1], kernel.rows,
               packed.data() + g * layout.group_bytes());
  }
  return packed;
}

}  // namespace infer::cpu
