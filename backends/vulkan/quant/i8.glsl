// I8.
#define BLOCK 1
#define PLANE0 1

float decode_one(Row row, uint i) { return float(int(byte_at(row, 0, i) << 24) >> 24); }
#include "backends/vulkan/glsl/scalar.glsl"
