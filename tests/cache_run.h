// Graphs over a cache that is filled before, at any slots of one sequence, on any device: what
// tests of how operations share it out have in common.
#pragma once

#include <doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/backend/device.h"
#include "engine/core/checked.h"
#include "engine/ops/op.h"
#include "tests/random_values.h"

namespace infer::test {

/// Builds a graph for rows whose slots these are.
struct CacheGraph {
  GraphBuilder& g;
  int64_t rows;
  ValueId slots, sequences;

  /// f32 [dim, heads]: random numbers that depend on `index` and on the row's slot.
  ValueId input(int32_t index, int64_t dim, int64_t heads = 1) const {
    return g.data_input(index, tensor(DType::f32, dim, heads, rows), Rows::tokens);
  }
};

class CacheRun {
 public:
  /// All layers have pages of one kind.
  CacheRun(KvGeometry geometry, int32_t tokens, std::unique_ptr<Device> device)
      : geometry_(std::move(geometry)), tokens_(tokens), device_(std::move(device)) {
    layout_ = canonical_kv_layout(geometry_);
    REQUIRE(layout_.kinds.size() == 1);
    const auto pages = div_ceil<int64_t>(tokens, kPageTokens);
    cache_ = device_->alloc(pages * layout_.kinds[0].page_bytes, Purpose::kv).value();
    for (int32_t page = 0; page < pages; ++page) table_.push_back(page);
  }

  /// For all tokens: stores(graph).
  template <typename Build>
  void store(const Build& stores) {
    constexpr int32_t kTogether = 100;
    for (int32_t slot = 0; slot < tokens_; slot += kTogether) {
      (void)run<float>(slot, std::min(kTogether, tokens_ - slot), [&](const CacheGraph& graph) {
        stores(graph);
        return kNoValue;
      });
    }
  }

  /// What rows at slots from `slot` on make of the value that build(graph) returns.
  template <typename T, typename Build>
  std::vector<T> run(int32_t slot, int32_t rows, const Build& build) {
    GraphBuilder g(infer_outputs, rows, rows, geometry_);
    const CacheGraph inputs{g, rows, g.input(StepInput::slots), g.input(StepInput::sequences)};
    const ValueId y = build(inputs);
    if (y != kNoValue) g.output(y);
    const Graph graph = g.finish().value();
    const Segment segment{&graph, 0, static_cast<int32_t>(graph.nodes().size())};
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::vector<MemoryRef> memory(graph.values().size());
    for (size_t id = 0; id < memory.size(); ++id) {
      const Value& value = graph.values()[id];
      if (value.kind != Value::Kind::result) continue;
      const int64_t bytes = std::max<int64_t>(value.desc.extent_bytes(), 64);
      buffers.push_back(device_->alloc(bytes, Purpose::activations).value());
      memory[id] = {buffers.back().get(), 0};
    }
    const int64_t scratch = std::max<int64_t>(device_->scratch_bytes(segment), 64);
    buffers.push_back(device_->alloc(scratch, Purpose::scratch).value());
    const auto program = device_->compile({segment, memory, {buffers.back().get(), 0}}).value();

    std::vector<int32_t> at;
    for (int32_t r = 0; r < rows; ++r) at.push_back(slot + r);
    const std::vector<int32_t> none(static_cast<size_t>(rows), 0);
    std::vector<const std::byte*> bound(graph.values().size(), nullptr);
    for (size_t id = 0; id < bound.size(); ++id) {
      const Value& value = graph.values()[id];
      if (value.kind != Value::Kind::input) continue;
      const void* from = nullptr;
      if (value.input == StepInput::slots) {
        from = at.data();
      } else if (value.input == StepInput::sequences) {
        from = none.data();
      } else {
        from = values_of(value.index, value.desc.shape[0] * value.desc.shape[1], slot);
      }
      bound[id] = static_cast<const std::byte*>(from);
    }
    std::byte* slab = cache_->address();
    const auto pages = static_cast<int32_t>(table_.size());
    const KvPages cache{&slab, pages, layout_.kinds[0].page_bytes, table_.data(), pages};
    REQUIRE(program->run({rows, rows, bound, {&cache, 1}, nullptr, rows}).ok());
    if (y == kNoValue) return {};
    std::vector<T> found(static_cast<size_t>(graph.value(y).desc.elements()));
    REQUIRE(device_->read(memory[static_cast<size_t>(y)], std::as_writable_bytes(std::span(found)))
                .ok());
    return found;
  }

 private:
  const float* values_of(int32_t index, int64_t width, int32_t slot) {
    std::vector<float>& values = values_[index];
    if (values.empty()) values = random_values(width * tokens_, static_cast<uint64_t>(index) + 1);
    return &values[static_cast<size_t>(slot * width)];
  }

  KvGeometry geometry_;
  int32_t tokens_;
  std::unique_ptr<Device> device_;
  KvLayout layout_;
  std::unique_ptr<Buffer> cache_;
  std::vector<int32_t> table_;
  std::map<int32_t, std::vector<float>> values_;
};

/// Rows at the end of what the cache has and before it: three in a step and one alone.
/// same(whole, parts): results of two runs.
template <typename T, typename Run, typename Build>
void check_parts(Run& whole, Run& parts, std::initializer_list<int32_t> slots, const Build& build) {
  for (const int32_t slot : slots) {
    CAPTURE(slot);
    const std::vector<T> expected = whole.template run<T>(slot, 3, build);
    CHECK((parts.template run<T>(slot, 3, build) == expected));
    const std::vector<T> one = parts.template run<T>(slot + 1, 1, build);
    const auto from = static_cast<std::ptrdiff_t>(one.size());
    CHECK(std::equal(one.begin(), one.end(), expected.begin() + from));
    CHECK(std::ranges::any_of(one, [](T x) { return x != 0; }));
  }
}

}  // namespace infer::test
