// Embeddings of tables in the fragment layout, included after the header of a type by a generated
// unit that defines INFER_TYPE. A lane decodes what it would multiply, and keeps the row's part.
#include "backends/cuda/device/step.h"
#include "backends/cuda/weights/embed.h"

namespace infer::cuda::INFER_TYPE {

INFER_KERNEL(INFER_JOIN(embed_tiles_, INFER_TYPE), EmbedParams, kEmbedThreads, 1) {
  const uint32_t r = block_y();
  if (r >= step_rows(p.step, p.rows)) return;
  const int32_t id = Global<const int32_t>(p.tokens)[r];  // below 0: a piece of an image
  const uint32_t known = id < 0 ? 0 : static_cast<uint32_t>(id);
  const uint32_t token = known < p.vocabulary ? known : p.vocabulary - 1;
  const uint32_t row = token % 16;
  const uint32_t units = (p.width + 64 * Weights::kTiles - 1) / (64 * Weights::kTiles);
  const Place place = place_of<Weights>(p.w, p.planes, token / 16, units);
  const Global<float> y(p.y + uint64_t{r} * p.y_stride * 4);
  if (lane() / 4 != row % 8) return;
  for (uint32_t unit = block_x() * (threads() / 32) + warp(); unit < units;
       unit += grid_x() * (threads() / 32)) {
    const typename Weights::Raw raw = Weights::load(place, unit);
#pragma unroll
    for (uint32_t tile = 0; tile < Weights::kTiles; ++tile) {
      float v[8][4];
      Weights::values(raw, tile, v);
#pragma unroll
      for (uint32_t four = 0; four < 4; ++four) {
        const uint32_t to = (unit * Weights::kTiles + tile) * 64 + four * 16 + lane() % 4 * 4;
#pragma unroll
        for (uint32_t byte = 0; byte < 4; ++byte) {
          const float value = row < 8 ? v[2 * four][byte] : v[2 * four + 1][byte];
          if (to + byte < p.width) y[to + byte] = id < 0 ? 0.0f : value * p.factor;
        }
      }
    }
  }
}

}  // namespace infer::cuda::INFER_TYPE
