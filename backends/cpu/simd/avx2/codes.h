// Codes and their products where 8-bit products are summed in 16 bits: included by isa.h.
#pragma once

#include "backends/cpu/simd/halves.h"

namespace infer::cpu {
namespace {

/// Whether codes of eight bits are multiplied as fast as smaller ones.
constexpr bool kByteCodes = false;

/// What is subtracted from codes of eight bits, and signed bytes as such codes.
constexpr int kWideZero = 128;
I wide_codes(I a) { return a ^ I::set(static_cast<int32_t>(0x80808080)); }

/// The unsigned codes 0..kMax of 32 weights in a row for each lane: bytes 4j..4j+3 in v[j]. Codes
/// of eight bits are kept as two nibbles, since products of them would overflow 16 bits.
template <int kMax>
struct Codes {
  I v[8];
  void set(int j, I codes) { v[j] = codes; }
};
template <>
struct Codes<255> {
  I low[8], high[8];
  void set(int j, I codes) {
    const I nibble = I::set(0x0f0f0f0f);
    low[j] = codes & nibble;
    high[j] = (codes >> 4) & nibble;
  }
};

/// Products of two codes and two signed bytes, summed in 16 bits over vectors [begin, end) as far
/// as kMax allows, then widened with a factor.
template <int kMax>
[[gnu::always_inline]] inline __m256i dot_part(const I* codes, const int8_t* q, int begin, int end,
                                               __m256i factor) {
  constexpr int kMost = 32767 / (kMax * 127 * 2);
  constexpr int kRun = kMost >= 8 ? 8 : kMost >= 4 ? 4 : kMost >= 2 ? 2 : 1;
  static_assert(kMost >= 1);
  __m256i sum = _mm256_setzero_si256();
  for (int from = begin; from < end; from += kRun) {
    // Two chains: in one, the latencies of all additions would add up.
    __m256i chains[2];
    for (int j = from; j < from + kRun && j < end; ++j) {
      const __m256i two = _mm256_maddubs_epi16(codes[j].v, broadcast4(q + 4 * j).v);
      __m256i& chain = chains[(j - from) % 2];
      chain = j < from + 2 ? two : _mm256_add_epi16(chain, two);
      // Regrouped into a tree the sums would need more registers than there are.
      asm("" : "+x"(chain));
    }
    const __m256i run = kRun == 1 ? chains[0] : _mm256_add_epi16(chains[0], chains[1]);
    const __m256i wide = _mm256_madd_epi16(run, factor);
    sum = from == begin ? wide : _mm256_add_epi32(sum, wide);
  }
  return sum;
}

template <typename C, typename Dots>
constexpr int kColumnsAtOnce = 1;
/// There are more of these codes than registers, and what is fetched serves twice.
template <typename Dots>
constexpr int kColumnsAtOnce<Codes<255>, Dots> = 2;
template <typename Part, typename Dots>
constexpr int kColumnsAtOnce<SplitCodes<Part>, Dots> = 2;

template <int kMax>
[[gnu::always_inline]] inline I dot(const Codes<kMax>& codes, const int8_t* q, I start) {
  return start + I{dot_part<kMax>(codes.v, q, 0, 8, _mm256_set1_epi16(1))};
}

template <int kColumns>
[[gnu::always_inline]] inline void dot(const Codes<255>& codes, const int8_t* const (&q)[kColumns],
                                       I (&sums)[kColumns]) {
  __m256i low[kColumns] = {}, high[kColumns] = {};
  for (int j = 0; j < 8; ++j) {
    for (int c = 0; c < kColumns; ++c) {
      const __m256i four = broadcast4(q[c] + 4 * j).v;
      low[c] = _mm256_add_epi16(low[c], _mm256_maddubs_epi16(codes.low[j].v, four));
      high[c] = _mm256_add_epi16(high[c], _mm256_maddubs_epi16(codes.high[j].v, four));
      asm("" : "+x"(low[c]), "+x"(high[c]));
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    sums[c] = sums[c] + I{_mm256_add_epi32(_mm256_madd_epi16(low[c], _mm256_set1_epi16(1)),
                                           _mm256_madd_epi16(high[c], _mm256_set1_epi16(16)))};
  }
}

template <int kColumns>
[[gnu::always_inline]] inline void dot(const SplitCodes<Codes<31>>& codes,
                                       const int8_t* const (&q)[kColumns], I (&sums)[kColumns]) {
  constexpr int kRun = 32767 / (31 * 127 * 2);
  static_assert(kRun == 4);
  for (int from = 0; from < 8; from += kRun) {
    __m256i lows[kColumns] = {}, highs[kColumns] = {};
    for (int j = from; j < from + kRun; ++j) {
      for (int c = 0; c < kColumns; ++c) {
        const __m256i four = broadcast4(q[c] + 4 * j).v;
        const __m256i a = _mm256_maddubs_epi16(codes.low.v[j].v, four);
        const __m256i b = _mm256_maddubs_epi16(codes.high.v[j].v, four);
        lows[c] = j == from ? a : _mm256_add_epi16(lows[c], a);
        highs[c] = j == from ? b : _mm256_add_epi16(highs[c], b);
        asm("" : "+x"(lows[c]), "+x"(highs[c]));
      }
    }
    for (int c = 0; c < kColumns; ++c) {
      const I wide{_mm256_add_epi32(_mm256_madd_epi16(lows[c], _mm256_set1_epi16(1)),
                                    _mm256_madd_epi16(highs[c], _mm256_set1_epi16(32)))};
      sums[c] = sums[c] + wide;
    }
  }
}

/// The same of one column.
[[gnu::always_inline]] inline I dot_alone(const auto& codes, const int8_t* q, I start) {
  const int8_t* const columns[1] = {q};
  I sums[1] = {start};
  dot(codes, columns, sums);
  return sums[0];
}
[[gnu::always_inline]] inline I dot(const Codes<255>& codes, const int8_t* q, I start) {
  return dot_alone(codes, q, start);
}
[[gnu::always_inline]] inline I dot(const SplitCodes<Codes<31>>& codes, const int8_t* q, I start) {
  return dot_alone(codes, q, start);
}

/// Σ codes·q over either half of 32 weights.
template <int kMax>
[[gnu::always_inline]] inline HalfSums dot(const Codes<kMax>& codes, const int8_t* q,
                                           HalfSums start, Apart) {
  return start + HalfSums{{dot_part<kMax>(codes.v, q, 0, 4, _mm256_set1_epi16(1))},
                          {dot_part<kMax>(codes.v, q, 4, 8, _mm256_set1_epi16(1))}};
}

/// Scales (16 bits, signed) of the two halves of 32 weights whose codes are 2^kBits too large;
/// below zero: codes as they are.
template <int kBits>
struct HalfScales {
  I first, second, offsets;
  HalfScales() = default;
  HalfScales(I a, I b)
      : first(pairs(a, a)), second(pairs(b, b)), offsets(pairs(negative(a), negative(b))) {}

  /// What the scaled products of both halves begin with, from Σq of either.
  [[gnu::always_inline]] I start(const int16_t* sums) const {
    return kBits < 0 ? I::set(0) : pair_product(offsets, sums);
  }
  /// Σ scale·(code − 2^kBits)·q.
  [[gnu::always_inline]] F total(I dots) const { return to_float(dots); }

 private:
  static I negative(I a) { return kBits < 0 ? a : I::set(0) - (a << (kBits < 0 ? 0 : kBits)); }
};

/// first·Σ codes·q over 16 weights + second·Σ over the next 16.
template <int kMax, int kBits>
[[gnu::always_inline]] inline I dot(const Codes<kMax>& codes, const int8_t* q, I start,
                                    const HalfScales<kBits>& scales) {
  return start + I{dot_part<kMax>(codes.v, q, 0, 4, scales.first.v)} +
         I{dot_part<kMax>(codes.v, q, 4, 8, scales.second.v)};
}

}  // namespace
}  // namespace infer::cpu
