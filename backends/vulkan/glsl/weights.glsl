// Weights as quant/<type>.glsl decode them: pieces of 32, in two runs of 16 neighbours each. A twin
// defines
//   BLOCK, PLANE0 …             elements of a block and bytes of its part in each plane (packing.cpp)
//   uvec2 runs(i)               where in the row the two runs of piece i begin
//   void decode(row, i, out v)  the piece: v[0..15] the first run, v[16..31] the second
// in the arithmetic of engine/quant/<type>.h, so that the values are equal to the last bit.
#include "backends/vulkan/glsl/common.glsl"

#define PLANE1 0
#define PLANE2 0
#define PLANE3 0
#define PLANE4 0

const uint kPiece = 32;

// Set by main: types of one element a block read no further, and where the codebooks lie.
uint elements_of_row;
uint64_t tables;

// Where the parts of one row of weights begin in each plane.
struct Row {
  uint64_t p0, p1, p2, p3, p4;
};

// Where the planes of a weight begin.
struct Planes {
  uint64_t w;
  uvec4 offsets;  // of 1 and up: from w in units of 16 bytes
};

// Row `row` of a matrix of n rows of k elements.
#define row_at(planes, k, n, matrix, row) \
  row_of_block(planes, (uint64_t(matrix) * (n) + (row)) * ((k) / BLOCK))
#define row_of_block(planes, block)                                  \
  Row(planes.w + (block) * PLANE0,                                   \
      planes.w + uint64_t(planes.offsets.x) * 16 + (block) * PLANE1, \
      planes.w + uint64_t(planes.offsets.y) * 16 + (block) * PLANE2, \
      planes.w + uint64_t(planes.offsets.z) * 16 + (block) * PLANE3, \
      planes.w + uint64_t(planes.offsets.w) * 16 + (block) * PLANE4)

uint half_bits(uint64_t plane, uint i) { return uint(U16(plane).v[i]); }
float half_at(uint64_t plane, uint i) { return half_of(half_bits(plane, i)); }
uint byte_at(uint64_t plane, uint i) { return uint(U8(plane).v[i]); }
uint word_at(uint64_t plane, uint i) { return U32(plane).v[i]; }
// 128 bits in two halves: some drivers load number by number, and so halve their work.
uvec4 words_at(uint64_t plane, uint i) {
  const u64vec2 halves = U64x2(plane).v[i];
  return uvec4(unpackUint2x32(halves.x), unpackUint2x32(halves.y));
}
// Byte i of a vector of 16.
uint byte_of(uvec4 words, uint i) { return bitfieldExtract(words[i / 4], int(i % 4 * 8), 8); }
int signed_byte_of(uvec4 words, uint i) {
  return bitfieldExtract(int(words[i / 4]), int(i % 4 * 8), 8);
}

// Runs of types whose pieces are 32 neighbours.
uvec2 plain_runs(uint i) { return uvec2(kPiece * i, kPiece * i + 16); }
