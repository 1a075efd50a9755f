// IQ3_S: engine/quant/iq3_s.h.
#include "backends/vulkan/glsl/iq.glsl"
#define BLOCK 256
#define PLANE0 64
#undef PLANE1
#define PLANE1 32
#undef PLANE2
#define PLANE2 8
#undef PLANE3
#define PLANE3 4
#undef PLANE4
#define PLANE4 2

void decode(Row row, uint i, out float v[32]) {
  const uint s = (byte_at(row, 3, i / 2) >> (i % 2 * 4)) & 15;
  const float scale = half_at(row, 4, i / 8) * float(1 + 2 * s);
  const uint high = byte_at(row, 2, i);
  const uint all_signs = word_at(row, 1, i);
  const uvec2 low = uvec2(word_at(row, 0, 2 * i), word_at(row, 0, 2 * i + 1));
  [[unroll]] for (uint l = 0; l < 8; ++l) {
    const uint index = ((low[l / 4] >> (8 * (l % 4))) & 255) | (((high >> l) & 1) << 8);
    const uint signs = all_signs >> (4 * l);
    const uint entry = grid_entry(kIq3SGrid, index);
    [[unroll]] for (uint t = 0; t < 4; ++t) {
      v[4 * l + t] = with_sign(scale * float(iq3_s_level((entry >> (4 * t)) & 7)), signs, t);
    }
  }
}
