// What the IQ types share: engine/quant/iq_decode.h. The grids come from engine/quant/iq_grids.h.
#include "iq_grids.glsl"

const float kIq1Levels[4] = float[4](-1.0, 0.0, 1.0, 0.0);
const float kIq2Levels[4] = float[4](8.0, 25.0, 43.0, 0.0);
const float kIq3XxsLevels[8] = float[8](4.0, 12.0, 20.0, 28.0, 36.0, 44.0, 52.0, 62.0);
const float kIq3SLevels[8] = float[8](1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0);

uint iq_signs(uint seven) {
  const uint low = seven & 127;
  return low | ((uint(bitCount(low)) & 1) << 7);
}

void put_iq2(uint entry, uint signs, float scale, uint to, inout float v[32]) {
  [[unroll]] for (uint i = 0; i < 8; ++i) {
    const float value = scale * kIq2Levels[(entry >> (2 * i)) & 3];
    v[to + i] = ((signs >> i) & 1) != 0 ? -value : value;
  }
}

void put_iq3(uint entry, float levels[8], uint signs, float scale, uint to, inout float v[32]) {
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    const float value = scale * levels[(entry >> (4 * i)) & 7];
    v[to + i] = ((signs >> i) & 1) != 0 ? -value : value;
  }
}

void put_iq1(uint entry, float delta, float scale, uint to, inout float v[32]) {
  [[unroll]] for (uint i = 0; i < 8; ++i) {
    v[to + i] = scale * (kIq1Levels[(entry >> (2 * i)) & 3] + delta);
  }
}
