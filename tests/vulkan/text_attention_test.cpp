// Attention among the rows of texts by matrices: near to what float32 gives, and the bits of a row
// by the rows beside it and by roles.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "tests/text_attention_run.h"
#include "tests/vulkan/one_node.h"

namespace infer::vulkan {
namespace {

using test::has_at;
using test::kTextHeads;
using test::kTextLengths;
using test::Texts;

/// On a device that is used so. Compiling the shaders takes most of the time: so it is kept.
class Computed {
 public:
  explicit Computed(bool exact = false) : device_(open_tuned(with_matrices({}), exact).value()) {}
  std::vector<float> operator()(const Texts& texts, std::span<const int32_t> lengths,
                                int32_t first = 0, Roles roles = Roles::prompt) const {
    return texts.run(*device_, lengths, first, roles).value();
  }

 private:
  std::unique_ptr<Device> device_;
};

TEST_CASE("attention of texts: tiles are near to float32, and texts beside a text change no bit") {
  if (!has_matrices()) return;
  const Computed compute;
  for (const test::TextHeads& heads : kTextHeads) {
    CAPTURE(std::string(heads.name));
    const Texts texts(heads);
    const std::vector<float> all = compute(texts, kTextLengths);
    const std::vector<float> plain = compute(texts, kTextLengths, 0, Roles::generated);
    const double error = test::squared_error(all, plain);
    CHECK(error < 1e-6);   // of float16 in queries, keys, weights and values
    CHECK(error > 1e-10);  // they are not the same shaders
    int32_t first = 0;
    for (const int32_t length : kTextLengths) {
      CAPTURE(length);
      CHECK(has_at(all, first * texts.row_elements(), compute(texts, {{length}}, first)));
      first += length;
    }
  }
}

TEST_CASE("attention of texts: several pieces, and elements beyond float16") {
  if (!has_matrices()) return;
  const Computed compute;
  const Texts texts(kTextHeads[1]);
  const std::vector<float> long_text = compute(texts, {{300}});
  CHECK(test::squared_error(long_text, compute(texts, {{300}}, 0, Roles::generated)) < 1e-6);
  CHECK(has_at(compute(texts, {{300, 40}}), 0, long_text));
  // Another text's infinities stay with it, also where it shares a tile.
  const std::vector<float> alone = compute(Texts(kTextHeads[1]), {{5}});
  const Texts broken(kTextHeads[1], 1.0f, 5);
  CHECK(has_at(compute(broken, {{5, 7}}), 0, alone));
  const Texts large(kTextHeads[0], 1e6f);
  CHECK(
      std::ranges::all_of(compute(large, kTextLengths), [](float x) { return std::isfinite(x); }));
}

TEST_CASE("attention of texts: in float32 with --exact") {
  if (!has_matrices()) return;
  const Texts texts(kTextHeads[0]);
  CHECK(Computed(true)(texts, kTextLengths) ==
        Computed()(texts, kTextLengths, 0, Roles::generated));
}

}  // namespace
}  // namespace infer::vulkan
