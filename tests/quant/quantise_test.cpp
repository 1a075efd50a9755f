// What quantising for weights reaches: against the information bound, against the best there is
// where that can be found by trying everything, and that importance is heeded.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "engine/quant/iq4_levels.h"
#include "engine/quant/quant.h"

using namespace infer;

namespace {

constexpr int64_t kCount = 256 * 64;

std::vector<float> gaussian(uint32_t seed, int64_t count = kCount) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) v = normal(random);
  return x;
}

/// Log-normal, as the squares of activations are.
std::vector<float> importances(uint32_t seed, int64_t count = kCount) {
  std::vector<float> w = gaussian(seed, count);
  for (float& v : w) v = std::exp(1.5f * v);
  return w;
}

std::vector<uint8_t> blocks_of(DType type, const std::vector<float>& x, const float* importance) {
  const DTypeInfo& info = dtype_info(type);
  const auto n = static_cast<int64_t>(x.size());
  std::vector<uint8_t> blocks(static_cast<size_t>(n / info.block_elements * info.block_bytes));
  quant_traits(type).quantise(x.data(), importance, blocks.data(), n);
  return blocks;
}

std::vector<float> quantised(DType type, const std::vector<float>& x,
                             const float* importance = nullptr) {
  std::vector<float> out(x.size());
  quant_traits(type).decode(blocks_of(type, x, importance).data(), out.data(),
                            static_cast<int64_t>(x.size()));
  return out;
}

/// Σw(x − y)² over [first, last).
double error_of(const std::vector<float>& x, const std::vector<float>& y, const float* w,
                size_t first = 0, size_t last = kCount) {
  double sum = 0;
  for (size_t i = first; i < std::min(last, x.size()); ++i) {
    const double delta = double{x[i]} - y[i];
    sum += (w == nullptr ? 1.0 : w[i]) * delta * delta;
  }
  return sum;
}

/// Types that are searched, and how many times the information bound 2^−b for b bits a weight their
/// error may be for Gaussian values. Fixed-rate scalar quantisation cannot do better than 1.65 at
/// high rates (Panter & Dite 1951); one scale for 32 weights, and levels that are not made for
/// these values, cost some more; codebooks of vectors less.
struct Bound {
  DType type;
  double factor;
};
constexpr Bound kBounds[] = {
    {DType::q4_0, 1.9},     {DType::q4_1, 2.3},    {DType::q5_0, 1.9},    {DType::q5_1, 2.2},
    {DType::q8_0, 2.0},     {DType::q2_k, 1.65},   {DType::q3_k, 1.65},   {DType::q4_k, 1.65},
    {DType::q5_k, 1.65},    {DType::q6_k, 1.65},   {DType::iq4_nl, 1.72}, {DType::iq4_xs, 1.65},
    {DType::mxfp4, 2.2},    {DType::iq2_xxs, 1.5}, {DType::iq2_xs, 1.55}, {DType::iq2_s, 1.55},
    {DType::iq3_xxs, 1.65}, {DType::iq3_s, 1.6},   {DType::nf4, 2.1},     {DType::fp4, 3.0},
};

/// The least error of one block of 32 with levels times one scale, by trying everything: between
/// two scales at which a value changes its level nothing changes but the scale.
template <size_t Count>
double least_error(const float* x, const float* w, const float (&levels)[Count]) {
  std::vector<double> changes;  // inverse scales
  for (int i = 0; i < 32; ++i) {
    for (size_t l = 1; l < Count; ++l) {
      if (x[i] != 0) changes.push_back((double{levels[l - 1]} + levels[l]) / 2 / x[i]);
    }
  }
  std::ranges::sort(changes);
  double squares = 0;
  for (int i = 0; i < 32; ++i) squares += double{w[i]} * x[i] * x[i];
  double best = squares;
  for (size_t c = 1; c < changes.size(); ++c) {
    const double inverse = (changes[c - 1] + changes[c]) / 2;
    double xq = 0;
    double qq = 0;
    for (int i = 0; i < 32; ++i) {
      double q = levels[0];
      for (const float level : levels) {
        if (std::fabs(level - x[i] * inverse) < std::fabs(q - x[i] * inverse)) q = level;
      }
      xq += w[i] * x[i] * q;
      qq += w[i] * q * q;
    }
    if (qq > 0) best = std::min(best, squares - xq * xq / qq);
  }
  return best;
}

