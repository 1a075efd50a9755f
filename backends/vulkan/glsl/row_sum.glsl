// float ROW_SUM(uint n): the sum of ROW_TERM(i) for i < n, by all 64 invocations of a workgroup, with
// the same bits in each: 64 sums of every 64th term, then all of them in order. A shader includes this
// file once for each sum, after it has defined both names.
#ifndef ROW_SUM_PARTS
#define ROW_SUM_PARTS
layout(local_size_x = 64) in;
shared float row_sum_parts[64];

float sum_of_parts(float part) {
  barrier();  // of the sum before
  row_sum_parts[gl_LocalInvocationIndex] = part;
  barrier();
  precise float all = 0;
  for (uint s = 0; s < 64; ++s) all += row_sum_parts[s];
  return all;
}
#endif

float ROW_SUM(uint n) {
  precise float part = 0;
  for (uint i = gl_LocalInvocationIndex; i < n; i += 64) part += ROW_TERM(i);
  return sum_of_parts(part);
}
#undef ROW_SUM
#undef ROW_TERM
