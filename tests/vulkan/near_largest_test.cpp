// The values near a row's largest, found on the device.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/kept_devices.h"
#include "tests/vulkan/one_node.h"

namespace infer::vulkan {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

using Lists = std::vector<std::vector<std::pair<int32_t, float>>>;

/// By looking at every value; nothing of a row with more than `most`.
Lists by_hand(const std::vector<float>& values, int64_t columns, float reach, size_t most) {
  Lists lists;
  for (auto row = values.begin(); row != values.end(); row += columns) {
    float best = -kInf;
    for (int64_t i = 0; i < columns; ++i) best = row[i] > best ? row[i] : best;
    auto& list = lists.emplace_back();
    for (int64_t i = 0; i < columns; ++i) {
      if (row[i] >= best - reach) list.emplace_back(static_cast<int32_t>(i), row[i]);
    }
    if (list.size() > most) list.clear();
  }
  return lists;
}

/// Lengths from nothing to more than a list holds, values that are not numbers, ties.
std::vector<float> values_of(int64_t columns, int64_t rows) {
  std::vector<float> values(static_cast<size_t>(columns * rows));
  uint32_t state = 7;
  for (size_t i = 0; i < values.size(); ++i) {
    state = state * 1664525 + 1013904223;
    values[i] = static_cast<float>(state >> 8) * 0x1p-24f * 40 - 30;
  }
  for (int64_t r = 0; r < rows; ++r) {
    float* row = values.data() + r * columns;
    if (r % 4 == 1) std::fill(row, row + columns, 1.25f);
    if (r % 4 == 2) row[columns / 2] = std::numeric_limits<float>::quiet_NaN();
    if (r % 4 == 3) row[columns - 1] = 500;
  }
  return values;
}

TEST_CASE("the device lists the values that are near the largest of each row") {
  if (!present()) return;
  const auto device = open_tuned(Tuning()).value();
  REQUIRE(device->finds_largest());
  std::vector<std::vector<IndexedValue>> found;
  for (const int64_t columns : {1, 63, 64, 65, 4096, 4097, 151937}) {
    for (const int64_t rows : {1, 2, 3, 33}) {
      if (columns > 100000 && rows > 3) continue;
      const std::vector<float> values = values_of(columns, rows);
      const auto bytes = std::as_bytes(std::span(values));
      const auto buffer =
          device->alloc(static_cast<int64_t>(bytes.size()) + 256, Purpose::activations).value();
      const MemoryRef at{buffer.get(), 128};
      REQUIRE(device->write(bytes, at).ok());
      for (const float reach : {0.0f, 0.25f, 16.0f}) {
        CAPTURE(columns);
        CAPTURE(rows);
        CAPTURE(reach);
        REQUIRE(device->near_largest(at, columns, rows, reach, found).ok());
        Lists sorted;
        for (const auto& row : found) {
          auto& list = sorted.emplace_back();
          for (const auto& [index, value] : row) list.emplace_back(index, value);
          std::ranges::sort(list);
        }
        CHECK(sorted == by_hand(values, columns, reach, 1024));
      }
    }
  }
  const std::vector<float> none(70, std::numeric_limits<float>::quiet_NaN());
  const auto buffer = device->alloc(512, Purpose::activations).value();
  REQUIRE(device->write(std::as_bytes(std::span(none)), {buffer.get(), 0}).ok());
  REQUIRE(device->near_largest({buffer.get(), 0}, 70, 1, 4, found).ok());
  CHECK(found.at(0).empty());
}

TEST_CASE("texts are the same whether the device or the host finds the logits that matter") {
  if (!present()) return;
  const test::KeptDevices kept;
  const auto texts = [](bool near_largest) {
    Tuning tuning;
    tuning.near_largest = near_largest;
    LoadOptions options;
    options.device = "vulkan";
    options.context = 256;
    const auto engine = load_tuned(test::data_path("golden/llama-q4_k.gguf"), options, tuning);
    REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
    std::vector<std::vector<int32_t>> all;
    for (const auto& [temperature, top_k] : {std::pair(0.0f, 0), {0.8f, 40}, {1.5f, 3}}) {
      const auto session = (*engine)->open_session().value();
      GenerateOptions generate;
      generate.max_tokens = 24;
      generate.ignore_end = true;
      generate.sampling.temperature = temperature;
      generate.sampling.top_k = top_k;
      generate.sampling.seed = 5;
      auto& tokens = all.emplace_back();
      const std::vector<int32_t> prompt{3, 7, 11, 2};
      const auto result = session->generate(prompt, generate, [&](int32_t token, std::string_view) {
        tokens.push_back(token);
        return true;
      });
      REQUIRE_MESSAGE(result.has_value(), result.error().message());
    }
    return all;
  };
  CHECK(texts(true) == texts(false));
}

}  // namespace
}  // namespace infer::vulkan
