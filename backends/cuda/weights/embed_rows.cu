// Embeddings of tables in the plain layout, included after the header of a type by a generated unit
// that defines INFER_TYPE. A thread decodes a piece of 32 elements.
#include "backends/cuda/device/step.h"
#include "backends/cuda/weights/embed.h"

namespace infer::cuda::INFER_TYPE {

INFER_KERNEL(INFER_JOIN(embed_rows_, INFER_TYPE), EmbedParams, kEmbedThreads, 1) {
  const uint32_t i = block_x() * threads() + thread();
  const uint32_t r = block_y();
  if (i * kPiece >= p.width || r >= step_rows(p.step, p.rows)) return;
  const int32_t id = Global<const int32_t>(p.tokens)[r];  // below 0: a piece of an image
  const uint32_t known = id < 0 ? 0 : static_cast<uint32_t>(id);
  const uint32_t token = known < p.vocabulary ? known : p.vocabulary - 1;
  const Row row = row_of(p.w, p.planes, step_tables(p.step), p.width, p.vocabulary, 0, token);
  float values[32];
  decode(row, i, values);
  const Runs of_piece = runs(i);
  const Global<float> y(p.y + uint64_t{r} * p.y_stride * 4);
#pragma unroll
  for (uint32_t t = 0; t < 32; ++t) {
    const uint32_t to = (t < 16 ? of_piece.first : of_piece.second - 16) + t;
    if (to < p.width) y[to] = id < 0 ? 0.0f : values[t] * p.factor;
  }
}

}  // namespace infer::cuda::INFER_TYPE
