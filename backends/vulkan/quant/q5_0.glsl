// Q5_0: engine/quant/q5_0.h.
#define BLOCK 32
#define PLANE0 16
#undef PLANE1
#define PLANE1 4
#undef PLANE2
#define PLANE2 2

uvec2 runs(uint i) { return plain_runs(i); }

void decode(Row row, uint i, out float v[32]) {
  const float d = half_at(row, 2, i);
  const uint fifth = word_at(row, 1, i);
  const uvec4 q = words_at(row, 0, i);
  const uvec4 low = low_nibbles(q) | fifth_bits(fifth);
  const uvec4 high = high_nibbles(q) | fifth_bits(fifth >> 16);
  const float least = -16.0 * d;  // products with levels and these are exact
  [[unroll]] for (uint j = 0; j < 16; ++j) {
    v[j] = fma(float(byte_of(low, j)), d, least);
    v[j + 16] = fma(float(byte_of(high, j)), d, least);
  }
}
