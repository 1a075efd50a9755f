#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "engine/quant/quant.h"

using namespace infer;

namespace {

constexpr int64_t kCount = 256 * 64;

/// The two ways to make blocks of values.
enum class Way { encode, quantise };
constexpr Way kWays[] = {Way::encode, Way::quantise};

bool exists(DType type, Way way) {
  const QuantTraits& traits = quant_traits(type);
  return way == Way::encode ? traits.encode != nullptr : traits.quantise != nullptr;
}

/// Made into blocks and decoded again. Nothing is written beyond the blocks.
std::vector<float> round_trip(DType type, const std::vector<float>& x, Way way = Way::encode) {
  const DTypeInfo& info = dtype_info(type);
  const auto n = static_cast<int64_t>(x.size());
  REQUIRE(n % info.block_elements == 0);
  const auto bytes = static_cast<size_t>(n / info.block_elements * info.block_bytes);
  std::vector<uint8_t> blocks(bytes + 1, 0xa5);
  if (way == Way::encode) {
    quant_traits(type).encode(x.data(), blocks.data(), n);
  } else {
    quant_traits(type).quantise(x.data(), nullptr, blocks.data(), n);
  }
  CHECK(blocks.back() == 0xa5);
  std::vector<float> out(x.size());
  quant_traits(type).decode(blocks.data(), out.data(), n);
  return out;
}

std::vector<float> gaussian(float deviation = 1, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> x(kCount);
  for (float& v : x) v = normal(random);
  return x;
}

/// Root mean square of the error over that of the values.
double relative_error(const std::vector<float>& x, const std::vector<float>& y) {
  double error = 0;
  double power = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
    power += double{x[i]} * x[i];
  }
  return std::sqrt(error / power);
}

bool is_integer(DType type) {
  return type == DType::i8 || type == DType::i16 || type == DType::i32 || type == DType::i64;
}

/// What each encoder has to reach on Gaussian values: a little above what it does, so that a worse
/// search is seen. The information bound for b bits is about 2^−b.
struct Bound {
  DType type;
  double error;
};
constexpr Bound kBounds[] = {
    {DType::f32, 0},        {DType::f64, 0},       {DType::f16, 2.2e-4},  {DType::bf16, 1.8e-3},
    {DType::q4_0, 0.089},   {DType::q4_1, 0.081},  {DType::q5_0, 0.0445}, {DType::q5_1, 0.0393},
    {DType::q8_0, 0.0056},  {DType::q8_1, 0.0056}, {DType::q8_k, 0.0073}, {DType::q2_k, 0.28},
    {DType::q3_k, 0.152},   {DType::q4_k, 0.074},  {DType::q5_k, 0.0375}, {DType::q6_k, 0.0187},
    {DType::iq4_nl, 0.077}, {DType::iq4_xs, 0.08}, {DType::mxfp4, 0.115}, {DType::nf4, 0.1},
    {DType::fp4, 0.14},
};

}  // namespace

TEST_CASE("every type that should have an encoder has one, and a bound on its error") {
  for (const DTypeInfo& info : all_dtypes()) {
    CAPTURE(info.name);
    bool bounded = is_integer(info.type);
    for (const Bound& bound : kBounds) bounded = bounded || bound.type == info.type;
    CHECK((quant_traits(info.type).encode != nullptr) == bounded);
    CHECK((quant_traits(info.type).decode != nullptr));
    CHECK(quant_traits(info.type).type == info.type);
  }
}

TEST_CASE("encoding keeps Gaussian values within the error of their type") {
  for (const float deviation : {1.0f, 0.02f, 300.0f}) {
    const std::vector<float> x = gaussian(deviation);
    for (const Bound& bound : kBounds) {
      const double error = relative_error(x, round_trip(bound.type, x));
      INFO(dtype_info(bound.type).name, " of ", deviation, ": ", error);
      CHECK(error <= bound.error);
    }
  }
}

TEST_CASE("values that are all of one sign are kept as well") {
  std::vector<float> x = gaussian();
  for (float& v : x) v = 5 + std::fabs(v);
  for (const DType type : {DType::q4_1, DType::q5_1}) {
    CHECK(relative_error(x, round_trip(type, x)) < 0.02);
  }
  for (float& v : x) v = -v;  // the K types store a minimum that is not positive
  for (const DType type : {DType::q4_k, DType::q5_k}) {
    CHECK(relative_error(x, round_trip(type, x)) < 0.02);
  }
  for (const Bound& bound : kBounds) {
    INFO(dtype_info(bound.type).name);
    CHECK(relative_error(x, round_trip(bound.type, x)) < 0.17);
  }
}