/// What the search counts an error with where there is an importance (search.h).
std::vector<float> weights(const std::vector<float>& x, const std::vector<float>& importance) {
  std::vector<float> w(x.size());
  for (size_t b = 0; b < x.size(); b += 32) {
    float squares = 0;
    for (size_t i = b; i < b + 32; ++i) squares += x[i] * x[i];
    for (size_t i = b; i < b + 32; ++i) {
      w[i] = importance[i] * std::sqrt(squares / 16 + x[i] * x[i]);
    }
  }
  return w;
}

}  // namespace

TEST_CASE("every type that is searched has a bound") {
  for (const DTypeInfo& info : all_dtypes()) {
    CAPTURE(info.name);
    const auto bound = std::ranges::find(kBounds, info.type, &Bound::type);
    const bool searched = quant_traits(info.type).quantise != nullptr;
    const bool weight =
        is_quantised(info.type) && info.type != DType::q8_1 && info.type != DType::q8_k;
    if (weight) CHECK(searched == (bound != std::end(kBounds)));
    if (quant_traits(info.type).encode != nullptr) CHECK(searched);
  }
}

TEST_CASE("the error of Gaussian values is near the information bound") {
  const std::vector<float> x = gaussian(1);
  const double squares = error_of(x, std::vector<float>(x.size()), nullptr);
  for (const Bound& bound : kBounds) {
    const DTypeInfo& info = dtype_info(bound.type);
    const double bits = 8.0 * info.block_bytes / info.block_elements;
    const double error = std::sqrt(error_of(x, quantised(bound.type, x), nullptr) / squares);
    INFO(info.name, ": ", error * std::exp2(bits));
    CHECK(error < bound.factor * std::exp2(-bits));
    CHECK(error > std::exp2(-bits));  // else it would be measured wrongly
  }
}

TEST_CASE("one scale is as good as the best there is") {
  float four[16];
  float five[32];
  float nonlinear[16];
  for (int i = 0; i < 16; ++i) four[i] = static_cast<float>(i - 8);
  for (int i = 0; i < 32; ++i) five[i] = static_cast<float>(i - 16);
  std::copy(std::begin(kIq4Levels), std::end(kIq4Levels), nonlinear);
  const std::vector<float> x = gaussian(2);
  const std::vector<float> importance = importances(3);
  const std::vector<float> w = weights(x, importance);
  const std::vector<float> y4 = quantised(DType::q4_0, x, importance.data());
  const std::vector<float> y5 = quantised(DType::q5_0, x, importance.data());
  const std::vector<float> yn = quantised(DType::iq4_nl, x, importance.data());
  double best[3] = {};
  double found[3] = {};
  for (size_t b = 0; b < 32 * 64; b += 32) {
    best[0] += least_error(&x[b], &w[b], four);
    best[1] += least_error(&x[b], &w[b], five);
    best[2] += least_error(&x[b], &w[b], nonlinear);
    found[0] += error_of(x, y4, w.data(), b, b + 32);
    found[1] += error_of(x, y5, w.data(), b, b + 32);
    found[2] += error_of(x, yn, w.data(), b, b + 32);
  }
  for (int i = 0; i < 3; ++i) {
    INFO(i, ": ", found[i] / best[i]);
    CHECK(found[i] < 1.04 * best[i]);
    CHECK(found[i] > 0.999 * best[i]);  // a scale is rounded to binary16, nothing else
  }
}

