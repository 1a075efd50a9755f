// Attention among the rows of texts by tiles: near to what float32 gives, and the bits of a row by
// the rows beside it, roles and orders of threads.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "tests/cuda/gpus.h"
#include "tests/random_values.h"
#include "tests/text_attention_run.h"

namespace infer::cuda {
namespace {

using test::has_at;
using test::kTextHeads;
using test::kTextLengths;
using test::Texts;

std::vector<float> compute(const Texts& texts, std::span<const int32_t> lengths, int32_t first = 0,
                           Roles roles = Roles::prompt) {
  return texts.run(*CudaDevice::open(0, false, {}).value(), lengths, first, roles).value();
}

bool by_tiles() {
  return std::ranges::any_of(test::cuda_driver().last_graph().by_kernel, [](const auto& kernel) {
    return kernel.first.starts_with("text_attention_tile_");
  });
}

TEST_CASE("attention of texts: tiles are near to float32, and texts beside a text change no bit") {
  for (const test::TextHeads& heads : kTextHeads) {
    CAPTURE(std::string(heads.name));
    const Texts texts(heads);
    const std::vector<float> all = compute(texts, kTextLengths);
    CHECK(by_tiles());
    const std::vector<float> plain = compute(texts, kTextLengths, 0, Roles::generated);
    CHECK_FALSE(by_tiles());
    const double error = test::squared_error(all, plain);
    CHECK(error < 1e-6);   // of float16 in queries, keys, weights and values
    CHECK(error > 1e-10);  // they are not the same kernels
    int32_t first = 0;
    uint64_t seed = 3;
    for (const int32_t length : kTextLengths) {
      CAPTURE(length);
      test::cuda_driver().set_seed(seed++);
      CHECK(has_at(all, first * texts.row_elements(), compute(texts, {{length}}, first)));
      first += length;
    }
    test::cuda_driver().set_seed(0);
  }
}

TEST_CASE("attention of texts: a text of several pieces") {
  const Texts texts(kTextHeads[1]);
  const std::vector<float> long_text = compute(texts, {{300}});
  CHECK(test::squared_error(long_text, compute(texts, {{300}}, 0, Roles::generated)) < 1e-6);
  CHECK(has_at(compute(texts, {{300, 40}}), 0, long_text));
}

TEST_CASE("attention of texts: infinities of a text stay with it") {
  const std::vector<float> alone = compute(Texts(kTextHeads[1]), {{5}});
  CHECK(has_at(compute(Texts(kTextHeads[1], 1.0f, 5), {{5, 7}}), 0, alone));
}

TEST_CASE("attention of texts: elements beyond float16 stay finite") {
  const Texts texts(kTextHeads[0], 1e6f);
  const std::vector<float> y = compute(texts, kTextLengths);
  CHECK(std::ranges::all_of(y, [](float x) { return std::isfinite(x); }));
}

TEST_CASE("attention of texts: in float32 with --exact, and where a GPU has little shared memory") {
  const Texts texts(kTextHeads[0]);
  const std::vector<float> plain = compute(texts, kTextLengths, 0, Roles::generated);
  const auto exact = CudaDevice::open(0, true, {}).value();
  CHECK(texts.run(*exact, kTextLengths, 0, Roles::prompt).value() == plain);
  CHECK(compute(texts, kTextLengths) != plain);
  const Texts wide(kTextHeads[9]);
  const test::Gpus gpus(std::vector{test::TestGpu{.capability = 75, .shared_bytes = 64 << 10}});
  CHECK(compute(wide, kTextLengths) == compute(wide, kTextLengths, 0, Roles::generated));
}

TEST_CASE("attention of texts: no barrier can be left out") {
  const Texts texts(kTextHeads[1]);
  std::string found;
  test::cuda_driver().set_listener([&](const std::string& mistake) { found = mistake; });
  int barriers = 0;
  for (const char* source : {"ops/text_attention_tile.cu", "device/attend_tile.h"}) {
    std::ifstream in(std::string(INFER_SOURCE_DIR "/backends/cuda/") + source);
    REQUIRE(in.good());
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      if (line.find(" sync_block();") == std::string::npos) continue;
      ++barriers;
      CAPTURE(line);
      CAPTURE(number);
      found.clear();
      test::cuda_driver().leave_out("text_attention_tile", number);
      const auto device = CudaDevice::open(0, false, {}).value();
      CHECK_FALSE(texts.run(*device, {{140}}, 0, Roles::prompt).has_value());
      CHECK(found.find("text_attention_tile_64") != std::string::npos);
    }
  }
  CHECK(barriers == 4);
  test::cuda_driver().leave_out("", 0);
  test::restart_cuda_driver();
}

}  // namespace
}  // namespace infer::cuda
