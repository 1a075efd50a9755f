// TQ2_0: engine/quant/tq2_0.h.
#define BLOCK 256
#define PLANE0 64
#undef PLANE1
#define PLANE1 2

void decode(Row row, uint i, out float v[32]) {
  const float d = half_at(row, 1, i / 8);
  const uint first = 4 * (i / 8) + (i % 8) / 4 * 2;
  const uvec4 low = words_at(row, 0, first);
  const uvec4 high = words_at(row, 0, first + 1);
  const uint shift = i % 4 * 2;
  [[unroll]] for (uint l = 0; l < 16; ++l) {
    v[l] = float(int((byte_of(low, l) >> shift) & 3) - 1) * d;
    v[l + 16] = float(int((byte_of(high, l) >> shift) & 3) - 1) * d;
  }
}
