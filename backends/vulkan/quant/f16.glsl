// F16; the last block of a row ends in zeros.
#define BLOCK 32
#define PLANE0 64
#define RAGGED

void decode(Row row, uint i, out float v[32]) {
  [[unroll]] for (uint w = 0; w < 4; ++w) {
    const uvec4 words = words_at(row, 0, 4 * i + w);
    [[unroll]] for (uint t = 0; t < 8; ++t) {
      const uint bits = bitfieldExtract(words[t / 2], int(t % 2 * 16), 16);
      v[8 * w + t] = half_of(bits);
    }
  }
}
