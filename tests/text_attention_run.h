// Attention among the rows of texts on any device: what tests of its tiles have in common.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "tests/one_node.h"
#include "tests/random_values.h"

namespace infer::test {

struct TextHeads {
  const char* name;
  int64_t heads, kv_heads, k_dim, v_dim;
  op::TextAttention params;
  bool sinks = false;
};

/// Every size of tiles, whole and padded, and all that a score can be changed by.
constexpr TextHeads kTextHeads[] = {
    {"64", 2, 2, 64, 64, {.scale = 0.125f}},
    {"one of three for keys", 3, 1, 32, 32, {.scale = 0.18f}},
    {"odd elements, softcap", 4, 2, 37, 19, {.scale = 0.5f, .softcap = 3.0f}},
    {"72 of 80", 1, 1, 72, 72, {.scale = 0.12f}},
    {"128, causal, sinks", 2, 1, 128, 128, {.scale = 0.09f, .after = 0}, true},
    {"values of 100, window", 2, 2, 24, 100, {.scale = 0.2f, .before = 20, .after = 9}},
    {"alibi", 3, 3, 32, 32, {.scale = 0.18f, .alibi = 8.0f}},
    {"alibi, softcap", 2, 2, 32, 32, {.scale = 0.5f, .softcap = 2.0f, .alibi = 8.0f}},
    {"chunks", 2, 1, 16, 16, {.scale = 0.3f, .after = 0, .chunk = 70}},
    {"256, window", 2, 1, 256, 256, {.scale = 0.06f, .before = 33, .after = 33}},
};

/// Texts one after another, of the same elements whatever is computed together.
class Texts {
 public:
  /// Elements are multiplied by `scale`. Rows from `infinite` on have infinite values.
  explicit Texts(const TextHeads& of, float scale = 1.0f, int64_t infinite = -1)
      : of_(of), scale_(scale), infinite_(infinite) {}

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
    Stored inputs{part(of_.k_dim * of_.heads, 1, first, c.rows),
                  part(of_.k_dim * of_.kv_heads, 2, first, c.rows),
                  part(of_.v_dim * of_.kv_heads, 3, first, c.rows, infinite_)};
    for (const std::vector<int32_t>& numbers : {begins, ends}) {
      const auto bytes = std::as_bytes(std::span(numbers));
      inputs.emplace_back(bytes.begin(), bytes.end());
    }
    return run_of(device, all, y, c.rows, builder.weights(), inputs, roles);
  }
  int64_t row_elements() const { return of_.heads * of_.v_dim; }

 private:
  std::vector<std::byte> part(int64_t width, uint64_t seed, int32_t first, int64_t rows,
                              int64_t infinite = -1) const {
    std::vector<float> x = random_values(width * (first + rows), seed);
    for (float& value : x) value *= scale_;
    if (infinite >= 0) {
      std::fill(x.begin() + width * infinite, x.end(), std::numeric_limits<float>::infinity());
    }
    const auto bytes = std::as_bytes(std::span(x).subspan(static_cast<size_t>(width * first)));
    return {bytes.begin(), bytes.end()};
  }

  TextHeads of_;
  float scale_;
  int64_t infinite_;
};

/// Whether rows of `all` from `first` on begin with `rows`.
inline bool has_at(const std::vector<float>& all, int64_t first, const std::vector<float>& rows) {
  const auto at = static_cast<size_t>(first);
  return at + rows.size() <= all.size() &&
         std::memcmp(all.data() + at, rows.data(), rows.size() * sizeof(float)) == 0;
}

constexpr int32_t kTextLengths[] = {3, 70, 1, 65};

}  // namespace infer::test
