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

// Planes of kTogether rows lie side by side (backends/gpu/weight_layout.h): unit u of such a row is at
// (u * kTogether + row) * unit from the group's begin. Types of one element a block lie row by row.
#define TOGETHER (BLOCK == 1 ? 1 : 32)
#define UNIT(plane_bytes) ((plane_bytes) % 16 == 0 ? 16 : (plane_bytes))

// Where the first units of one row are in each plane.
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
  row_of(planes, ((k) + BLOCK - 1) / BLOCK, uint64_t(matrix) * groups_of(n) + (row) / TOGETHER, \
         (row) % TOGETHER)
#define groups_of(n) (((n) + TOGETHER - 1) / TOGETHER)
#define row_of(planes, blocks, group, place)                                                       \
  Row(planes.w + row_in(PLANE0, blocks, group, place),                                             \
      planes.w + uint64_t(planes.offsets.x) * 16 + row_in(PLANE1, blocks, group, place), \
      planes.w + uint64_t(planes.offsets.y) * 16 + row_in(PLANE2, blocks, group, place), \
      planes.w + uint64_t(planes.offsets.z) * 16 + row_in(PLANE3, blocks, group, place), \
      planes.w + uint64_t(planes.offsets.w) * 16 + row_in(PLANE4, blocks, group, place))
#define row_in(plane, blocks, group, place) \
  ((group) * ((blocks) * (plane) * TOGETHER) + (place) * UNIT(plane))

// Index of number i of a row's part of a plane, `per` to a unit.
uint number_at(uint i, uint per, uint together) { return i / per * (per * together) + i % per; }

uint half_in(uint64_t plane, uint i) { return uint(U16(plane).v[i]); }
uint byte_in(uint64_t plane, uint i) { return uint(U8(plane).v[i]); }
uint word_in(uint64_t plane, uint i) { return U32(plane).v[i]; }
// 128 bits in two halves: some drivers load number by number, and so halve their work.
uvec4 words_in(uint64_t plane, uint i) {
  const u64vec2 halves = U64x2(plane).v[i];
  return uvec4(unpackUint2x32(halves.x), unpackUint2x32(halves.y));
}

// Numbers of a row's part of a plane.
#define half_bits(row, plane, i) \
  half_in(row.p##plane, number_at(i, UNIT(PLANE##plane) / 2, TOGETHER))
#define half_at(row, plane, i) half_of(half_bits(row, plane, i))
#define byte_at(row, plane, i) byte_in(row.p##plane, number_at(i, UNIT(PLANE##plane), TOGETHER))
#define word_at(row, plane, i) \
  word_in(row.p##plane, number_at(i, UNIT(PLANE##plane) / 4, TOGETHER))
#define words_at(row, plane, i) words_in(row.p##plane, (i) * TOGETHER)

// Byte i of a vector of 16.
uint byte_of(uvec4 words, uint i) { return bitfieldExtract(words[i / 4], int(i % 4 * 8), 8); }
int signed_byte_of(uvec4 words, uint i) {
  return bitfieldExtract(int(words[i / 4]), int(i % 4 * 8), 8);
}

// Runs of types whose pieces are 32 neighbours.
uvec2 plain_runs(uint i) { return uvec2(kPiece * i, kPiece * i + 16); }
