// IQ2_XXS: engine/quant/iq2_xxs.h.
#include "backends/vulkan/glsl/iq.glsl"
#define BLOCK 256
#define PLANE0 64
#undef PLANE1
#define PLANE1 2

void decode(Row row, uint i, out float v[32]) {
  const uint indices = word_at(row, 0, 2 * i);
  const uint signs = word_at(row, 0, 2 * i + 1);
  const float scale = half_at(row, 1, i / 8) * (0.5 + float(signs >> 28)) * 0.25;
  [[unroll]] for (uint l = 0; l < 4; ++l) {
    put_iq2(grid_entry(kIq2XxsGrid, (indices >> (8 * l)) & 255), iq_signs(signs >> (7 * l)), scale, 8 * l, v);
  }
}
