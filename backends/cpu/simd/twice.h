// Two vectors of an instruction set as one: a group of interleaved rows is then twice as wide, and
// what is fetched of the activations serves two vectors of weights. For sets with registers to
// spare; included by isa.h after I, F and Table.
#pragma once

namespace infer::cpu {
namespace {

/// Floats of twice as many rows.
struct Floats {
  static constexpr int kWidth = 2 * F::kWidth;
  F a, b;

  static Floats load(const float* p) { return {F::load(p), F::load(p + F::kWidth)}; }
  void store(float* p) const {
    a.store(p);
    b.store(p + F::kWidth);
  }
  /// binary16.
  static Floats load_half(const std::byte* p) {
    return {F::load_half(p), F::load_half(p + 2 * F::kWidth)};
  }
  static Floats set(float x) { return {F::set(x), F::set(x)}; }
  static Floats zero() { return {F::zero(), F::zero()}; }
};

Floats operator+(Floats x, Floats y) { return {x.a + y.a, x.b + y.b}; }
Floats operator-(Floats x, Floats y) { return {x.a - y.a, x.b - y.b}; }
Floats operator*(Floats x, Floats y) { return {x.a * y.a, x.b * y.b}; }
Floats fma(Floats x, Floats y, Floats z) { return {fma(x.a, y.a, z.a), fma(x.b, y.b, z.b)}; }

/// Lanes of 32 bits, or four bytes in each, of twice as many rows.
struct Ints {
  static constexpr int kLanes = 2 * I::kLanes;
  I a, b;

  static Ints load(const std::byte* p) { return {I::load(p), I::load(p + 4 * I::kLanes)}; }
  /// One unsigned byte, or two bytes, for each lane.
  static Ints load_bytes(const std::byte* p) {
    return {I::load_bytes(p), I::load_bytes(p + I::kLanes)};
  }
  static Ints load_words(const std::byte* p) {
    return {I::load_words(p), I::load_words(p + 2 * I::kLanes)};
  }
  static Ints set(int32_t x) { return {I::set(x), I::set(x)}; }
  /// table[lane].
  static Ints gather(const uint32_t* table, Ints index) {
    return {I::gather(table, index.a), I::gather(table, index.b)};
  }
  /// table[lane], where the instruction set looks up words.
  template <size_t kSize>
  static Ints look_up(const uint16_t* table, Ints index) requires(requires(I words) {
    I::look_up_words<kSize>(table, words);
  }) {
    const I both = I::look_up_words<kSize>(table, index.a | (index.b << 16));
    return {both & I::set(0xffff), both >> 16};
  }
};

Ints operator&(Ints x, Ints y) { return {x.a & y.a, x.b & y.b}; }
Ints operator|(Ints x, Ints y) { return {x.a | y.a, x.b | y.b}; }
Ints operator^(Ints x, Ints y) { return {x.a ^ y.a, x.b ^ y.b}; }
Ints operator+(Ints x, Ints y) { return {x.a + y.a, x.b + y.b}; }
Ints operator-(Ints x, Ints y) { return {x.a - y.a, x.b - y.b}; }
Ints operator*(Ints x, Ints y) { return {x.a * y.a, x.b * y.b}; }
Ints operator<<(Ints x, int n) { return {x.a << n, x.b << n}; }
/// Zeros come in from above.
Ints operator>>(Ints x, int n) { return {x.a >> n, x.b >> n}; }
/// Copies of the sign come in from above.
Ints signed_right(Ints x, int n) { return {signed_right(x.a, n), signed_right(x.b, n)}; }
/// By n to the left, or −n to the right.
Ints rotated(Ints x, int n) { return {rotated(x.a, n), rotated(x.b, n)}; }

Floats to_float(Ints x) { return {to_float(x.a), to_float(x.b)}; }
Floats as_float(Ints x) { return {as_float(x.a), as_float(x.b)}; }
/// The low 16 bits of each lane as binary16.
Floats half_low(Ints x) { return {half_low(x.a), half_low(x.b)}; }

/// Byte `index` of each lane, four times.
Ints repeat_byte(Ints x, int index) { return {repeat_byte(x.a, index), repeat_byte(x.b, index)}; }
/// x | y in those bytes in which `bits` has a bit of `mask`; y has no bit of x.
Ints or_where(Ints x, Ints bits, int32_t mask, int y) {
  return {or_where(x.a, bits.a, mask, y), or_where(x.b, bits.b, mask, y)};
}

/// For each lane a pair of signed 16-bit numbers.
Ints pairs(Ints low, Ints high) { return {pairs(low.a, high.a), pairs(low.b, high.b)}; }
/// x.low·y.low + x.high·y.high, with the pair y for all lanes.
Ints pair_product(Ints x, const int16_t* y) { return {pair_product(x.a, y), pair_product(x.b, y)}; }
/// sum + the products of four unsigned codes with the four signed bytes at q.
Ints add_dot4(Ints sum, Ints codes, const int8_t* q) {
  return {add_dot4(sum.a, codes.a, q), add_dot4(sum.b, codes.b, q)};
}

/// Sixteen bytes to look up.
struct Lookup {
  Table table;
  explicit Lookup(const int8_t* bytes) : table(bytes) {}
  /// For each byte below 16 of `index`.
  Ints operator()(Ints index) const { return {table(index.a), table(index.b)}; }
};

}  // namespace
}  // namespace infer::cpu
