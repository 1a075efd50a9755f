// The search for the IQ2 and IQ3 types: 256 weights in sub-blocks with a whole multiple of one
// scale, whose magnitudes are entries of a codebook, eight or four weights each.
//
// Magnitudes divided by a scale are rounded to levels one by one. Where these make an entry it is
// the best one, whatever the weights; else the best among the entries nearest to it, which a table
// lists for every combination of levels.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/quant/iq_grids.h"
#include "engine/quant/k_search.h"

namespace infer {

/// A codebook prepared for searching: `kSize` weights an entry, `kLevels` levels a weight.
template <int Size, int Levels>
class GridIndex {
 public:
  static constexpr int kSize = Size;

  /// `grid`: entries of `bits` bits a level, the first level lowest.
  GridIndex(std::span<const uint16_t> grid, int bits, const float* levels)
      : entries_(grid.size() * Size), near_(static_cast<size_t>(kPoints)) {
    std::copy(levels, levels + Levels, levels_);
    for (int l = 1; l < Levels; ++l) middles_[l - 1] = (levels[l - 1] + levels[l]) / 2;
    for (size_t e = 0; e < grid.size(); ++e) {
      for (int i = 0; i < Size; ++i) {
        entries_[e * Size + static_cast<size_t>(i)] =
            levels[(grid[e] >> (bits * i)) & ((1 << bits) - 1)];
      }
    }
    for (int point = 0; point < kPoints; ++point) fill(point, static_cast<int>(grid.size()));
  }

  float top() const { return levels_[Levels - 1]; }
  const float* entry(int e) const { return &entries_[static_cast<size_t>(e) * Size]; }

  /// The entry g of least Σw(a − s·g)² among those near to a/s; a may be negative.
  int nearest(const float* a, const float* w, float inverse) const {
    int point = 0;
    for (int i = 0, power = 1; i < Size; ++i, power *= Levels) {
      const float v = a[i] * inverse;
      int level = 0;
      for (const float middle : middles_) level += v > middle ? 1 : 0;
      point += power * level;
    }
    const Near& near = near_[static_cast<size_t>(point)];
    if (near.exact) return near.entries[0];
    // Times the inverse squared: w·g² − 2·w·(a/s)·g.
    F4 ws[Size / 4];
    F4 wa[Size / 4];
    for (int i = 0; i < Size / 4; ++i) {
      ws[i] = load4(w + 4 * i);
      wa[i] = ws[i] * load4(a + 4 * i) * (2 * inverse);
    }
    int best = near.entries[0];
    float least = HUGE_VALF;
    for (const uint16_t e : near.entries) {
      const float* g = entry(e);
      F4 sum{};
      for (int i = 0; i < Size / 4; ++i) {
        const F4 level = load4(g + 4 * i);
        sum += (ws[i] * level - wa[i]) * level;
      }
      const float error = sum4(sum);
      if (error < least) {
        least = error;
        best = e;
      }
    }
    return best;
  }

 private:
  static constexpr int kNear = Size == 8 ? 16 : 12;
  static constexpr int points() {
    int n = 1;
    for (int i = 0; i < Size; ++i) n *= Levels;
    return n;
  }
  static constexpr int kPoints = points();

  struct Near {
    bool exact = false;  ///< the first is the point itself
    std::array<uint16_t, kNear> entries;
  };

  void fill(int point, int count) {
    float at[Size];
    for (int i = 0, rest = point; i < Size; ++i, rest /= Levels) at[i] = levels_[rest % Levels];
    std::array<float, kNear> distances;
    Near& near = near_[static_cast<size_t>(point)];
    int found = 0;
    for (int e = 0; e < count; ++e) {
      float distance = 0;
      for (int i = 0; i < Size; ++i) {
        const float delta = at[i] - entry(e)[i];
        distance += delta * delta;
      }
      if (found == kNear && distance >= distances[kNear - 1]) continue;
      int place = found < kNear ? found++ : kNear - 1;
      for (; place > 0 && distances[static_cast<size_t>(place - 1)] > distance; --place) {
        distances[static_cast<size_t>(place)] = distances[static_cast<size_t>(place - 1)];
        near.entries[static_cast<size_t>(place)] = near.entries[static_cast<size_t>(place - 1)];
      }
      distances[static_cast<size_t>(place)] = distance;
      near.entries[static_cast<size_t>(place)] = static_cast<uint16_t>(e);
    }
    near.exact = distances[0] == 0;
  }

