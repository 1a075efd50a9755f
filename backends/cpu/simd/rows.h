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

// What scales the product of 32 weights with column c of x, which has the factors of a PanelChunk:
// add() adds it to the column's sum. each(fn): the same of fn(member) for every member, for
// instance of some of the rows.

/// scale·code + min.
template <typename V>
struct ScaleMin32 {
  V scale, min;

  [[gnu::always_inline]] V add(V sum, auto dots, const auto& x, int64_t c) const {
    const V d = scale * V::set(*x.d(c));
    return fma(to_float(dots), d, fma(min, V::set(*x.s(c)), sum));
  }
  [[gnu::always_inline]] auto each(auto fn) const {
    return ScaleMin32<decltype(fn(scale))>{fn(scale), fn(min)};
  }
};

/// scale·code.
template <typename V>
struct Scale32 {
  V scale;

  [[gnu::always_inline]] V add(V sum, auto dots, const auto& x, int64_t c) const {
    return fma(to_float(dots), scale * V::set(*x.d(c)), sum);
  }
  [[gnu::always_inline]] auto each(auto fn) const {
    return Scale32<decltype(fn(scale))>{fn(scale)};
  }
};

// The 32 weights of a part, for each row. product(q, start(chunk, c)) is their product with column
// c at q; with arrays it adds to those of several columns. add() scales it and adds it to the
// column's sum.

/// scale·code + min.
template <typename C>
struct Sub32With : ScaleMin32<Floats> {
  C codes;

  [[gnu::always_inline]] Ints start(const PanelChunk&, int64_t) const { return Ints::set(0); }
  [[gnu::always_inline]] auto product(auto&&... with) const { return dot(codes, with...); }
};
template <int kMax>
using Sub32 = Sub32With<Codes<kMax>>;
using Sub32TenBits = Sub32With<SplitCodes<Codes<31>>>;

/// scale·(code − 2^kBits).
template <int kMax, int kBits>
struct Sub32Offset : Scale32<Floats> {
  Codes<kMax> codes;

  [[gnu::always_inline]] Ints start(const PanelChunk& x, int64_t c) const {
    // Wide codes that are left signed have no offset.
    if constexpr (kMax == 255 && kWideZero == 0) return Ints::set(0);
    return Ints::set(*x.negated_sum(c)) << kBits;
  }
  [[gnu::always_inline]] auto product(auto&&... with) const { return dot(codes, with...); }
};

/// The same with codes of eight bits.
using Sub32Wide = Sub32Offset<255, 7>;
static_assert(kWideZero == 0 || kWideZero == 1 << 7);

/// Two halves with integer scales: d·scale·(code − 2^kBits).
template <int kMax, int kBits>
struct Sub16 {
  Codes<kMax> codes;
  HalfScales<kBits> scales;
  Floats d;

  [[gnu::always_inline]] auto start(const PanelChunk& x, int64_t c) const {
    return scales.start(x.sums(c));
  }
  [[gnu::always_inline]] auto product(auto&&... with) const { return dot(codes, with..., scales); }
  [[gnu::always_inline]] Floats add(Floats sum, auto dots, const PanelChunk& x, int64_t c) const {
    return fma(scales.total(dots), d * Floats::set(*x.d(c)), sum);
  }
};

/// The same with scales that are no integers: scale·(code − 2^kBits).
template <int kMax, int kBits>
struct Sub16Apart {
  Codes<kMax> codes;
  Floats first, second;  ///< scales of the halves

  [[gnu::always_inline]] HalfSums start(const PanelChunk& x, int64_t c) const {
    return half_offsets<kBits>(x.sums(c));
  }
  [[gnu::always_inline]] auto product(auto&&... with) const { return dot(codes, with..., Apart{}); }
  [[gnu::always_inline]] Floats add(Floats sum, HalfSums dots, const PanelChunk& x,
                                    int64_t c) const {
    const Floats d = Floats::set(*x.d(c));
    sum = fma(to_float(dots.first), first * d, sum);
    return fma(to_float(dots.second), second * d, sum);
  }
};

/// The halves of Sub16 with minima that have a scale of their own: d·scale·code + dmin·min.
template <int kMax>
struct Sub16Min {
  Codes<kMax> codes;
  HalfScales<-1> scales;
  Ints mins;  ///< pairs
  Floats d, dmin;

