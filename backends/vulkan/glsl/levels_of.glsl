// Weights as integers, for types with a file in quant/levels: the piece of quant/<type>.glsl as
//   value = scale of its run · (level − OFFSET) [− least of its run, with LEAST]
// SINGLE: both runs have the same scale. A file defines
//   void levels(row, i, out q, out scale, out least)   q[0..3] the first run, four levels a word
#include "backends/vulkan/glsl/dot.glsl"
#define OFFSET 0

// Bits of every byte, from `shift` on.
int bits_of(uint word, uint shift, uint mask) { return int((word >> shift) & (mask * 0x01010101u)); }
