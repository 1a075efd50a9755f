// F32, and what is converted to it on the way to the device.
#define BLOCK 1
#define PLANE0 4

float decode_one(Row row, uint i) { return uintBitsToFloat(word_at(row, 0, i)); }
#include "backends/vulkan/glsl/scalar.glsl"
