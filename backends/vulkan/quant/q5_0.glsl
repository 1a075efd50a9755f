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
  [[unroll]] for (uint j = 0; j < 16; ++j) {
    const uint b = byte_of(q, j);
    const uint low = (b & 15) | (((fifth >> j) & 1) << 4);
    const uint high = (b >> 4) | (((fifth >> (j + 16)) & 1) << 4);
    v[j] = float(int(low) - 16) * d;
    v[j + 16] = float(int(high) - 16) * d;
  }
}
