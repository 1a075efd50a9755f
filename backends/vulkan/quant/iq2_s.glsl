// IQ2_S: engine/quant/iq2_s.h.
#include "backends/vulkan/glsl/iq.glsl"
#define BLOCK 256
#define PLANE0 32
#undef PLANE1
#define PLANE1 32
#undef PLANE2
#define PLANE2 8
#undef PLANE3
#define PLANE3 8
#undef PLANE4
#define PLANE4 2

void decode(Row row, uint i, out float v[32]) {
  const uint s = byte_at(row, 3, i);
  const uint high = byte_at(row, 2, i);
  const uint low = word_at(row, 0, i);
  const uint signs = word_at(row, 1, i);
  const float d = half_at(row, 4, i / 8);
  [[unroll]] for (uint l = 0; l < 4; ++l) {
    const float scale = d * (0.5 + float((s >> (l / 2 * 4)) & 15)) * 0.25;
    const uint index = ((low >> (8 * l)) & 255) | (((high >> (2 * l)) & 3) << 8);
    put_iq2(grid_entry(kIq2SGrid, index), (signs >> (8 * l)) & 255, scale, 8 * l, v);
  }
}
