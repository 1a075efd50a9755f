// Types of one element a block: pieces of 32 neighbours. Beyond the end of a row they repeat the
// last element, which meets activations of zero.
#pragma once

namespace infer::cuda::INFER_TYPE {

INFER_DEVICE Runs runs(uint32_t i) { return plain_runs(i); }

INFER_DEVICE void decode(const Row& row, uint32_t i, float (&v)[32]) {
  const uint32_t last = row.elements - 1;
#pragma unroll
  for (uint32_t t = 0; t < 32; ++t) {
    const uint32_t at = i * kPiece + t;
    v[t] = at < row.elements ? decode_one(row, at < last ? at : last) : 0.0f;
  }
}

}  // namespace infer::cuda::INFER_TYPE
