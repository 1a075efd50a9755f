// Q1_0: engine/quant/q1_0.h.
#define BLOCK 128
#define PLANE0 16
#undef PLANE1
#define PLANE1 2

void decode(Row row, uint i, out float v[32]) {
  const float d = half_at(row, 1, i / 4);
  const uint q = word_at(row, 0, i);
  [[unroll]] for (uint t = 0; t < 32; ++t) v[t] = ((q >> t) & 1) != 0 ? d : -d;
}