TEST_CASE("zeros stay zeros") {
  const std::vector<float> zeros(256);
  for (const DTypeInfo& info : all_dtypes()) {
    for (const Way way : kWays) {
      if (!exists(info.type, way)) continue;
      CAPTURE(info.name);
      CHECK(round_trip(info.type, zeros, way) == zeros);
    }
  }
}

TEST_CASE("blocks of one value keep it") {
  for (const float value : {1.0f, -1.0f, 0.013f, -700.0f}) {
    const std::vector<float> x(256, value);
    for (const Bound& bound : kBounds) {
      INFO(dtype_info(bound.type).name, " of ", value);
      // MXFP4 has no finer scales than powers of two.
      CHECK(relative_error(x, round_trip(bound.type, x)) <
            (bound.type == DType::mxfp4 ? 0.2 : 0.04));
    }
  }
}

TEST_CASE("one large value among small ones is kept") {
  for (const float value : {100.0f, -100.0f}) {
    std::vector<float> x = gaussian(0.01f);
    for (size_t i = 0; i < x.size(); i += 256) x[i + 77] = value;
    for (const Bound& bound : kBounds) {
      const std::vector<float> y = round_trip(bound.type, x);
      INFO(dtype_info(bound.type).name, " of ", value, ": ", y[77]);
      CHECK(std::fabs(y[77] - value) < 0.15 * std::fabs(value));
    }
  }
}

TEST_CASE("extreme magnitudes give finite values") {
  const float sizes[] = {FLT_MAX, 1e30f,  1e10f,   70000.0f, 1e-5f,
                         1e-8f,   1e-30f, FLT_MIN, 1e-40f,   FLT_TRUE_MIN};
  for (const float size : sizes) {
    std::vector<float> x = gaussian(0.2f, 3);
    for (float& v : x) v = std::clamp(v, -1.0f, 1.0f) * size;
    x[0] = size;
    x[1] = -size;
    for (size_t i = 256; i < 512; ++i) x[i] = i % 2 == 0 ? size : -size;
    for (const DTypeInfo& info : all_dtypes()) {
      // These hold infinity itself, and what is too large for binary16 becomes it.
      if (info.type == DType::f16) continue;
      if (info.type == DType::bf16 && size == FLT_MAX) continue;
      // Clipping, as few levels need it, makes the largest values no larger.
      const double most = info.block_bytes * 8 < info.block_elements * 4 ? 1.6 : 1.3;
      for (const Way way : kWays) {
        if (!exists(info.type, way)) continue;
        INFO(info.name, " of ", size);
        bool finite = true;
        bool bounded = true;
        for (const float v : round_trip(info.type, x, way)) {
          finite = finite && std::isfinite(v);
          bounded = bounded && std::fabs(v) <= most * double{size};
        }
        CHECK(finite);
        CHECK(bounded);
      }
    }
  }
}

TEST_CASE("integers are rounded and limited") {
  const std::vector<float> x = {0.5f, 1.5f, -1.5f, 300, -300, 1e6f, -1e6f, 1e20f, -1e20f};
  CHECK(round_trip(DType::i8, x) == std::vector<float>{0, 2, -2, 127, -128, 127, -128, 127, -128});
  CHECK(round_trip(DType::i16, x) ==
        std::vector<float>{0, 2, -2, 300, -300, 32767, -32768, 32767, -32768});
  CHECK(round_trip(DType::i32, x) ==
        std::vector<float>{0, 2, -2, 300, -300, 1e6f, -1e6f, 0x1p31f, -0x1p31f});
  CHECK(round_trip(DType::i64, x) ==
        std::vector<float>{0, 2, -2, 300, -300, 1e6f, -1e6f, 0x1p63f, -0x1p63f});
}

TEST_CASE("the sums stored for the types of activations are right") {
  const std::vector<float> x = gaussian();
  struct Q81 {
    uint16_t d, s;
    int8_t qs[32];
  };
  std::vector<Q81> q8_1(kCount / 32);
  quant_traits(DType::q8_1).encode(x.data(), q8_1.data(), kCount);
  for (const Q81& block : q8_1) {
    int sum = 0;
    for (const int8_t q : block.qs) sum += q;
    CHECK(block.s == f32_to_f16(f16_to_f32(block.d) * static_cast<float>(sum)));
  }
  struct Q8K {
    float d;
    int8_t qs[256];
    int16_t sums[16];
  };
  std::vector<Q8K> q8_k(kCount / 256);
  quant_traits(DType::q8_k).encode(x.data(), q8_k.data(), kCount);
  for (const Q8K& block : q8_k) {
    for (int group = 0; group < 16; ++group) {
      int sum = 0;
      for (int i = 0; i < 16; ++i) sum += block.qs[16 * group + i];
      CHECK(block.sums[group] == sum);
    }
  }
}
