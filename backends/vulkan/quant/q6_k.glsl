// Q6_K: engine/quant/q6_k.h.
#define BLOCK 256
#define PLANE0 128
#undef PLANE1
#define PLANE1 64
#undef PLANE2
#define PLANE2 16
#undef PLANE3
#define PLANE3 2

// Piece 4h + 2k + g of a block: 16 bytes, the low nibbles in run k and the high ones in run k + 2.
uvec2 runs(uint i) {
  const uint first = i / 4 * 128 + (i % 4) / 2 * 32 + i % 2 * 16;
  return uvec2(first, first + 64);
}

void decode(Row row, uint i, out float v[32]) {
  const uint b = i / 8;
  const uint h = (i % 8) / 4;
  const uint g = i % 2;
  const float d = half_at(row, 3, b);
  const uvec4 low = words_at(row, 0, i);
  const uvec4 high = words_at(row, 1, 4 * b + 2 * h + g);
  [[unroll]] for (uint r = 0; r < 2; ++r) {
    const uint k = (i % 4) / 2 + 2 * r;
    const uint s = byte_at(row, 2, 16 * b + 8 * h + 2 * k + g);
    const float scale = d * float(int(s << 24) >> 24);
    const uvec4 levels = (r == 0 ? low_nibbles(low) : high_nibbles(low)) |
                         (((high >> (2 * k)) & 0x03030303u) << 4);
    [[unroll]] for (uint l = 0; l < 16; ++l) {
      v[16 * r + l] = scale * (float(byte_of(levels, l)) - 32.0);
    }
  }
}