  float levels_[Levels];
  float middles_[Levels - 1];
  std::vector<float> entries_;  ///< [entry, Size]
  std::vector<Near> near_;      ///< by point: Σ level·Levels^i
};

/// What a search found: entries and signs of each group of `Size` weights in order, a bit a weight
/// set where it is negative; multiples of d of each part.
struct GridFit {
  uint16_t d = 0;
  int scales[16];
  int entries[64];
  uint8_t signs[32];  ///< of eight weights
};

/// x ≈ ±d·factor(s)·g with s in 0..15 of each of Parts sub-blocks. `even`: the number of minus
/// signs of eight weights is even, for the format stores seven. `factor` rises. False where all is
/// zero.
template <int Parts, typename Index, typename Factor>
bool search_grid(const Index& index, SearchBlock<256>& b, bool even, Factor factor, GridFit& fit) {
  constexpr int kPart = 256 / Parts;
  constexpr int kGroup = Index::kSize;
  constexpr int kGroups = kPart / kGroup;
  for (int g = 0; g < 32; ++g) {
    float* x = b.x + 8 * g;
    uint8_t signs = 0;
    for (int i = 0; i < 8; ++i) {
      if (x[i] < 0) signs |= static_cast<uint8_t>(1 << i);
      x[i] = std::fabs(x[i]);
    }
    if (even && std::popcount(signs) % 2 != 0) {
      // Small values get the lowest level, so that a wrong sign costs as w·x.
      int least = 0;
      for (int i = 1; i < 8; ++i) {
        if (b.w[8 * g + i] * x[i] < b.w[8 * g + least] * x[least]) least = i;
      }
      signs ^= static_cast<uint8_t>(1 << least);
      x[least] = -x[least];
    }
    fit.signs[g] = signs;
  }

  const auto moments = [&](int part, float inverse, int* entries) {
    F4 xq{};
    F4 qq{};
    for (int g = 0; g < kGroups; ++g) {
      const int at = part * kPart + g * kGroup;
      entries[g] = index.nearest(b.x + at, b.w + at, inverse);
      const float* levels = index.entry(entries[g]);
      for (int i = 0; i < kGroup; i += 4) {
        const F4 q = load4(levels + i);
        const F4 wq = load4(b.w + at + i) * q;
        xq += load4(b.x + at + i) * wq;
        qq += q * wq;
      }
    }
    return ScaleMoments{sum4(xq), sum4(qq)};
  };

  int entries[kGroups];
  float fits[Parts];
  const float top = index.top();
  for (int part = 0; part < Parts; ++part) {
    const float* x = b.x + part * kPart;
    const float largest = *std::max_element(x, x + kPart);
    ScaleMoments best;
    const auto attempt = [&](float inverse) {
      const ScaleMoments m = moments(part, inverse, entries);
      if (m.best_gain() > best.best_gain()) best = m;
    };
    if (largest > kVanishing) {
      for (float end = 0.68f; end < 1.25f; end += 0.06f) attempt(end * top / largest);
      if (best.best() > 0) attempt(1 / best.best());
    }
    fits[part] = std::max(0.0f, best.best());
  }

  const float most = *std::max_element(fits, fits + Parts);
  float d = representable(most / factor(15), b.size, fit.d);
  if (d == 0) return false;
  for (int round = 0;; ++round) {
    float xq = 0;
    float qq = 0;
    for (int part = 0; part < Parts; ++part) {
      int middle = 0;
      while (middle < 15 && d * (factor(middle) + factor(middle + 1)) < 2 * fits[part]) ++middle;
      ScaleMoments best;
      float best_gain = -HUGE_VALF;
      for (int s = std::max(0, middle - 1); s <= std::min(15, middle + 1); ++s) {
        const float scale = d * factor(s);
        const ScaleMoments m = moments(part, 1 / scale, entries);
        if (m.gain(scale) > best_gain) {
          best_gain = m.gain(scale);
          best = m;
          fit.scales[part] = s;
          std::copy(entries, entries + kGroups, fit.entries + part * kGroups);
        }
      }
      if (best.best() > 0) fits[part] = best.best();
      const float scale = factor(fit.scales[part]);
      xq += scale * best.xq;
      qq += scale * scale * best.qq;
    }
    if (round == 1 || qq <= 0) break;
    uint16_t bits = 0;
    const float next = representable(xq / qq, b.size, bits);
    if (next <= 0 || next == d) break;
    fit.d = bits;
    d = next;
  }
  return true;
}

}  // namespace infer
