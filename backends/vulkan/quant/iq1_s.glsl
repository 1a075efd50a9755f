// IQ1_S: engine/quant/iq1_s.h.
#include "backends/vulkan/glsl/iq.glsl"
#define BLOCK 256
#define PLANE0 32
#undef PLANE1
#define PLANE1 16
#undef PLANE2
#define PLANE2 2

void decode(Row row, uint i, out float v[32]) {
  const uint high = half_bits(row, 1, i);
  const uint low = word_at(row, 0, i);
  const float scale = half_at(row, 2, i / 8) * float(2 * ((high >> 12) & 7) + 1);
  const float delta = (high & 0x8000u) != 0 ? -0.125 : 0.125;
  [[unroll]] for (uint l = 0; l < 4; ++l) {
    const uint index = ((low >> (8 * l)) & 255) | (((high >> (3 * l)) & 7) << 8);
    put_iq1(grid_entry(kIq1Grid, index), delta, scale, 8 * l, v);
  }
}
