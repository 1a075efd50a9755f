// Sums and maxima over a workgroup of 64 invocations; all get the result. Sums run in an order that
// the device alone decides. One barrier each, so two calls in a row need different `turn`s.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

const uint kLanes = 64;
layout(local_size_x = kLanes) in;
shared float reduced[2][kLanes];

float sum_of(float x, uint turn) {
  const float part = subgroupAdd(x);
  if (subgroupElect()) reduced[turn][gl_SubgroupID] = part;
  barrier();
  float sum = 0;
  for (uint i = 0; i < gl_NumSubgroups; ++i) sum += reduced[turn][i];
  return sum;
}

float max_of(float x, uint turn) {
  const float part = subgroupMax(x);
  if (subgroupElect()) reduced[turn][gl_SubgroupID] = part;
  barrier();
  float most = reduced[turn][0];
  for (uint i = 1; i < gl_NumSubgroups; ++i) most = max(most, reduced[turn][i]);
  return most;
}
