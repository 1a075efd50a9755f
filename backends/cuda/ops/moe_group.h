// The places of rows at which experts are used, sorted by expert and cut into groups of at most
// `most`, which a product computes together. One block.
#pragma once

#include <cstdint>

namespace infer::cuda {

inline constexpr int kGroupThreads = 256;
/// Experts of products that group, at most.
inline constexpr int64_t kMostGroupedExperts = 1024;

/// Dynamic shared memory: u32 [3·experts]. What it writes, as i32:
///   [0]                  groups
///   [4 + 4·g …]          of group g: expert, where its places begin, how many there are
///   [places + 2·i …]     a place: along d1 (the use), and the row
struct MoeGroupParams {
  uint64_t step, ids, groups;
  uint32_t rows;  ///< gpu::StepRows
  uint32_t ids_stride;
  uint32_t places;
  uint32_t experts;
  uint32_t used;  ///< by a row
  uint32_t most;  ///< places of a group
};
static_assert(sizeof(MoeGroupParams) == 48);

}  // namespace infer::cuda
