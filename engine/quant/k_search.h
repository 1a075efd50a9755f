// The search for types of 256 weights whose sub-blocks' scales are whole multiples of a binary16
// scale: the parts are fitted by themselves, then multiples and common scale in turns, each the
// best for the other.
#pragma once

#include "engine/quant/k_scales.h"
#include "engine/quant/search.h"

namespace infer {

/// x in units of the block, as a binary16 scale can hold it.
inline float representable(float scale, float size, uint16_t& bits) {
  bits = f32_to_f16_finite(scale * size);
  return f16_to_f32(bits) / size;
}

inline constexpr int kSearchRounds = 3;

/// x ≈ d·scale·q with whole scales in low..high, low < 0, of each of Parts sub-blocks; q are the
/// values of levels. False where all is zero: then nothing is set.
template <typename Levels, int Parts>
bool search_scaled(const SearchBlock<256>& b, int low, int high, float reach, int trials,
                   uint16_t& d_bits, int* scales, float* q) {
  constexpr int kSize = 256 / Parts;
  float fits[Parts];
  for (int j = 0; j < Parts; ++j) {
    fits[j] = search_scale<Levels, kSize>(b.x + j * kSize, b.w + j * kSize, reach, trials);
  }
  float d = representable(extreme_of(fits, Parts) / static_cast<float>(low), b.size, d_bits);
  if (d == 0) return false;
  for (int round = 0;; ++round) {
    float xq = 0;
    float qq = 0;
    for (int j = 0; j < Parts; ++j) {
      const int middle = round_to_level(fits[j] / d, low, high);
      ScaleMoments best;
      float best_gain = 0;
      scales[j] = 0;
      for (int s = std::max(low, middle - 1); s <= std::min(high, middle + 1); ++s) {
        const float scale = d * static_cast<float>(s);
        if (scale == 0) continue;
        const ScaleMoments m =
            scale_moments<Levels, kSize>(b.x + j * kSize, b.w + j * kSize, 1 / scale);
        if (m.gain(scale) > best_gain) {
          best_gain = m.gain(scale);
          best = m;
          scales[j] = s;
        }
      }
      if (best.qq > 0) fits[j] = best.best();
      const auto s = static_cast<float>(scales[j]);
      xq += s * best.xq;
      qq += s * s * best.qq;
    }
    if (round == kSearchRounds || qq <= 0) break;
    const float next = representable(xq / qq, b.size, d_bits);
    if (next == d || next == 0) break;
    d = next;
  }
  d_bits = f32_to_f16_finite(d * b.size);
  for (int i = 0; i < 256; i += 4) {
    const float inverse = inverse_or_zero(d * static_cast<float>(scales[i / kSize]));
    store4(q + i, Levels::nearest(load4(b.x + i) * inverse));
  }
  return true;
}

/// x ≈ d·scale·q − dmin·min with q in 0..High, scales and minima in 0..most, of each of Parts
/// sub-blocks.
template <int High, int Parts>
void search_affine(const SearchBlock<256>& b, int most, uint16_t& d_bits, uint16_t& dmin_bits,
                   KScale* parts, uint8_t* q) {
  constexpr int kSize = 256 / Parts;
  ScaleMin fits[Parts];
  AffineSums sums[Parts];
  float max_scale = 0;
  float max_min = 0;
  for (int j = 0; j < Parts; ++j) {
    sums[j] = affine_sums<kSize>(b.x + j * kSize, b.w + j * kSize);
    fits[j] = search_scale_min<High, kSize>(b.x + j * kSize, b.w + j * kSize, false);
    max_scale = std::max(max_scale, fits[j].scale);
    max_min = std::max(max_min, fits[j].min);
  }
  float d = representable(max_scale / static_cast<float>(most), b.size, d_bits);
  float dmin = representable(max_min / static_cast<float>(most), b.size, dmin_bits);
  for (int round = 0;; ++round) {
    // Normal equations of (d, dmin).
    float a = 0, c = 0, e = 0, xs = 0, xm = 0;
    for (int j = 0; j < Parts; ++j) {
      const float* x = b.x + j * kSize;
      const float* w = b.w + j * kSize;
      const int middle = round_to_level(fits[j].scale * inverse_or_zero(d), 0, most);
      float best_gain = -HUGE_VALF;
      AffineMoments best;
      const auto attempt = [&](int s, int m) {
        const ScaleMin f{d * static_cast<float>(s), dmin * static_cast<float>(m)};
        const AffineMoments moments =
            affine_moments<High, kSize>(x, w, f.min, inverse_or_zero(f.scale));
        const float gain = sums[j].gain(moments, f);
        if (gain > best_gain) {
          best_gain = gain;
          best = moments;
          parts[j] = {static_cast<uint8_t>(s), static_cast<uint8_t>(m)};
        }
        return moments;
      };
      const int m0 = round_to_level(fits[j].min * inverse_or_zero(dmin), 0, most);
      for (int s = std::max(0, middle - 1); s <= std::min(most, middle + 1); ++s) {
        const AffineMoments at = attempt(s, m0);
        // The best offset for these levels.
        const float min =
            sums[j].w > 0 ? (d * static_cast<float>(s) * at.q - sums[j].x) / sums[j].w : 0;
        const int m1 = round_to_level(min * inverse_or_zero(dmin), 0, most);
        if (m1 != m0) attempt(s, m1);
      }
      const ScaleMin fit = sums[j].best(best, false);
      if (fit.scale > 0) fits[j] = fit;
      const auto s = static_cast<float>(parts[j].scale);
      const auto m = static_cast<float>(parts[j].min);
      a += s * s * best.qq;
      c += s * m * best.q;
      e += m * m * sums[j].w;
      xs += s * best.xq;
      xm += m * sums[j].x;
    }
    if (round == kSearchRounds) break;
    // a·d − c·dmin = xs, −c·d + e·dmin = −xm.
    const float determinant = a * e - c * c;
    float next_d = a > 0 ? xs / a : 0;
    float next_dmin = dmin;
    if (determinant > 1e-6f * a * e) {
      next_d = (xs * e - c * xm) / determinant;
      next_dmin = (c * xs - a * xm) / determinant;
    }
    if (next_d <= 0 || next_dmin < 0) break;
    next_d = representable(next_d, b.size, d_bits);
    next_dmin = representable(next_dmin, b.size, dmin_bits);
    if (next_d == d && next_dmin == dmin) break;
    d = next_d;
    dmin = next_dmin;
  }
  d_bits = f32_to_f16_finite(d * b.size);
  dmin_bits = f32_to_f16_finite(dmin * b.size);
  for (int i = 0; i < 256; i += 4) {
    const KScale& part = parts[i / kSize];
    const float inverse = inverse_or_zero(d * static_cast<float>(part.scale));
    const float min = dmin * static_cast<float>(part.min);
    const F4 levels = UniformLevels<0, High>::nearest((load4(b.x + i) + min) * inverse);
    for (int l = 0; l < 4; ++l) q[i + l] = static_cast<uint8_t>(levels[l]);
  }
}

}  // namespace infer
