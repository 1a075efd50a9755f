// TQ1_0: engine/quant/tq1_0.h.
#define BLOCK 256
#define PLANE0 48
#undef PLANE1
#define PLANE1 4
#undef PLANE2
#define PLANE2 2

// The digit of a byte that 3^n brings to the top.
float digit(uint byte, uint power, float d) {
  const uint rest = (byte * power) & 255;
  return float(int((rest * 3) >> 8) - 1) * d;
}

uint power_of(uint n) { return n == 0 ? 1 : n == 1 ? 3 : n == 2 ? 9 : n == 3 ? 27 : 81; }

// Five digits of 32 bytes, then five of 16, then four of 4.
void decode(Row row, uint i, out float v[32]) {
  const uint b = i / 8;
  const uint part = i % 8;
  const float d = half_at(row, 2, b);
  const uvec4 low = words_at(row, 0, 3 * b + (part < 5 ? 0 : 2));
  const uvec4 high = words_at(row, 0, 3 * b + (part < 5 ? 1 : 2));
  const uint last = word_at(row, 1, b);
  const uint first_power = power_of(part < 5 ? part : 2 * part - 10);
  const uint second_power = power_of(part < 5 ? part : 2 * part - 9);
  [[unroll]] for (uint j = 0; j < 16; ++j) {
    v[j] = digit(byte_of(low, j), first_power, d);
    const float other = digit((last >> (j % 4 * 8)) & 255, power_of(j / 4), d);
    v[j + 16] = part == 7 ? other : digit(byte_of(high, j), second_power, d);
  }
}
