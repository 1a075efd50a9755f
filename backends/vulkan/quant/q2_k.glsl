// Q2_K: engine/quant/q2_k.h.
#define BLOCK 256
#define PLANE0 64
#undef PLANE1
#define PLANE1 16
#undef PLANE2
#define PLANE2 4

// Piece 4h + 2g + p of a block: 16 bytes that hold runs 2p and 2p + 1 of four.
uvec2 runs(uint i) {
  const uint first = i / 8 * 256 + (i % 8) / 4 * 128 + (i % 2) * 64 + (i % 4) / 2 * 16;
  return uvec2(first, first + 32);
}

void decode(Row row, uint i, out float v[32]) {
  const uint b = i / 8;
  const uint h = (i % 8) / 4;
  const uint g = (i % 4) / 2;
  const uint dm = word_at(row, 2, b);
  const float d = half_of(dm & 0xffffu);
  const float dmin = half_of(dm >> 16);
  const uvec4 q = words_at(row, 0, 4 * b + 2 * h + g);
  [[unroll]] for (uint r = 0; r < 2; ++r) {
    const uint k = i % 2 * 2 + r;
    const uint s = byte_at(row, 1, 16 * b + 8 * h + 2 * k + g);
    const float scale = d * float(s & 15);
    const float least = dmin * float(s >> 4);
    const uvec4 levels = (q >> (2 * k)) & 0x03030303u;
    [[unroll]] for (uint l = 0; l < 16; ++l) {  // a level times the scale is exact
      v[16 * r + l] = fma(scale, float(byte_of(levels, l)), -least);
    }
  }
}
