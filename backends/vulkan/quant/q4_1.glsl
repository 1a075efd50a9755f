// Q4_1: engine/quant/q4_1.h.
#define BLOCK 32
#define PLANE0 16
#undef PLANE1
#define PLANE1 4

uvec2 runs(uint i) { return plain_runs(i); }

void decode(Row row, uint i, out float v[32]) {
  const uint dm = word_at(row, 1, i);
  const float d = half_of(dm & 0xffffu);
  const float m = half_of(dm >> 16);
  const uvec4 q = words_at(row, 0, i);
  const uvec4 low = low_nibbles(q);
  const uvec4 high = high_nibbles(q);
  [[unroll]] for (uint j = 0; j < 16; ++j) {  // a level times d is exact
    v[j] = fma(float(byte_of(low, j)), d, m);
    v[j + 16] = fma(float(byte_of(high, j)), d, m);
  }
}
