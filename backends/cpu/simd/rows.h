// Products of interleaved rows (packing.h) with 8-bit activations (panel.h), written once over the
// vectors Floats and Ints of an instruction set and a type's `Weights`:
//   kType, kBlock (weights a block), kBytes (of a block), Sub: Sub32 or Sub16
//   Head(block): what a block's 32-weight parts share;  sub(block, head, part, out)
// A lane is a row: no sums across lanes, and each row's sum runs along k in one order whatever the
// number of columns. Everything has internal linkage, because each inclusion is compiled with other
// flags.
#pragma once

#include "backends/cpu/row_kernel.h"
#include "backends/cpu/simd/clean.h"

namespace infer::cpu {
namespace {

constexpr int kR = Ints::kLanes;
constexpr bool kTwice = kR > I::kLanes;
static_assert(Floats::kWidth == kR);

/// Products of the 32 weights of `sub` with a column at q: of() or, added to a start, of(start).
template <typename Sub>
struct DotsOf {
  const Sub& sub;
  const int8_t* q;

  [[gnu::always_inline]] auto operator()() const { return sub.product(q); }
  [[gnu::always_inline]] auto operator()(auto start) const {
    if constexpr (kDotsBegin) {
      return sub.product(q, start);
    } else {
      return sub.product(q) + start;
    }
  }
};
template <typename Sub>
DotsOf(const Sub&, const int8_t*) -> DotsOf<Sub>;

/// The same of products that are known.
template <typename Sums>
struct KnownDots {
  Sums sums;

  [[gnu::always_inline]] Sums operator()() const { return sums; }
  [[gnu::always_inline]] Sums operator()(Sums start) const { return sums + start; }
};
template <typename Sums>
KnownDots(Sums) -> KnownDots<Sums>;

/// 32 weights of each row: scale·code + min.
template <int kMax>
struct Sub32 {
  Codes<kMax> codes;
  Floats scale, min;

  template <typename... Q>
  [[gnu::always_inline]] auto product(Q... q) const {
    return dot(codes, q...);
  }
  [[gnu::always_inline]] Floats add(Floats sum, auto dots, const PanelChunk& x, int64_t c) const {
    const Floats d = scale * Floats::set(*x.d(c));
    return fma(to_float(dots()), d, fma(min, Floats::set(*x.s(c)), sum));
  }
};

/// The codes low + 32·high of 32 weights in a row for each lane.
template <typename Part>
struct SplitCodes {
  Part low, high;
};
using TenBits = SplitCodes<Codes<31>>;

// Σ codes·q over 32 weights. An instruction set may have a way to multiply with both parts at once.

template <typename Part>
[[gnu::always_inline]] inline Ints dot(const SplitCodes<Part>& codes, const int8_t* q) {
  if constexpr (requires { dot_both(codes.low, codes.high, q); }) {
    return dot_both(codes.low, codes.high, q);
  } else {
    return dot(codes.low, q) + (dot(codes.high, q) << 5);
  }
}

template <typename Part>
requires(requires(const Part& part, const int8_t* q) { dot(part, q, q); })
    [[gnu::always_inline]] inline auto dot(const SplitCodes<Part>& codes, const int8_t* q0,
                                           const int8_t* q1) {
  auto sums = dot(codes.low, q0, q1);
  const auto highs = dot(codes.high, q0, q1);
  sums.first = sums.first + (highs.first << 5);
  sums.second = sums.second + (highs.second << 5);
  return sums;
}

template <typename Part>
requires(requires(const Part& part, const int8_t* q) { dot_both(part, part, q, q); })
    [[gnu::always_inline]] inline auto dot(const SplitCodes<Part>& codes, const int8_t* q0,
                                           const int8_t* q1) {
  return dot_both(codes.low, codes.high, q0, q1);
}

/// 32 weights of each row: scale·code + min.
struct Sub32TenBits {
  TenBits codes;
  Floats scale, min;

