// Nothing but products of matrices, in as many chains as hide an instruction's delay: ceilings.cpp.
#include "backends/vulkan/glsl/common.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
  F32 y;
  uint rounds;
};

const uint kChains = 8;

const uint kMostSubgroups = 16;
shared uvec4 staged[kMatrixM * kMatrixN / 4 * kMostSubgroups];

// OpCompositeConstruct
spirv_instruction(id = 80) MatrixA filled_a(float16_t x);
spirv_instruction(id = 80) MatrixB filled_b(float16_t x);

void main() {
  const MatrixA a = filled_a(to_half(float(gl_WorkGroupID.x % 7) * 0.25));
  const MatrixB b = filled_b(to_half(float(gl_SubgroupID) * 0.125));
  MatrixSum sums[kChains];
  [[unroll]] for (uint c = 0; c < kChains; ++c) sums[c] = filled(float(c));
  for (uint r = 0; r < rounds; ++r) {
    [[unroll]] for (uint c = 0; c < kChains; ++c) sums[c] = multiply_add(a, b, sums[c]);
  }
  float all = 0;
  const uint quads = kMatrixM * kMatrixN / 4;
  const uint stage = gl_SubgroupID * quads;
  [[unroll]] for (uint c = 0; c < kChains; ++c) {
    barrier();
    store_sum(staged[stage], sums[c], kRowMajor, kMatrixN / 4, MAKE_AVAILABLE, kWorkgroupScope);
    barrier();
    all += uintBitsToFloat(staged[stage + gl_SubgroupInvocationID % quads].x);
  }
  y.v[gl_GlobalInvocationID.x] = all;
}
