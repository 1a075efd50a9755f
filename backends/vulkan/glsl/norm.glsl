// The factor of a row's norm, by all invocations of a workgroup of any size: 256 sums of every 256th
// square, then 16 of 16 of them, then all. Call it once. A shader defines NORM_VALUE(i), element i of
// the row, before this file.
const uint kSums = 256;
shared float sums[kSums];
shared float sums_of_16[16];

const uint kTogether = 8;  // loads that wait for none of each other

float norm_factor(uint n, float eps) {
  const uint size = gl_WorkGroupSize.x;
  for (uint s = gl_LocalInvocationIndex; s < kSums; s += size) {
    float squares = 0;
    uint i = s;
    for (; i + (kTogether - 1) * kSums < n; i += kTogether * kSums) {
      float values[kTogether];
      [[unroll]] for (uint t = 0; t < kTogether; ++t) values[t] = NORM_VALUE(i + t * kSums);
      [[unroll]] for (uint t = 0; t < kTogether; ++t) squares = fma(values[t], values[t], squares);
    }
    for (; i < n; i += kSums) squares = fma(NORM_VALUE(i), NORM_VALUE(i), squares);
    sums[s] = squares;
  }
  barrier();
  for (uint s = gl_LocalInvocationIndex; s < 16; s += size) {
    precise float sum = 0;
    for (uint i = 0; i < 16; ++i) sum += sums[16 * s + i];
    sums_of_16[s] = sum;
  }
  barrier();
  precise float all = 0;
  for (uint s = 0; s < 16; ++s) all += sums_of_16[s];
  precise float mean = all / float(n);
  mean += eps;
  return 1.0 / sqrt(mean);
}

// precise: the same bits wherever it is computed.
float normed_value(float value, float factor) {
  precise float y = value * factor;
  return y;
}
float weighted_value(float value, float weight) {
  precise float y = value * weight;
  return y;
}
