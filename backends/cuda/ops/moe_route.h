// The choice of experts: a block for each row.
#pragma once

#include <cstdint>

namespace infer::cuda {

/// Experts of a router, at most.
inline constexpr uint32_t kMostRouted = 1024;

/// Dynamic shared memory: floats [2·experts + groups + used].
struct MoeRouteParams {
  uint64_t step, logits, bias, ids, weights;  ///< bias 0: none
  uint64_t table, tokens;                     ///< table 0: none
  uint32_t rows;                              ///< gpu::StepRows
  uint32_t logits_stride, ids_stride, weights_stride;
  uint32_t experts, groups, used;
  uint32_t gating;  ///< op::MoeRoute::Gating
  uint32_t normalise, groups_used, group_best;
  float factor;
  float margin;         ///< of SparseMixer
  uint32_t vocabulary;  ///< tokens that the table has
  uint32_t unused;
};
static_assert(sizeof(MoeRouteParams) == 120);

}  // namespace infer::cuda
