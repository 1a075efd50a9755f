// Q4_0: engine/quant/q4_0.h.
#define BLOCK 32
#define PLANE0 16
#undef PLANE1
#define PLANE1 2

uvec2 runs(uint i) { return plain_runs(i); }

void decode(Row row, uint i, out float v[32]) {
  const float d = half_at(row, 1, i);
  const uvec4 q = words_at(row, 0, i);
  [[unroll]] for (uint j = 0; j < 16; ++j) {
    const uint b = byte_of(q, j);
    v[j] = float(int(b & 15) - 8) * d;
    v[j + 16] = float(int(b >> 4) - 8) * d;
  }
}
