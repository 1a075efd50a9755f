// Rows of a table of embeddings.
#pragma once

#include <cstdint>

namespace infer::cuda {

inline constexpr int kEmbedThreads = 64;

struct EmbedParams {
  uint64_t step, w, tokens, y;
  uint32_t width, vocabulary, y_stride;
  uint32_t rows;  ///< gpu::StepRows
  float factor;
  uint32_t planes[4];  ///< of 1 and up: from w in units of 16 bytes
  uint32_t unused;
};
static_assert(sizeof(EmbedParams) == 72);

}  // namespace infer::cuda
