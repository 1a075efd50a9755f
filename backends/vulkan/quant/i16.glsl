// I16.
#define BLOCK 1
#define PLANE0 2

float decode_one(Row row, uint i) { return float(int(half_bits(row, 0, i) << 16) >> 16); }
#include "backends/vulkan/glsl/scalar.glsl"
