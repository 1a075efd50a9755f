// How the CPU's kernels round activations, at the edges of what there is.
#include <doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/kernels.h"
#include "backends/cpu/panel.h"

namespace infer::cpu {
namespace {

constexpr int64_t kK = 64;

/// The panel of one column.
struct Rounded {
  std::vector<std::byte> bytes = std::vector<std::byte>(static_cast<size_t>(Panel::bytes(1, kK)));
  PanelChunk chunk(int64_t i) { return {Panel{bytes.data(), 1}, i}; }
};

template <typename Fn>
void on_every_isa(const std::vector<float>& x, Fn check) {
  for (const IsaKernels& isa : all_isas()) {
    if (!isa_runs_here(isa.name)) continue;
    CAPTURE(isa.name);
    Rounded rounded;
    isa.vec->quantise(x.data(), kK, {rounded.bytes.data(), 1}, 0);
    check(rounded);
  }
}

TEST_CASE("quantise: values and sums") {
  std::vector<float> x(kK);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 20.0f;
  on_every_isa(x, [&](Rounded& rounded) {
    for (int64_t c = 0; c < 2; ++c) {
      const PanelChunk chunk = rounded.chunk(c);
      int sums[2] = {};
      for (int64_t i = 0; i < 32; ++i) {
        sums[i / 16] += chunk.q(0)[i];
        const float value = x[static_cast<size_t>(c * 32 + i)];
        CHECK(std::abs(*chunk.d(0) * chunk.q(0)[i] - value) <= *chunk.d(0) * 0.501f);
      }
      CHECK(chunk.sums(0)[0] == sums[0]);
      CHECK(chunk.sums(0)[1] == sums[1]);
      CHECK(*chunk.s(0) == *chunk.d(0) * static_cast<float>(sums[0] + sums[1]));
      CHECK(*chunk.negated_sum(0) == -(sums[0] + sums[1]));
    }
  });
}

TEST_CASE("quantise: what is too small to scale is nothing") {
  for (const float tiny : {1e-45f, 1e-38f, 3e-37f}) {
    std::vector<float> x(kK, 0.0f);
    x[3] = tiny;
    on_every_isa(x, [](Rounded& rounded) {
      CHECK(*rounded.chunk(0).d(0) == 0);
      CHECK(*rounded.chunk(0).s(0) == 0);
    });
  }
}

TEST_CASE("quantise: what is infinite or no number makes its chunk none") {
  using Limits = std::numeric_limits<float>;
  for (const float bad : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
    for (const size_t at : {32u, 40u, 63u}) {
      std::vector<float> x(kK, 1.0f);
      x[at] = bad;
      on_every_isa(x, [](Rounded& rounded) {
        CHECK(*rounded.chunk(0).d(0) == 1.0f / 127.0f);
        CHECK(std::isnan(*rounded.chunk(1).d(0)));
        CHECK(std::isnan(*rounded.chunk(1).s(0)));
      });
    }
  }
}

}  // namespace
}  // namespace infer::cpu