  template <typename... Q>
  [[gnu::always_inline]] auto product(Q... q) const {
    return dot(codes, q...);
  }
  [[gnu::always_inline]] Floats add(Floats sum, auto dots, const PanelChunk& x, int64_t c) const {
    sum = fma(min, Floats::set(*x.s(c)), sum);
    return fma(to_float(dots()), scale * Floats::set(*x.d(c)), sum);
  }
};

/// 32 weights of each row: scale·(code − 2^kBits).
template <int kMax, int kBits>
struct Sub32Offset {
  Codes<kMax> codes;
  Floats scale;

  template <typename... Q>
  [[gnu::always_inline]] auto product(Q... q) const {
    return dot(codes, q...);
  }
  [[gnu::always_inline]] Floats add(Floats sum, auto dots, const PanelChunk& x, int64_t c) const {
    const Floats d = scale * Floats::set(*x.d(c));
    // Wide codes that are left signed have no offset.
    if constexpr (kMax == 255 && kWideZero == 0) return fma(to_float(dots()), d, sum);
    const Ints offset = Ints::set(*x.negated_sum(c)) << kBits;
    return fma(to_float(dots(offset)), d, sum);
  }
};

/// The same with codes of eight bits.
using Sub32Wide = Sub32Offset<255, 7>;
static_assert(kWideZero == 0 || kWideZero == 1 << 7);

/// 32 weights of each row in two halves with integer scales: d·scale·(code − 2^kBits).
template <int kMax, int kBits>
struct Sub16 {
  Codes<kMax> codes;
  HalfScales<kBits> scales;
  Floats d;

  template <typename... Q>
  [[gnu::always_inline]] auto product(Q... q) const {
    return dot(codes, q..., scales);
  }
  [[gnu::always_inline]] Floats add(Floats sum, auto dots, const PanelChunk& x, int64_t c) const {
    return fma(scales.total(dots, x.sums(c)), d * Floats::set(*x.d(c)), sum);
  }
};

/// The same with scales that are no integers: scale·(code − 2^kBits).
template <int kMax, int kBits>
struct Sub16Apart {
  Codes<kMax> codes;
  Floats first, second;  ///< scales of the halves

  template <typename... Q>
  [[gnu::always_inline]] auto product(Q... q) const {
    return dot(codes, q..., Apart{});
  }
  [[gnu::always_inline]] Floats add(Floats sum, auto dots, const PanelChunk& x, int64_t c) const {
    const HalfSums both = dots(half_offsets<kBits>(x.sums(c)));
    const Floats d = Floats::set(*x.d(c));
    sum = fma(to_float(both.first), first * d, sum);
    return fma(to_float(both.second), second * d, sum);
  }
};

/// The halves of Sub16 with minima that have a scale of their own: d·scale·code + dmin·min.
template <int kMax>
struct Sub16Min {
  Codes<kMax> codes;
  HalfScales<-1> scales;
  Ints mins;  ///< pairs
  Floats d, dmin;

