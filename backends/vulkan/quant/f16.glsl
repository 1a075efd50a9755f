// F16.
#define BLOCK 1
#define PLANE0 2

float decode_one(Row row, uint i) { return half_at(row.p0, i); }
#include "backends/vulkan/glsl/scalar.glsl"
