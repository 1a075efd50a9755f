// Weights as quant/<type>.glsl decode them, in pieces of 32 neighbours. A twin defines
//   BLOCK, PLANE0 …             elements of a block and bytes of its part in each plane (neighbours.h,
//                               backends/gpu/weight_layout.cpp)
//   void decode(row, i, out v)  piece i
// in the arithmetic of engine/quant/<type>.h, so that the values are equal to the last bit.
#include "backends/vulkan/glsl/common.glsl"
#extension GL_KHR_shader_subgroup_ballot : require

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

// Where the first units of one row are in each plane: that of the first row of the subgroup, which all
// lanes have in common, and the bytes from there to this lane's. So most of the arithmetic of addresses
// is the subgroup's, and a lane's is of 32 bits.
struct Row {
  uint64_t p0, p1, p2, p3, p4;
  uint l0, l1, l2, l3, l4;
};

// Where the planes of a weight begin.
struct Planes {
  uint64_t w;
  uvec4 offsets;  // of 1 and up: from w in units of 16 bytes
};

// Row `row` of a matrix of n rows of k elements. Rows do not fall from lane to lane.
#define row_at(planes, k, n, matrix, row) \
  row_of(planes, ((k) + BLOCK - 1) / BLOCK, (matrix) * groups_of(n) + (row) / TOGETHER, \
         (row) % TOGETHER)
#define groups_of(n) (((n) + TOGETHER - 1) / TOGETHER)
#define row_of(planes, blocks, group, place)                                              \
  Row(planes.w + group_in(PLANE0, blocks, group),                                         \
      planes.w + uint64_t(planes.offsets.x) * 16 + group_in(PLANE1, blocks, group),       \
      planes.w + uint64_t(planes.offsets.y) * 16 + group_in(PLANE2, blocks, group),       \
      planes.w + uint64_t(planes.offsets.z) * 16 + group_in(PLANE3, blocks, group),       \
      planes.w + uint64_t(planes.offsets.w) * 16 + group_in(PLANE4, blocks, group),       \
      lane_in(PLANE0, blocks, group, place), lane_in(PLANE1, blocks, group, place),       \
      lane_in(PLANE2, blocks, group, place), lane_in(PLANE3, blocks, group, place),       \
      lane_in(PLANE4, blocks, group, place))
#define group_in(plane, blocks, group) \
  (uint64_t(subgroupBroadcastFirst(group)) * ((blocks) * (plane) * TOGETHER))
#define lane_in(plane, blocks, group, place)                                            \
  (((group) - subgroupBroadcastFirst(group)) * ((blocks) * (plane) * TOGETHER) + (place) * UNIT(plane))

// Index of number i of a row's part of a plane, `per` to a unit.
uint number_at(uint i, uint per, uint together) { return i / per * (per * together) + i % per; }

uint half_in(uint64_t plane, uint lane, uint i) {
  return uint(U16(plane + uint64_t(i * 2) + uint64_t(lane)).v[0]);
}
uint byte_in(uint64_t plane, uint lane, uint i) {
  return uint(U8(plane + uint64_t(i) + uint64_t(lane)).v[0]);
}
uint word_in(uint64_t plane, uint lane, uint i) {
  return U32(plane + uint64_t(i * 4) + uint64_t(lane)).v[0];
}
uvec2 pair_in(uint64_t plane, uint lane, uint i) {
  return unpackUint2x32(Pair(plane + uint64_t(i * 8) + uint64_t(lane)).v);
}
// 128 bits in two halves: some drivers load number by number, and so halve their work.
uvec4 words_in(uint64_t plane, uint lane, uint i) {
  const u64vec2 halves = U64x2(plane + uint64_t(i * 16) + uint64_t(lane)).v[0];
  return uvec4(unpackUint2x32(halves.x), unpackUint2x32(halves.y));
}

// Numbers of a row's part of a plane.
#define half_bits(row, plane, i) \
  half_in(row.p##plane, row.l##plane, number_at(i, UNIT(PLANE##plane) / 2, TOGETHER))
#define half_at(row, plane, i) half_of(half_bits(row, plane, i))
#define byte_at(row, plane, i) \
  byte_in(row.p##plane, row.l##plane, number_at(i, UNIT(PLANE##plane), TOGETHER))
#define word_at(row, plane, i) \
  word_in(row.p##plane, row.l##plane, number_at(i, UNIT(PLANE##plane) / 4, TOGETHER))
// Words 2i and 2i + 1 of a plane of units of 16 bytes.
#define pair_of_words(row, plane, i) \
  pair_in(row.p##plane, row.l##plane, number_at(i, 2, TOGETHER))
#define words_at(row, plane, i) words_in(row.p##plane, row.l##plane, (i) * TOGETHER)

// Byte i of a vector of 16.
uint byte_of(uvec4 words, uint i) { return bitfieldExtract(words[i / 4], int(i % 4 * 8), 8); }
int signed_byte_of(uvec4 words, uint i) {
  return bitfieldExtract(int(words[i / 4]), int(i % 4 * 8), 8);
}

// The levels of a piece, four to a word, from what neighbours.h stores together.
void put_four_bits(uvec4 words, out uint q[8]) {
  [[unroll]] for (uint w = 0; w < 4; ++w) {
    q[w] = words[w] & 0x0f0f0f0fu;
    q[w + 4] = (words[w] >> 4) & 0x0f0f0f0fu;
  }
}
uint two_bits(uvec2 words, uint w) { return (words[w / 4] >> (w % 4 * 2)) & 0x03030303u; }
void put_two_bits(uvec2 words, out uint q[8]) {
  [[unroll]] for (uint w = 0; w < 8; ++w) q[w] = two_bits(words, w);
}
void add_two_bits(uvec2 words, uint shift, inout uint q[8]) {
  [[unroll]] for (uint w = 0; w < 8; ++w) q[w] |= two_bits(words, w) << shift;
}
void add_one_bit(uint word, uint shift, inout uint q[8]) {
  [[unroll]] for (uint w = 0; w < 8; ++w) q[w] |= ((word >> w) & 0x01010101u) << shift;
}
