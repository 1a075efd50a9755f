// IQ4_NL: engine/quant/iq4_nl.h.
// kernels: column product stream tile decoded_tile warpgroup_tile embed_tiles
#pragma once

#include "backends/cuda/weights/codes.h"

namespace infer::cuda::INFER_TYPE {

struct Type : HalfScalesType {
  INFER_DEVICE static void codes(const RowWords<2>& row, uint32_t, uint32_t (&q)[4]) {
    table_runs(row, iq4_levels(), q);
  }
};

using Weights = FragmentWeights<Type>;

}  // namespace infer::cuda::INFER_TYPE
