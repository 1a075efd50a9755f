// Weights that are levels of a byte. A type defines, before this file,
//   void levels(row, i, out q, out scale, out least)
// which gives the levels of piece i, four neighbours to a word, and the numbers of its two halves:
//   value = scale · (level − OFFSET)   or, with LEAST,   value = scale · level − least
// SINGLE: both halves have the same numbers. SIGNED: levels are signed bytes.
#ifndef OFFSET
#define OFFSET 0
#endif

#define LEVELS

// What is taken from the levels of each half.
vec2 least_of(vec2 scale, vec2 least) {
#ifdef LEAST
  return least;
#else
  return float(OFFSET) * scale;
#endif
}

// Weight t of a piece. A level times a scale is exact, and so is OFFSET times it: the sum alone is
// rounded.
float weight_of(uint q[8], uint t, vec2 scale, vec2 least) {
  const int shift = int(t % 4 * 8);
#ifdef SIGNED
  return scale[t / 16] * float(bitfieldExtract(int(q[t / 4]), shift, 8));
#else
  return fma(scale[t / 16], float(int(bitfieldExtract(q[t / 4], shift, 8))), -least[t / 16]);
#endif
}

void decode(Row row, uint i, out float v[32]) {
  uint q[8];
  vec2 scale;
  vec2 least;
  levels(row, i, q, scale, least);
  least = least_of(scale, least);
  [[unroll]] for (uint t = 0; t < 32; ++t) v[t] = weight_of(q, t, scale, least);
}