  template <typename... Q>
  [[gnu::always_inline]] auto product(Q... q) const {
    return dot(codes, q..., scales);
  }
  [[gnu::always_inline]] Floats add(Floats sum, auto dots, const PanelChunk& x, int64_t c) const {
    const Floats xd = Floats::set(*x.d(c));
    sum = fma(to_float(pair_product(mins, x.sums(c))), dmin * xd, sum);
    return fma(scales.total(dots, x.sums(c)), d * xd, sum);
  }
};

/// How far ahead of their use weights are asked for, in bytes of all streams. At least a block of
/// each stream, whose bytes are used in another order than they lie in.
template <typename W, int kStreams = 1>
constexpr int64_t kAhead =
    4096 / kStreams > W::kBytes* kR ? 4096 / kStreams : int64_t{W::kBytes} * kR;

/// Asks for what lies kAhead bytes after part `part` of a block. A whole block of 256 weights at
/// once is more lines than a core can wait for, and then nothing is asked for while it is computed.
template <typename W, int kStreams = 1>
[[gnu::always_inline]] inline void prefetch(const std::byte* block, int part) {
  constexpr int64_t kBytes = W::kBytes * kR / (W::kBlock / 32);
  const std::byte* const from = block + kAhead<W, kStreams> + part * kBytes;
  for (int64_t i = 0; i < kBytes; i += 64) __builtin_prefetch(from + i, 0, 3);
}

/// kColumns columns, with the sums in registers.
template <typename W, int kColumns>
[[gnu::noinline]] void few_columns(const std::byte* w, int64_t k, const Panel& panel, float* sums) {
  Floats sum[kColumns];
  for (Floats& s : sum) s = Floats::zero();
  for (int64_t b = 0; b < k / W::kBlock; ++b, w += W::kBytes * kR) {
    const typename W::Head head(w);
    const auto add_part = [&](int part) __attribute__((always_inline)) {
      prefetch<W>(w, part);
      const PanelChunk x(panel, b * (W::kBlock / 32) + part);
      typename W::Sub sub;
      W::sub(w, head, part, sub);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) {
        sum[c] = sub.add(sum[c], DotsOf{sub, x.q(c)}, x, c);
      }
    };
    if constexpr (kColumns == 1 && !kTwice) {
#pragma GCC unroll 8
      for (int part = 0; part < W::kBlock / 32; ++part) add_part(part);
    } else {
      // Unrolled, the parts of more rows or columns would keep more alive than there are registers.
#pragma GCC unroll 1
      for (int part = 0; part < W::kBlock / 32; ++part) add_part(part);
    }
  }
  for (int c = 0; c < kColumns; ++c) sum[c].store(sums + c * kR);
}

/// Whether the instruction set multiplies with two columns at once, as well as with one.
template <typename Sub>
concept TakesTwoColumns = requires(const Sub& sub, const int8_t* q) {
  dot(sub.codes, q, q);
};

/// Sets the sums of all columns to zero and calls fn(sub, chunk) for each 32 weights of the rows.
template <typename W, typename Fn>
[[gnu::always_inline]] inline void for_each_part(const std::byte* w, int64_t k, const Panel& panel,
                                                 float* sums, Fn fn) {
  for (int64_t i = 0; i < panel.columns * kR; ++i) sums[i] = 0;
  for (int64_t b = 0; b < k / W::kBlock; ++b, w += W::kBytes * kR) {
    const typename W::Head head(w);
    for (int part = 0; part < W::kBlock / 32; ++part) {
      prefetch<W>(w, part);
      typename W::Sub sub;
      W::sub(w, head, part, sub);
      fn(sub, PanelChunk(panel, b * (W::kBlock / 32) + part));
    }
  }
}

/// All columns, streamed past each 32 weights of the rows; the sums lie in memory.
template <typename W>
[[gnu::noinline]] void many_columns(const std::byte* w, int64_t k, const Panel& panel,
                                    float* sums) {
  const int64_t columns = panel.columns;
  for_each_part<W>(
      w, k, panel,
      sums, [&](const typename W::Sub& sub, const PanelChunk& x) __attribute__((always_inline)) {
        const auto add = [&](auto dots, int64_t c) __attribute__((always_inline)) {
          float* at = sums + c * kR;
          sub.add(Floats::load(at), dots, x, c).store(at);
        };
        if constexpr (TakesTwoColumns<typename W::Sub>) {
          int64_t c = 0;
          for (; c + 2 <= columns; c += 2) {
            const auto both = sub.product(x.q(c), x.q(c + 1));
            add(KnownDots{both.first}, c);
            add(KnownDots{both.second}, c + 1);
          }
          // The last of an odd number is its own second: so the codes stay in one arrangement.
          if (c < columns) add(KnownDots{sub.product(x.q(c), x.q(c)).first}, c);
        } else {
          for (int64_t c = 0; c < columns; ++c) add(DotsOf{sub, x.q(c)}, c);
        }
      });
}

/// Whether several streams are worth the code that they take. Narrow vectors have too few registers
/// for several of the blocks that scale parts of themselves, and plain code reads no faster.
template <typename W>
constexpr bool kStreamed = kTwice || (kR >= 8 && W::kBlock == 32);

/// One column with kStreams groups, which lie `pitch` bytes apart: a block of each in turn, so that
/// so many places are read at once.
template <typename W, int kStreams>
[[gnu::noinline]] void one_column(const std::byte* w, int64_t pitch, int64_t k, const Panel& panel,
                                  float* sums, int64_t sums_pitch) {
  Floats sum[kStreams];
  for (Floats& s : sum) s = Floats::zero();
  for (int64_t b = 0; b < k / W::kBlock; ++b, w += W::kBytes * kR) {
#pragma GCC unroll 4
    for (int s = 0; s < kStreams; ++s) {
      const std::byte* const block = w + s * pitch;
      const typename W::Head head(block);
#pragma GCC unroll 1
      for (int part = 0; part < W::kBlock / 32; ++part) {
        prefetch<W, kStreams>(block, part);
        const PanelChunk x(panel, b * (W::kBlock / 32) + part);
        typename W::Sub sub;
        W::sub(block, head, part, sub);
        sum[s] = sub.add(sum[s], DotsOf{sub, x.q(0)}, x, 0);
      }
    }
  }
  for (int s = 0; s < kStreams; ++s) sum[s].store(sums + s * sums_pitch);
}

/// As many of the groups as kStreams equal parts of them have, which are read side by side. Returns
/// how many.
template <typename W, int kStreams>
int64_t stream_groups(const std::byte* w, int64_t groups, int64_t group_bytes, int64_t k,
                      const Panel& panel, float* sums) {
  const int64_t part = groups / kStreams;
  for (int64_t g = 0; g < part; ++g) {
    one_column<W, kStreams>(w + g * group_bytes, part * group_bytes, k, panel, sums + g * kR,
                            part * kR);
  }
  return part * kStreams;
}

using ColumnsFn = void (*)(const std::byte* w, int64_t k, const Panel& panel, float* sums);

/// kMany: how a group meets more than four columns.
template <typename W, ColumnsFn kMany>
void multiply_groups(const std::byte* w, int64_t groups, int64_t k, const Panel& panel, int streams,
                     float* sums) {
  const int64_t group_bytes = k / W::kBlock * W::kBytes * kR;
  if constexpr (kStreamed<W>) {
    if (panel.columns == 1 && streams > 1) {
      const int64_t done = streams == 2
                               ? stream_groups<W, 2>(w, groups, group_bytes, k, panel, sums)
                               : stream_groups<W, 4>(w, groups, group_bytes, k, panel, sums);
      w += done * group_bytes;
      groups -= done;
      sums += done * kR;
    }
  }
  for (int64_t g = 0; g < groups; ++g, w += group_bytes, sums += panel.columns * kR) {
    // All columns in one pass: a second one over the weights would compute without loading.
    switch (panel.columns) {
      case 1: few_columns<W, 1>(w, k, panel, sums); break;
      case 2: few_columns<W, 2>(w, k, panel, sums); break;
      case 3: few_columns<W, 3>(w, k, panel, sums); break;
      case 4: few_columns<W, 4>(w, k, panel, sums); break;
      default: kMany(w, k, panel, sums); break;
    }
  }
}

template <typename W>
constexpr RowKernel row_kernel() {
  return {W::kType, kR, clean<multiply_groups<W, many_columns<W>>>};
}

// What the types' unpacking shares.

/// Bytes of the fields before, for one row each; vectors of the interleaved block.
Ints dword(const std::byte* block, int64_t offset, int64_t index = 0) {
  return Ints::load(block + (offset + index * 4) * kR);
}
Floats half(const std::byte* block, int64_t offset) {
  return Floats::load_half(block + offset * kR);
}

Ints low_nibbles(Ints a) { return a & Ints::set(0x0f0f0f0f); }
/// An instruction set may have shifts of bytes, which need no mask.
template <typename Lanes>
Lanes high_nibbles(Lanes a) {
  if constexpr (requires { a.high_nibbles(); }) {
    return a.high_nibbles();
  } else {
    return (a >> 4) & Lanes::set(0x0f0f0f0f);
  }
}
/// By n to the left, or −n to the right. What comes in from the other side means nothing.
template <typename Lanes>
[[gnu::always_inline]] inline Lanes shifted(Lanes a, int n) {
  if constexpr (requires { rotated(a, n); }) {
    return rotated(a, n);
  } else {
    return n >= 0 ? a << n : a >> -n;
  }
}
/// Byte `index` of each lane.
Ints byte_of(Ints a, int index) { return (a >> (8 * index)) & Ints::set(0xff); }
/// The same of signed bytes.
template <typename Lanes>
[[gnu::always_inline]] inline Lanes signed_byte_of(Lanes a, int index) {
  if constexpr (requires { signed_right(a, 24); }) {
    return signed_right(a << (24 - 8 * index), 24);
  } else {
    const Lanes sign = Lanes::set(0x80);
    return ((byte_of(a, index) + sign) & Lanes::set(0xff)) - sign;
  }
}

/// Heads of blocks of 32: a scale as binary16, or a scale and a minimum in one dword.
struct Scale {
  Floats d;
  explicit Scale(const std::byte* block) : d(half(block, 0)) {}
};
struct ScaleAndMin {
  Floats d, m;
  explicit ScaleAndMin(const std::byte* block) {
    const Ints both = dword(block, 0);
    d = half_low(both);
    m = half_low(both >> 16);
  }
};

/// Codes of a block of 32 whose 16 bytes at `offset` hold the first 16 in their low nibbles.
template <int kMax>
[[gnu::always_inline]] inline void set_nibbles(const std::byte* block, int64_t offset,
                                               Codes<kMax>& codes) {
  for (int j = 0; j < 4; ++j) {
    const Ints bytes = dword(block, offset, j);
    codes.set(j, low_nibbles(bytes));
    codes.set(j + 4, high_nibbles(bytes));
  }
}

/// The same looked up in a table.
template <int kMax>
[[gnu::always_inline]] inline void set_levels(const std::byte* block, int64_t offset,
                                              const Lookup& levels, Codes<kMax>& codes) {
  for (int j = 0; j < 4; ++j) {
    const Ints bytes = dword(block, offset, j);
    codes.set(j, levels(low_nibbles(bytes)));
    codes.set(j + 4, levels(high_nibbles(bytes)));
  }
}

/// Bits 4j..4j+3 of each lane as the lowest bits of its four bytes.
[[gnu::always_inline]] inline Ints spread_bits(Ints bits, int j) {
  const Ints four = (bits >> (4 * j)) & Ints::set(15);
  return (four | (four << 7) | (four << 14) | (four << 21)) & Ints::set(0x01010101);
}

/// As set_nibbles, with bit i of `fifth` on top of code i.
template <int kMax>
[[gnu::always_inline]] inline void set_five_bits(Ints fifth, const std::byte* block, int64_t offset,
                                                 Codes<kMax>& codes) {
  for (int j = 0; j < 4; ++j) {
    const Ints bytes = dword(block, offset, j);
    codes.set(j, low_nibbles(bytes) | (spread_bits(fifth, j) << 4));
    codes.set(j + 4, high_nibbles(bytes) | (spread_bits(fifth, j + 4) << 4));
  }
}

}  // namespace
}  // namespace infer::cpu
