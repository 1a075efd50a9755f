// Q2_0: engine/quant/q2_0.h.
#define BLOCK 64
#define PLANE0 16
#undef PLANE1
#define PLANE1 2

void decode(Row row, uint i, out float v[32]) {
  const float d = half_at(row, 1, i / 2);
  [[unroll]] for (uint r = 0; r < 2; ++r) {
    const uint q = word_at(row, 0, 2 * i + r);
    [[unroll]] for (uint t = 0; t < 16; ++t) {
      v[16 * r + t] = float(int((q >> (2 * t)) & 3) - 1) * d;
    }
  }
}
