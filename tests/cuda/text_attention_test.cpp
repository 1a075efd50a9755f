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
#include "tests/one_node.h"
#include "tests/random_values.h"

namespace infer::cuda {
namespace {

struct Heads {
  const char* name;
  int64_t heads, kv_heads, k_dim, v_dim;
  op::TextAttention params;
  bool sinks = false;
};

/// Every size of tiles, whole and padded, and all that a score can be changed by.
constexpr Heads kHeads[] = {
    {"64", 2, 2, 64, 64, {.scale = 0.125f}},
    {"one of three for keys", 3, 1, 32, 32, {.scale = 0.18f}},
    {"odd elements, softcap", 4, 2, 37, 19, {.scale = 0.5f, .softcap = 3.0f}},
    {"72 of 80", 1, 1, 72, 72, {.scale = 0.12f}},
    {"128, causal, sinks", 2, 1, 128, 128, {.scale = 0.09f, .after = 0}, true},
    {"values of 100, window", 2, 2, 24, 100, {.scale = 0.2f, .before = 20, .after = 9}},
    {"alibi", 3, 3, 32, 32, {.scale = 0.18f, .alibi = true}},
    {"alibi, softcap", 2, 2, 32, 32, {.scale = 0.5f, .softcap = 2.0f, .alibi = true}},
    {"chunks", 2, 1, 16, 16, {.scale = 0.3f, .after = 0, .chunk = 70}},
    {"256, window", 2, 1, 256, 256, {.scale = 0.06f, .before = 33, .after = 33}},
};

/// Texts one after another, of the same elements whatever is computed together.
class Texts {
 public:
  explicit Texts(const Heads& of, float scale = 1.0f) : of_(of), scale_(scale) {}

  /// Results [v_dim, heads, rows] of texts of these lengths. `first`: the row that they begin with.
  Result<std::vector<float>> run(Device& device, std::span<const int32_t> lengths, int32_t first,
                                 Roles roles) const {
    std::vector<int32_t> begins;
    std::vector<int32_t> ends;
    for (const int32_t length : lengths) {
      const auto begin = static_cast<int32_t>(begins.size());
      begins.insert(begins.end(), static_cast<size_t>(length), begin);
      ends.insert(ends.end(), static_cast<size_t>(length), begin + length);
    }
    OpCase c;
    c.rows = std::ssize(begins);
    CaseBuilder builder(c, 3);
    GraphBuilder& graph = builder.graph();
    // Before the activations: they do not depend on the rows.
    const ValueId sinks = of_.sinks ? builder.weight(DType::f32, of_.heads) : kNoValue;
    const ValueId q = builder.activations(of_.k_dim, of_.heads);
    const ValueId k = builder.activations(of_.k_dim, of_.kv_heads);
    const ValueId v = builder.activations(of_.v_dim, of_.kv_heads);
    const ValueId y = graph.add(of_.params, {q, k, v, graph.input(StepInput::text_begins, 3),
                                             graph.input(StepInput::text_ends, 4), sinks});
    graph.output(y);
    const Graph all = builder.finish().value();
    test::Stored inputs{part(of_.k_dim * of_.heads, 1, first, c.rows),
                        part(of_.k_dim * of_.kv_heads, 2, first, c.rows),
                        part(of_.v_dim * of_.kv_heads, 3, first, c.rows)};
    for (const std::vector<int32_t>& numbers : {begins, ends}) {
      const auto bytes = std::as_bytes(std::span(numbers));
      inputs.emplace_back(bytes.begin(), bytes.end());
    }
    return test::run_of(device, all, y, c.rows, builder.weights(), inputs, roles);
  }
  std::vector<float> compute(std::span<const int32_t> lengths, int32_t first = 0,
                             Roles roles = Roles::prompt) const {
    return run(*CudaDevice::open(0, false, {}).value(), lengths, first, roles).value();
  }
  int64_t row_elements() const { return of_.heads * of_.v_dim; }

 private:
  std::vector<std::byte> part(int64_t width, uint64_t seed, int32_t first, int64_t rows) const {
    std::vector<float> x = test::random_values(width * (first + rows), seed);
    for (float& value : x) value *= scale_;
    const auto bytes = std::as_bytes(std::span(x).subspan(static_cast<size_t>(width * first)));
    return {bytes.begin(), bytes.end()};
  }

  Heads of_;
  float scale_;
};

/// Whether rows of `all` from `first` on begin with `rows`.
bool has_at(const std::vector<float>& all, int64_t first, const std::vector<float>& rows) {
  const auto at = static_cast<size_t>(first);
  return at + rows.size() <= all.size() &&
         std::memcmp(all.data() + at, rows.data(), rows.size() * sizeof(float)) == 0;
}

bool by_tiles() {
  return std::ranges::any_of(test::cuda_driver().last_graph().by_kernel, [](const auto& kernel) {
    return kernel.first.starts_with("text_attention_tile_");
  });
}

constexpr int32_t kLengths[] = {3, 70, 1, 65};

TEST_CASE("attention of texts: tiles are near to float32, and texts beside a text change no bit") {
  for (const Heads& heads : kHeads) {
    CAPTURE(std::string(heads.name));
    const Texts texts(heads);
    const std::vector<float> all = texts.compute(kLengths);
    CHECK(by_tiles());
    const std::vector<float> plain = texts.compute(kLengths, 0, Roles::generated);
    CHECK_FALSE(by_tiles());
    const double error = test::squared_error(all, plain);
    CHECK(error < 1e-6);   // of float16 in queries, keys, weights and values
    CHECK(error > 1e-10);  // they are not the same kernels
    int32_t first = 0;
    uint64_t seed = 3;
    for (const int32_t length : kLengths) {
      CAPTURE(length);
      test::cuda_driver().set_seed(seed++);
      CHECK(has_at(all, first * texts.row_elements(), texts.compute({{length}}, first)));
      first += length;
    }
    test::cuda_driver().set_seed(0);
  }
}

TEST_CASE("attention of texts: a text of several pieces") {
  const Texts texts(kHeads[1]);
  const std::vector<float> long_text = texts.compute({{300}});
  CHECK(test::squared_error(long_text, texts.compute({{300}}, 0, Roles::generated)) < 1e-6);
  CHECK(has_at(texts.compute({{300, 40}}), 0, long_text));
}

TEST_CASE("attention of texts: elements beyond float16 stay finite") {
  const Texts texts(kHeads[0], 1e6f);
  const std::vector<float> y = texts.compute(kLengths);
  CHECK(std::ranges::all_of(y, [](float x) { return std::isfinite(x); }));
}

TEST_CASE("attention of texts: in float32 with --exact, and where a GPU has little shared memory") {
  const Texts texts(kHeads[0]);
  const std::vector<float> plain = texts.compute(kLengths, 0, Roles::generated);
  const auto exact = CudaDevice::open(0, true, {}).value();
  CHECK(texts.run(*exact, kLengths, 0, Roles::prompt).value() == plain);
  CHECK(texts.compute(kLengths) != plain);
  const Texts wide(kHeads[9]);
  const test::Gpus gpus(std::vector{test::TestGpu{.capability = 75, .shared_bytes = 64 << 10}});
  CHECK(wide.compute(kLengths) == wide.compute(kLengths, 0, Roles::generated));
}

TEST_CASE("attention of texts: no barrier can be left out") {
  const Texts texts(kHeads[1]);
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
