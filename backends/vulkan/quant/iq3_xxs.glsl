// IQ3_XXS: engine/quant/iq3_xxs.h.
#include "backends/vulkan/glsl/iq.glsl"
#define BLOCK 256
#define PLANE0 64
#undef PLANE1
#define PLANE1 32
#undef PLANE2
#define PLANE2 2

void decode(Row row, uint i, out float v[32]) {
  const uint word = word_at(row, 1, i);
  const float scale = half_at(row, 2, i / 8) * (0.5 + float(word >> 28)) * 0.5;
  const uvec2 low = uvec2(word_at(row, 0, 2 * i), word_at(row, 0, 2 * i + 1));
  [[unroll]] for (uint l = 0; l < 8; ++l) {
    const uint index = (low[l / 4] >> (8 * (l % 4))) & 255;
    const uint signs = iq_signs(word >> (l / 2 * 7)) >> (l % 2 * 4);
    const uint entry = grid_entry(kIq3XxsGrid, index);
    [[unroll]] for (uint t = 0; t < 4; ++t) {
      v[4 * l + t] = with_sign(scale * float(iq3_xxs_level((entry >> (4 * t)) & 7)), signs, t);
    }
  }
}
