// Attention over a cache, step by step, on any device: what tests of its order have in common.
#pragma once

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "engine/backend/device.h"
#include "engine/core/checked.h"
#include "engine/ops/op.h"
#include "tests/random_values.h"

namespace infer::test {

struct AttentionSetup {
  const char* name;
  int64_t heads;
  KvLayerShape kv;
  DType type;
  int64_t tokens;  ///< of each sequence
  float softcap = 0;
  int32_t from = 0;  ///< slots before it are stored, and nothing asks from there
  Roles roles = Roles::generated;
  /// Pairs of a rope of queries and keys before: 0: none.
  int64_t pairs = 0;
  op::Rope::Style style = op::Rope::Style::interleaved;
  float last_factor = 1.0f;  ///< of the values of each sequence's last token
};

/// A row of a step.
struct RowId {
  int32_t sequence;
  int32_t slot;
  bool generated = false;  ///< of Roles::both: those that are come first in a step
};
using Steps = std::vector<std::vector<RowId>>;

/// Stores the keys and values of all tokens and attends to them, step by step.
class AttentionRun {
 public:
  /// `buckets`: rows of programs, ascending. The setup outlives it.
  AttentionRun(const AttentionSetup& setup, int32_t sequences, std::vector<int64_t> buckets,
               std::unique_ptr<Device> device)
      : setup_(setup),
        sequences_(sequences),
        buckets_(std::move(buckets)),
        device_(std::move(device)) {
    layout_ = canonical_kv_layout({{setup.kv}, setup.type, setup.type});
    pages_ = div_ceil<int64_t>(setup.tokens, kPageTokens);
    // A cache of bytes that are no numbers: what no token has written must not be seen.
    const std::vector<std::byte> none(
        static_cast<size_t>(sequences_ * pages_ * layout_.kinds[0].page_bytes), std::byte{0xff});
    cache_ = device_->alloc(static_cast<int64_t>(none.size()), Purpose::kv).value();
    REQUIRE(device_->write(none, {cache_.get(), 0}).ok());
    for (int32_t page = 0; page < sequences_ * pages_; ++page) table_.push_back(page);
    const auto make = [&](int64_t d0, int64_t heads, uint64_t seed) {
      return random_values(d0 * heads * setup.tokens * sequences_, seed);
    };
    data_ = {make(setup.kv.k_dim, setup.heads, 1), make(setup.kv.k_dim, setup.kv.heads, 2),
             make(setup.kv.v_dim, setup.kv.heads, 3)};
    std::vector<float>& values = data_[setup.kv.v_in_k ? 1 : 2];
    const auto sequence = static_cast<int64_t>(values.size()) / sequences;
    for (int64_t end = sequence; end <= sequence * sequences; end += sequence) {
      for (int64_t i = end - sequence / setup.tokens; i < end; ++i) {
        values[static_cast<size_t>(i)] *= setup.last_factor;
      }
    }
  }

  /// Results of all rows, [sequence][slot][head][v_dim].
  std::vector<float> results(const Steps& steps) {
    std::vector<float> all = no_results();
    REQUIRE(run_all(steps, all).ok());
    return all;
  }
  /// Of the first step that fails.
  Status run(const Steps& steps) {
    std::vector<float> all = no_results();
    return run_all(steps, all);
  }

 private:
  /// The slots of all sequences before setup.from.
  Steps stored_before() const {
    Steps steps;
    for (int32_t sequence = 0; sequence < sequences_; ++sequence) {
      for (int32_t slot = 0; slot < setup_.from; ++slot) {
        if (slot % buckets_.back() == 0) steps.emplace_back();
        steps.back().push_back({sequence, slot});
      }
    }
    return steps;
  }

  std::vector<float> no_results() const {
    return std::vector<float>(
        static_cast<size_t>(setup_.kv.v_dim * setup_.heads * setup_.tokens * sequences_));
  }

  Status run_all(const Steps& steps, std::vector<float>& all) {
    for (const std::vector<RowId>& step : stored_before()) INFER_CHECK(run(step, false, all));
    for (const std::vector<RowId>& step : steps) INFER_CHECK(run(step, true, all));
    return {};
  }

