// IQ2_XS: engine/quant/iq2_xs.h.
#include "backends/vulkan/glsl/iq.glsl"
#define BLOCK 256
#define PLANE0 64
#undef PLANE1
#define PLANE1 8
#undef PLANE2
#define PLANE2 2

void decode(Row row, uint i, out float v[32]) {
  const uvec2 levels = uvec2(word_at(row, 0, 2 * i), word_at(row, 0, 2 * i + 1));
  const uint s = byte_at(row, 1, i);
  const float d = half_at(row, 2, i / 8);
  [[unroll]] for (uint l = 0; l < 4; ++l) {
    const float scale = d * (0.5 + float((s >> (l / 2 * 4)) & 15)) * 0.25;
    const uint q = (levels[l / 2] >> (l % 2 * 16)) & 0xffffu;
    put_iq2(grid_entry(kIq2XsGrid, q & 511), iq_signs(q >> 9), scale, 8 * l, v);
  }
}
