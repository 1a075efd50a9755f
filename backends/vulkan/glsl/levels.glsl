// Codebooks of 16 levels: engine/quant/{iq4_levels,fp4_levels,nf4,fp4}.h. They are computed or
// selected, for drivers turn arrays of constants into long chains of branches. A type names its own as
// CODEBOOK, and decodes by codebook(), which glsl/codebook.glsl defines for each kind of shader.
float codebook(uint code);
uint codebook_byte(uint code);  // of products of integers

float iq4_level(uint code) {
  const uint low = code < 4 ? 0xbfad9881u : 0xf6eaddcfu;
  const uint high = code < 12 ? 0x26190d01u : 0x71594535u;
  return float(bitfieldExtract(int(code < 8 ? low : high), int(code & 3) * 8, 8));
}

float fp4_level(uint code) {
  const uint word = (code & 4) == 0 ? 0x03020100u : 0x0c080604u;
  const float size = float((word >> ((code & 3) * 8)) & 255);
  return (code & 8) == 0 ? size : -size;
}

// One of 16 by the bits of the code.
#define SELECT2(c, a, b) ((c & 1) == 0 ? a : b)
#define SELECT4(c, a, b, d, e) ((c & 2) == 0 ? SELECT2(c, a, b) : SELECT2(c, d, e))

float nf4_value(uint c) {
  const float a = SELECT4(c, -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453);
  const float b =
      SELECT4(c, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0);
  const float d =
      SELECT4(c, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224);
  const float e = SELECT4(c, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0);
  return (c & 8) == 0 ? ((c & 4) == 0 ? a : b) : ((c & 4) == 0 ? d : e);
}

float fp4_value(uint c) {
  const float a = SELECT4(c, 0.0, 0.0625 / 12.0, 8.0 / 12.0, 1.0);
  const float b = SELECT4(c, 4.0 / 12.0, 6.0 / 12.0, 2.0 / 12.0, 3.0 / 12.0);
  const float size = (c & 4) == 0 ? a : b;
  return (c & 8) == 0 ? size : -size;
}
