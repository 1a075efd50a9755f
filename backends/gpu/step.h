// What the host writes for kernels before each step. Host and device code both include this.
//
// A StepHeader, then a StepKind for each kind of the cache (KvLayout::kinds), then the inputs of
// the graph.
#pragma once

#include <cstdint>

namespace infer::gpu {

/// Indices of StepHeader::rows.
enum StepRows : uint32_t {
  kTokenRows = 0,
  kOutputRows = 1,
  kGeneratedRows = 2,  ///< of the tokens those that the model made; they come first
};

struct StepHeader {
  uint32_t rows[4];  ///< by StepRows; the last is not used
  uint64_t tables;   ///< address of the constant tables of types
};
static_assert(sizeof(StepHeader) == 24);

/// Where the pages of one kind of the cache are.
struct StepKind {
  uint64_t table;   ///< address of u64 [sequences][stride]: the addresses of pages
  uint32_t stride;  ///< pages of a sequence
  uint32_t unused;
};
static_assert(sizeof(StepKind) == 16);

}  // namespace infer::gpu
