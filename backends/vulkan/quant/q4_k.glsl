// Q4_K: engine/quant/q4_k.h.
#include "backends/vulkan/glsl/k_scales.glsl"
#define BLOCK 256
#define PLANE0 128
#undef PLANE1
#define PLANE1 16

// Piece 2c + g of a block: 16 bytes, the low nibbles in one sub-block and the high ones in the next.
uvec2 runs(uint i) {
  const uint first = i / 2 * 64 + i % 2 * 16;
  return uvec2(first, first + 32);
}

void decode(Row row, uint i, out float v[32]) {
  const uint b = i / 8;
  const uint c = (i % 8) / 2;
  const uvec4 head = words_at(row, 1, b);
  const uvec4 q = words_at(row, 0, i);
  const float d = half_of(head.x & 0xffffu);
  const float dmin = half_of(head.x >> 16);
  const uvec4 k = k_scales(head, c);
  [[unroll]] for (uint r = 0; r < 2; ++r) {
    const float scale = d * float(k[r]);
    const float least = dmin * float(k[2 + r]);
    const uvec4 levels = r == 0 ? low_nibbles(q) : high_nibbles(q);
    [[unroll]] for (uint l = 0; l < 16; ++l) {  // a level times the scale is exact
      v[16 * r + l] = fma(scale, float(byte_of(levels, l)), -least);
    }
  }
}
