// IQ3_S: engine/quant/iq3_s.h.
#include "iq.glsl"
#define BLOCK 256
#define PLANE0 64
#undef PLANE1
#define PLANE1 32
#undef PLANE2
#define PLANE2 8
#undef PLANE3
#define PLANE3 4
#undef PLANE4
#define PLANE4 2

uvec2 runs(uint i) { return plain_runs(i); }

void decode(Row row, uint i, out float v[32]) {
  const uint s = (byte_at(row.p3, i / 2) >> (i % 2 * 4)) & 15;
  const float scale = half_at(row.p4, i / 8) * float(1 + 2 * s);
  const uint high = byte_at(row.p2, i);
  const uint signs = word_at(row.p1, i);
  [[unroll]] for (uint l = 0; l < 8; ++l) {
    const uint low = (word_at(row.p0, 2 * i + l / 4) >> (8 * (l % 4))) & 255;
    put_iq3(kIq3SGrid[low | (((high >> l) & 1) << 8)], kIq3SLevels, signs >> (4 * l), scale, 4 * l,
            v);
  }
}