TEST_CASE("scale and offset are nearly as good as the best of a fine grid") {
  const std::vector<float> x = gaussian(4, 32 * 48);
  const std::vector<float> importance = importances(5, 32 * 48);
  const std::vector<float> w = weights(x, importance);
  const std::vector<float> y = quantised(DType::q4_1, x, importance.data());
  double best_sum = 0;
  for (size_t b = 0; b < x.size(); b += 32) {
    const auto [low, high] = std::minmax_element(x.begin() + static_cast<std::ptrdiff_t>(b),
                                                 x.begin() + static_cast<std::ptrdiff_t>(b + 32));
    const double range = *high - *low;
    double best = HUGE_VAL;
    for (int l = -10; l <= 40; ++l) {
      for (int h = -10; h <= 40; ++h) {  // the ends moved inwards by hundredths of the range
        const double from = *low + 0.01 * l * range;
        const double scale = (*high - 0.01 * h * range - from) / 15;
        double error = 0;
        for (size_t i = b; i < b + 32; ++i) {
          const double q = std::clamp(std::nearbyint((x[i] - from) / scale), 0.0, 15.0);
          error += w[i] * (x[i] - from - scale * q) * (x[i] - from - scale * q);
        }
        best = std::min(best, error);
      }
    }
    best_sum += best;
  }
  const double found = error_of(x, y, w.data());
  INFO("times the best: ", found / best_sum);
  CHECK(found < 1.1 * best_sum);
}

TEST_CASE("what is important is kept more exactly") {
  const std::vector<float> x = gaussian(6);
  const std::vector<float> importance = importances(7);
  for (const Bound& bound : kBounds) {
    if (bound.type == DType::q8_0) continue;  // rounding alone: there is nothing to gain
    const double plain = error_of(x, quantised(bound.type, x), importance.data());
    const double heeded =
        error_of(x, quantised(bound.type, x, importance.data()), importance.data());
    INFO(dtype_info(bound.type).name, ": ", heeded / plain);
    CHECK(heeded < (bound.type == DType::mxfp4 ? 0.99 : 0.9) * plain);
  }
}

TEST_CASE("importance of any size, and none at all, gives finite values near the weights") {
  const std::vector<float> x = gaussian(8);
  for (const float size : {0.0f, 1e-38f, 1e-20f, 1e20f, 3e38f}) {
    std::vector<float> importance(x.size(), size);
    for (size_t i = 0; i < x.size(); i += 5) importance[i] = 0;
    for (const Bound& bound : kBounds) {
      const std::vector<float> y = quantised(bound.type, x, importance.data());
      INFO(dtype_info(bound.type).name, " with ", size);
      CHECK(error_of(x, y, nullptr) < 0.35 * kCount);
    }
  }
}

TEST_CASE("columns that were never used stay usable beside others") {
  const std::vector<float> x = gaussian(10);
  std::vector<float> importance(x.size(), 1.0f);
  std::vector<float> unused(x.size(), 0.0f);
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % 64 >= 32) continue;
    importance[i] = 0;
    unused[i] = 1;
  }
  for (const Bound& bound : kBounds) {
    const std::vector<float> y = quantised(bound.type, x, importance.data());
    INFO(dtype_info(bound.type).name, ": ", error_of(x, y, unused.data()) / (kCount / 2.0));
    CHECK(error_of(x, y, unused.data()) < 0.35 * kCount / 2);
  }
}

TEST_CASE("threads may quantise at once, the first time as well") {
  const std::vector<float> x = gaussian(9, 256 * 4);
  std::vector<std::vector<uint8_t>> results(4);
  std::vector<std::thread> threads;
  for (std::vector<uint8_t>& result : results) {
    threads.emplace_back([&] { result = blocks_of(DType::iq2_s, x, nullptr); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<uint8_t>& result : results) CHECK(result == results[0]);
}
