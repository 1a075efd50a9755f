// Weights that are codes of four bits, of levels in a codebook. A type defines, before this file,
//   void codes(row, i, out q, out scale)
// which gives the codes of piece i, those of its second half in the upper bits of the bytes, and the
// scales of its two halves.
#define CODES

uint code_of(uint word, uint t) { return bitfieldExtract(word, int(t % 4 * 8 + t / 16 * 4), 4); }

#ifndef INTEGER
// As glsl/from_levels.glsl has them, but that a word of the piece's second half is that of its first.
#define LEVELS

void levels(Row row, uint i, out uint q[8], out vec2 scale, out vec2 least) {
  uvec4 words;
  codes(row, i, words, scale);
  least = vec2(0);
  [[unroll]] for (uint w = 0; w < 8; ++w) q[w] = words[w % 4];
}

vec2 least_of(vec2 scale, vec2 least) { return least; }

float weight_of(uint q[8], uint t, vec2 scale, vec2 least) {
  return scale[t / 16] * codebook(code_of(q[t / 4], t));
}

void decode(Row row, uint i, out float v[32]) {
  uint q[8];
  vec2 scale;
  vec2 least;
  levels(row, i, q, scale, least);
  [[unroll]] for (uint t = 0; t < 32; ++t) v[t] = weight_of(q, t, scale, least);
}
#endif
