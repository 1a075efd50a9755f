#include "engine/sample/logit_blocks.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace infer {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
/// Vectors that every architecture here has.
using Floats [[gnu::vector_size(16)]] = float;
using Words [[gnu::vector_size(16)]] = uint32_t;
constexpr size_t kWidth = 4;
constexpr size_t kChains = 4;  // independent sums, so that none waits for the one before
constexpr size_t kStep = kWidth * kChains;

Floats load(const float* x) {
  Floats v;
  std::memcpy(&v, x, sizeof(v));
  return v;
}

/// Written so that what is not a number loses.
template <typename F>
F larger(F x, F best) {
  return x > best ? x : best;
}

float largest_of(std::span<const float> x) {
  Floats chains[kChains];
  std::fill_n(chains, kChains, Floats{} + kNone);
  size_t i = 0;
  for (; i + kStep <= x.size(); i += kStep) {
    for (size_t c = 0; c < kChains; ++c) {
      chains[c] = larger(load(&x[i + c * kWidth]), chains[c]);
    }
  }
  for (size_t c = 1; c < kChains; ++c) chains[0] = larger(chains[c], chains[0]);
  float best = kNone;
  for (size_t l = 0; l < kWidth; ++l) best = larger(chains[0][l], best);
  for (; i < x.size(); ++i) best = larger(x[i], best);
  return best;
}

float mass_of(std::span<const float> x, float shift) {
  Floats chains[kChains] = {};
  size_t i = 0;
  for (; i + kStep <= x.size(); i += kStep) {
    for (size_t c = 0; c < kChains; ++c) {
      chains[c] += exp_roughly<Floats, Words>(load(&x[i + c * kWidth]) - shift);
    }
  }
  const Floats sums = (chains[0] + chains[1]) + (chains[2] + chains[3]);
  float mass = 0;
  for (size_t l = 0; l < kWidth; ++l) mass += sums[l];
  for (; i < x.size(); ++i) mass += exp_roughly(x[i] - shift);
  return mass;
}

}  // namespace

void LogitBlocks::scan(std::span<const float> logits) {
  logits_ = logits;
  largest_.resize((logits.size() + kBlock - 1) / kBlock);
  best_ = kNone;
  for (size_t i = 0; i < largest_.size(); ++i) {
    largest_[i] = largest_of(block(i));
    best_ = larger(largest_[i], best_);
  }
}

int32_t LogitBlocks::first_best() const {
  if (best_ == kNone) return -1;
  const auto i = static_cast<size_t>(std::ranges::find(largest_, best_) - largest_.begin());
  const std::span<const float> x = block(i);
  return static_cast<int32_t>(i * kBlock) +
         static_cast<int32_t>(std::ranges::find(x, best_) - x.begin());
}

void LogitBlocks::gather(float least, std::vector<Candidate>& to) const {
  to.clear();
  for (size_t i = 0; i < largest_.size(); ++i) {
    if (!(largest_[i] >= least)) continue;
    const std::span<const float> x = block(i);
    for (size_t j = 0; j < x.size(); ++j) {
      if (x[j] >= least) to.push_back({static_cast<int32_t>(i * kBlock + j), x[j]});
    }
  }
}

double LogitBlocks::mass() const {
  double mass = 0;
  for (size_t i = 0; i < largest_.size(); ++i) mass += mass_of(block(i), best_);
  return mass;
}

}  // namespace infer
