// IQ1_M: engine/quant/iq1_m.h.
#include "backends/vulkan/glsl/iq.glsl"
#define BLOCK 256
#define PLANE0 32
#undef PLANE1
#define PLANE1 16
#undef PLANE2
#define PLANE2 8

void decode(Row row, uint i, out float v[32]) {
  const uint b = i / 8;
  const uint first = word_at(row, 2, 2 * b);
  const uint second = word_at(row, 2, 2 * b + 1);
  const uint d_bits = ((first >> 12) & 15) | ((first >> 28) << 4) | (((second >> 12) & 15) << 8) |
                      ((second >> 28) << 12);
  const float d = half_of(d_bits);
  const uint scales = half_bits(row, 2, 4 * b + (i % 8) / 2);
  const uint low = word_at(row, 0, i);
  const uint highs = half_bits(row, 1, i);
  [[unroll]] for (uint l = 0; l < 4; ++l) {
    const uint s = (scales >> ((i % 2 * 4 + l) / 2 * 3)) & 7;
    const uint high = highs >> (4 * l);
    const float delta = (high & 8) != 0 ? -0.125 : 0.125;
    const uint index = ((low >> (8 * l)) & 255) | ((high & 7) << 8);
    put_iq1(grid_entry(kIq1Grid, index), delta, d * float(2 * s + 1), 8 * l, v);
  }
}