  Status run(const std::vector<RowId>& step, bool attend, std::vector<float>& all) {
    const auto rows = static_cast<int64_t>(step.size());
    REQUIRE(rows <= buckets_.back());
    compile(*std::ranges::lower_bound(buckets_, rows), attend);
    std::vector<int32_t> slots;
    std::vector<int32_t> sequences;
    std::vector<float> inputs[3];
    std::vector<float> table;
    for (const RowId& row : step) {
      for (int64_t pair = 0; pair < setup_.pairs; ++pair) {
        const auto angle = static_cast<float>(row.slot * (pair + 1)) * 0.01f;
        table.insert(table.end(), {std::cos(angle), std::sin(angle)});
      }
      slots.push_back(row.slot);
      sequences.push_back(row.sequence);
      for (size_t i = 0; i < 3; ++i) {
        const auto width = static_cast<int64_t>(data_[i].size()) / (setup_.tokens * sequences_);
        const auto first = data_[i].begin() + place(row) * width;
        inputs[i].insert(inputs[i].end(), first, first + width);
      }
    }
    std::vector<const std::byte*> bound(graph_->values().size(), nullptr);
    for (size_t id = 0; id < bound.size(); ++id) {
      const Value& value = graph_->values()[id];
      if (value.kind != Value::Kind::input) continue;
      const void* data = value.input == StepInput::slots        ? slots.data()
                         : value.input == StepInput::sequences  ? sequences.data()
                         : value.input == StepInput::rope_table ? static_cast<void*>(table.data())
                                                                : inputs[value.index].data();
      bound[id] = static_cast<const std::byte*>(data);
    }
    std::byte* slab = cache_->address();
    const KvPages pages{&slab, static_cast<int32_t>(table_.size()), layout_.kinds[0].page_bytes,
                        table_.data(), static_cast<int32_t>(pages_)};
    const auto generated = std::ranges::count(step, true, &RowId::generated);
    INFER_CHECK(program_->run({rows, rows, bound, {&pages, 1}, nullptr, generated}));
    if (!attend) return {};
    const int64_t width = setup_.kv.v_dim * setup_.heads;
    std::vector<float> found(static_cast<size_t>(rows * width));
    REQUIRE(device_->read({output_.get(), 0}, std::as_writable_bytes(std::span(found))).ok());
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(found.begin() + r * width, width,
                  all.begin() + place(step[static_cast<size_t>(r)]) * width);
    }
    return {};
  }

  int64_t place(const RowId& row) const { return row.sequence * setup_.tokens + row.slot; }

  void compile(int64_t rows, bool attend) {
    if (compiled_ == std::pair(rows, attend)) return;
    compiled_ = {rows, attend};
    GraphBuilder g(infer_outputs, rows, rows, {{setup_.kv}, setup_.type, setup_.type});
    const auto input = [&](int32_t index, int64_t dim, int64_t heads) {
      return g.data_input(index, tensor(DType::f32, dim, heads, rows), Rows::tokens);
    };
    ValueId q = input(0, setup_.kv.k_dim, setup_.heads);
    ValueId k = input(1, setup_.kv.k_dim, setup_.kv.heads);
    const ValueId v = setup_.kv.v_in_k ? g.slice(k, 0, setup_.kv.v_dim)
                                       : input(2, setup_.kv.v_dim, setup_.kv.heads);
    const int32_t ropes = setup_.pairs > 0 ? 2 : 0;
    for (ValueId* const x : {&q, &k}) {
      if (ropes == 0) break;
      *x = g.add(op::Rope{setup_.style}, {*x, g.input(StepInput::rope_table, 0, setup_.pairs)});
    }
    const ValueId slots = g.input(StepInput::slots);
    const ValueId sequences = g.input(StepInput::sequences);
    g.add_all(op::KvStore{0}, {k, v, slots, sequences});
    const float scale = 2.0f / std::sqrt(static_cast<float>(setup_.kv.k_dim));
    g.output(g.add(op::Attention{0, scale, setup_.softcap, setup_.kv.window},
                   {q, slots, sequences, kNoValue, kNoValue, kNoValue}));
    program_.reset();
    graph_ = std::make_unique<Graph>(g.finish().value());
    const Segment segment{graph_.get(), 0, ropes + (attend ? 2 : 1), setup_.roles};
    const ValueId out = graph_->outputs().front();
    output_ = device_->alloc(graph_->value(out).desc.extent_bytes(), Purpose::activations).value();
    scratch_ =
        device_->alloc(std::max<int64_t>(device_->scratch_bytes(segment), 64), Purpose::scratch)
            .value();
    std::vector<MemoryRef> memory(graph_->values().size());
    memory[static_cast<size_t>(out)] = {output_.get(), 0};
    turned_.clear();
    for (const ValueId id : {q, k}) {
      if (ropes == 0) break;
      turned_.push_back(
          device_->alloc(graph_->value(id).desc.extent_bytes(), Purpose::activations).value());
      memory[static_cast<size_t>(id)] = {turned_.back().get(), 0};
    }
    program_ = device_->compile({segment, memory, {scratch_.get(), 0}}).value();
  }

  const AttentionSetup& setup_;
  int32_t sequences_;
  std::vector<int64_t> buckets_;
  std::unique_ptr<Device> device_;
  KvLayout layout_;
  int64_t pages_ = 0;
  std::unique_ptr<Buffer> cache_;
  std::vector<int32_t> table_;
  std::vector<std::vector<float>> data_;
  std::pair<int64_t, bool> compiled_{0, false};
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<Buffer> output_, scratch_;
  std::vector<std::unique_ptr<Buffer>> turned_;  ///< queries and keys
  std::unique_ptr<Program> program_;
};

}  // namespace infer::test
