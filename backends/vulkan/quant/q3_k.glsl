// Q3_K: engine/quant/q3_k.h.
#define BLOCK 256
#define PLANE0 64
#undef PLANE1
#define PLANE1 32
#undef PLANE2
#define PLANE2 12
#undef PLANE3
#define PLANE3 2

// Piece 4h + 2g + p of a block: 16 bytes that hold runs 2p and 2p + 1 of four.
uvec2 runs(uint i) {
  const uint first = i / 8 * 256 + (i % 8) / 4 * 128 + (i % 2) * 64 + (i % 4) / 2 * 16;
  return uvec2(first, first + 32);
}

void decode(Row row, uint i, out float v[32]) {
  const uint b = i / 8;
  const uint h = (i % 8) / 4;
  const uint g = (i % 4) / 2;
  const float d = half_at(row, 3, b);
  const uvec4 q = words_at(row, 0, 4 * b + 2 * h + g);
  const uvec4 third = words_at(row, 1, 2 * b + g);
  [[unroll]] for (uint r = 0; r < 2; ++r) {
    const uint k = i % 2 * 2 + r;
    const uint j = 8 * h + 2 * k + g;
    const uint low = (byte_at(row, 2, 12 * b + j % 8) >> (j / 8 * 4)) & 15;
    const uint high = (byte_at(row, 2, 12 * b + 8 + j % 4) >> (j / 4 * 2)) & 3;
    const float scale = d * float(int(low | (high << 4)) - 32);
    const uvec4 levels = ((q >> (2 * k)) & 0x03030303u) |
                         (((third >> (4 * h + k)) & 0x01010101u) << 2);
    [[unroll]] for (uint l = 0; l < 16; ++l) {
      v[16 * r + l] = scale * (float(byte_of(levels, l)) - 4.0);
    }
  }
}
