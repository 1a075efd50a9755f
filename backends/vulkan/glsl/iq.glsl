// What the IQ types share: engine/quant/iq_decode.h. The grids lie in memory (backends/gpu/tables.h).
const uint kIq2XxsGrid = 0;
const uint kIq2XsGrid = 256;
const uint kIq2SGrid = kIq2XsGrid + 512;
const uint kIq3XxsGrid = kIq2SGrid + 1024;
const uint kIq3SGrid = kIq3XxsGrid + 256;
const uint kIq1Grid = kIq3SGrid + 512;

uint grid_entry(uint grid, uint index) { return uint(U16(tables).v[grid + index]); }

uint iq_signs(uint seven) {
  const uint low = seven & 127;
  return low | ((uint(bitCount(low)) & 1) << 7);
}

float with_sign(float value, uint signs, uint i) {
  return uintBitsToFloat(floatBitsToUint(value) ^ (((signs >> i) & 1) << 31));
}

// Levels 8, 25, 43.
void put_iq2(uint entry, uint signs, float scale, uint to, inout float v[32]) {
  [[unroll]] for (uint i = 0; i < 8; ++i) {
    const uint level = (0x002b1908u >> (((entry >> (2 * i)) & 3) * 8)) & 255;
    v[to + i] = with_sign(scale * float(level), signs, i);
  }
}

// Levels 4, 12, … 52, 62.
uint iq3_xxs_level(uint code) { return 4 + 8 * code + (code == 7 ? 2 : 0); }
// Levels 1, 3, … 15.
uint iq3_s_level(uint code) { return 1 + 2 * code; }

// Levels −1, 0, 1.
void put_iq1(uint entry, float delta, float scale, uint to, inout float v[32]) {
  [[unroll]] for (uint i = 0; i < 8; ++i) {
    v[to + i] = scale * (float(int((entry >> (2 * i)) & 3) - 1) + delta);
  }
}
