// IQ3_XXS: engine/quant/iq3_xxs.h.
#include "iq.glsl"
#define BLOCK 256
#define PLANE0 64
#undef PLANE1
#define PLANE1 32
#undef PLANE2
#define PLANE2 2

uvec2 runs(uint i) { return plain_runs(i); }

void decode(Row row, uint i, out float v[32]) {
  const uint word = word_at(row.p1, i);
  const float scale = half_at(row.p2, i / 8) * (0.5 + float(word >> 28)) * 0.5;
  [[unroll]] for (uint l = 0; l < 8; ++l) {
    const uint index = (word_at(row.p0, 2 * i + l / 4) >> (8 * (l % 4))) & 255;
    const uint signs = iq_signs(word >> (l / 2 * 7)) >> (l % 2 * 4);
    put_iq3(kIq3XxsGrid[index], kIq3XxsLevels, signs, scale, 4 * l, v);
  }
}
