// TQ1_0: engine/quant/tq1_0.h.
#define BLOCK 256
#define PLANE0 48
#undef PLANE1
#define PLANE1 4
#undef PLANE2
#define PLANE2 2

uvec2 runs(uint i) { return plain_runs(i); }

void decode(Row row, uint i, out float v[32]) {
  const uint b = i / 8;
  const uint part = i % 8;
  const float d = half_at(row.p2, b);
  [[unroll]] for (uint t = 0; t < 32; ++t) {
    // Five digits of 32 bytes, then five of 16, then four of 4.
    uint byte;
    uint digit;
    if (part < 5) {
      byte = byte_at(row.p0, 48 * b + t);
      digit = part;
    } else if (part < 7 || t < 16) {
      byte = byte_at(row.p0, 48 * b + 32 + t % 16);
      digit = (part - 5) * 2 + t / 16;
    } else {
      byte = byte_at(row.p1, 4 * b + t % 4);
      digit = t / 4 - 4;
    }
    const uint power[5] = uint[5](1, 3, 9, 27, 81);
    const uint rest = (byte * power[digit]) & 255;
    v[t] = float(int((rest * 3) >> 8) - 1) * d;
  }
}