  [[gnu::always_inline]] auto start(const PanelChunk& x, int64_t c) const {
    return scales.start(x.sums(c));
  }
  [[gnu::always_inline]] auto product(auto&&... with) const { return dot(codes, with..., scales); }
  [[gnu::always_inline]] Floats add(Floats sum, auto dots, const PanelChunk& x, int64_t c) const {
    const Floats xd = Floats::set(*x.d(c));
    sum = fma(to_float(pair_product(mins, x.sums(c))), dmin * xd, sum);
    return fma(scales.total(dots), d * xd, sum);
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
        sum[c] = sub.add(sum[c], sub.product(x.q(c), sub.start(x, c)), x, c);
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

/// Groups of rows that are read side by side: `pitch` bytes apart, with sums that are `sums_pitch`
/// floats apart.
struct SideBySide {
  const std::byte* w;
  int64_t pitch;
  float* sums;
  int64_t sums_pitch;
};

/// Sets the sums of all columns to zero and calls fn(sub, chunk, sums) for each 32 weights of the
/// rows, of kStreams groups a block in turn.
template <typename W, int kStreams, typename Fn>
[[gnu::always_inline]] inline void for_each_part(const SideBySide& groups, int64_t k,
                                                 const Panel& panel, Fn fn) {
  for (int s = 0; s < kStreams; ++s) {
    float* const sums = groups.sums + s * groups.sums_pitch;
    for (int64_t i = 0; i < panel.columns * kR; ++i) sums[i] = 0;
  }
  const std::byte* w = groups.w;
  for (int64_t b = 0; b < k / W::kBlock; ++b, w += W::kBytes * kR) {
#pragma GCC unroll 1
    for (int s = 0; s < kStreams; ++s) {
      const std::byte* const block = w + s * groups.pitch;
      const typename W::Head head(block);
      for (int part = 0; part < W::kBlock / 32; ++part) {
        prefetch<W, kStreams>(block, part);
        typename W::Sub sub;
        W::sub(block, head, part, sub);
        fn(sub, PanelChunk(panel, b * (W::kBlock / 32) + part),
           groups.sums + s * groups.sums_pitch);
      }
    }
  }
}

/// Adds the products with `count` columns from `first` on to their sums in memory. Where they are
/// fewer than kColumns, the first takes the places of the others.
template <int kColumns>
[[gnu::always_inline]] inline void add_columns(const auto& sub, const PanelChunk& x, int64_t first,
                                               int64_t count, float* sums) {
  const int8_t* q[kColumns];
  decltype(sub.start(x, 0)) dots[kColumns];
#pragma GCC unroll 8
  for (int i = 0; i < kColumns; ++i) {
    const int64_t c = i < count ? first + i : first;
    q[i] = x.q(c);
    dots[i] = sub.start(x, c);
  }
  if constexpr (kColumns == 1) {
    dots[0] = sub.product(q[0], dots[0]);
  } else {
    sub.product(q, dots);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kColumns; ++i) {
    if (i >= count) return;
    float* at = sums + (first + i) * kR;
    sub.add(Floats::load(at), dots[i], x, first + i).store(at);
  }
}

/// The same with columns [first, columns), as many at once as is best.
[[gnu::always_inline]] inline void add_columns_from(const auto& sub, const PanelChunk& x,
                                                    int64_t first, int64_t columns, float* sums) {
  constexpr int kAtOnce = kColumnsAtOnce<decltype(sub.codes), decltype(sub.start(x, 0))>;
  int64_t c = first;
  for (; c + kAtOnce <= columns; c += kAtOnce) add_columns<kAtOnce>(sub, x, c, kAtOnce, sums);
  if constexpr (kAtOnce == 2) {
    // Codes may lie in another order for two: the last of an odd number is its own second.
    if (c < columns) add_columns<2>(sub, x, c, 1, sums);
  } else {
    for (; c < columns; ++c) add_columns<1>(sub, x, c, 1, sums);
  }
}

/// All columns, streamed past each 32 weights of the rows; the sums lie in memory.
template <typename W, int kStreams>
[[gnu::noinline]] void many_columns(const SideBySide& groups, int64_t k, const Panel& panel) {
  const int64_t columns = panel.columns;
  for_each_part<W, kStreams>(
      groups, k, panel,
      [&](const typename W::Sub& sub, const PanelChunk& x, float* sums)
          __attribute__((always_inline)) { add_columns_from(sub, x, 0, columns, sums); });
}

/// Whether several streams are worth the code that they take. Narrow vectors have too few registers
/// for several of the blocks that scale parts of themselves, and plain code reads no faster.
template <typename W>
constexpr bool kStreamed = kTwice || (kR >= 8 && W::kBlock == 32);

/// One column with kStreams groups, a block of each in turn; the sums are in registers.
template <typename W, int kStreams>
[[gnu::noinline]] void one_column(const SideBySide& groups, int64_t k, const Panel& panel) {
  Floats sum[kStreams];
  for (Floats& s : sum) s = Floats::zero();
  const std::byte* w = groups.w;
  for (int64_t b = 0; b < k / W::kBlock; ++b, w += W::kBytes * kR) {
#pragma GCC unroll 4
    for (int s = 0; s < kStreams; ++s) {
      const std::byte* const block = w + s * groups.pitch;
      const typename W::Head head(block);
#pragma GCC unroll 1
      for (int part = 0; part < W::kBlock / 32; ++part) {
        prefetch<W, kStreams>(block, part);
        const PanelChunk x(panel, b * (W::kBlock / 32) + part);
        typename W::Sub sub;
        W::sub(block, head, part, sub);
        sum[s] = sub.add(sum[s], sub.product(x.q(0), sub.start(x, 0)), x, 0);
      }
    }
  }
  for (int s = 0; s < kStreams; ++s) sum[s].store(groups.sums + s * groups.sums_pitch);
}

using ColumnsFn = void (*)(const SideBySide& groups, int64_t k, const Panel& panel);

/// As many of the groups as kStreams equal parts of them have, of which kColumns reads a group each
/// at once. Returns how many.
template <int kStreams, ColumnsFn kColumns>
int64_t stream_groups(const std::byte* w, int64_t groups, int64_t group_bytes, int64_t k,
                      const Panel& panel, float* sums) {
  const int64_t part = groups / kStreams;
  const int64_t group_sums = panel.columns * kR;
  for (int64_t g = 0; g < part; ++g) {
    kColumns({w + g * group_bytes, part * group_bytes, sums + g * group_sums, part * group_sums}, k,
             panel);
  }
  return part * kStreams;
}

/// With more columns than these, computing takes longer than reading.
constexpr int64_t kMostStreamed = 8;

/// kMany: how a group meets more than four columns.
template <typename W, ColumnsFn kMany>
void multiply_groups(const std::byte* w, int64_t groups, int64_t k, const Panel& panel, int streams,
                     float* sums) {
  const int64_t group_bytes = k / W::kBlock * W::kBytes * kR;
  if constexpr (kStreamed<W>) {
    if (streams > 1 && panel.columns <= kMostStreamed) {
      const auto stream = panel.columns > 1 ? stream_groups<2, many_columns<W, 2>>
                          : streams == 2    ? stream_groups<2, one_column<W, 2>>
                                            : stream_groups<4, one_column<W, 4>>;
      const int64_t done = stream(w, groups, group_bytes, k, panel, sums);
      w += done * group_bytes;
      groups -= done;
      sums += done * panel.columns * kR;
    }
  }
  for (int64_t g = 0; g < groups; ++g, w += group_bytes, sums += panel.columns * kR) {
    // All columns in one pass: a second one over the weights would compute without loading.
    switch (panel.columns) {
      case 1: few_columns<W, 1>(w, k, panel, sums); break;
      case 2: few_columns<W, 2>(w, k, panel, sums); break;
      case 3: few_columns<W, 3>(w, k, panel, sums); break;
      case 4: few_columns<W, 4>(w, k, panel, sums); break;
      default: kMany({w, 0, sums, 0}, k, panel); break;
    }
  }
}

template <typename W>
constexpr RowKernel row_kernel() {
  return {W::kType, kR, clean<multiply_groups<W, many_columns<W, 1>>>};
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
