// Attention gives every row the same bits however the rows are put into steps and however many
// threads there are, with contexts long enough for several chunks of keys.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "engine/backend/device.h"
#include "engine/core/checked.h"
#include "engine/ops/op.h"

namespace infer {
namespace {

struct Setup {
  const char* name;
  int64_t heads;
  KvLayerShape kv;
  DType type;
  int64_t tokens;  ///< of each sequence
  float softcap = 0;
};

constexpr int32_t kSequences = 2;
constexpr int64_t kMostRows = 2048;

/// A row of a step.
struct RowId {
  int32_t sequence;
  int32_t slot;
};
using Steps = std::vector<std::vector<RowId>>;

/// Both sequences one after the other in steps of `rows`, but for the last tokens, which come one
/// from each sequence a step.
Steps make_steps(int64_t tokens, int64_t rows, int64_t turns) {
  Steps steps;
  const auto whole = static_cast<int32_t>(tokens - turns);
  for (int32_t sequence = 0; sequence < kSequences; ++sequence) {
    for (int32_t slot = 0; slot < whole; ++slot) {
      if (slot % rows == 0) steps.emplace_back();
      steps.back().push_back({sequence, slot});
    }
  }
  for (int32_t slot = whole; slot < tokens; ++slot) steps.push_back({{0, slot}, {1, slot}});
  return steps;
}

/// Values that depend on the place alone.
std::vector<float> values(int64_t count, uint64_t state) {
  std::vector<float> x(static_cast<size_t>(count));
  for (float& value : x) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    value = static_cast<float>(state >> 40) / static_cast<float>(1 << 23) - 1.0f;
  }
  return x;
}

/// Stores the keys and values of all tokens and attends to them, step by step.
class Run {
 public:
  Run(const Setup& setup, int threads, const std::string& isa) : setup_(setup) {
    device_ = open_device("cpu", {.threads = threads, .isa = isa}).value();
    const KvGeometry kv{{setup.kv}, setup.type, setup.type};
    layout_ = canonical_kv_layout(kv);
    pages_ = div_ceil<int64_t>(setup.tokens, kPageTokens);
    // A cache of bytes that are no numbers: what no token has written must not be seen.
    cache_.assign(static_cast<size_t>(kSequences * pages_ * layout_.kinds[0].page_bytes),
                  std::byte{0xff});
    table_.resize(static_cast<size_t>(kSequences * pages_));
    std::iota(table_.begin(), table_.end(), 0);
    const auto make = [&](int64_t d0, int64_t heads, uint64_t seed) {
      return values(d0 * heads * setup.tokens * kSequences, seed);
    };
    data_ = {make(setup.kv.k_dim, setup.heads, 1), make(setup.kv.k_dim, setup.kv.heads, 2),
             make(setup.kv.v_dim, setup.kv.heads, 3)};
  }

  /// Results of all rows, [sequence][slot][head][v_dim].
  std::vector<float> results(const Steps& steps) {
    std::vector<float> all(
        static_cast<size_t>(setup_.kv.v_dim * setup_.heads * setup_.tokens * kSequences));
    for (const std::vector<RowId>& step : steps) run(step, all);
    return all;
  }

 private:
  void run(const std::vector<RowId>& step, std::vector<float>& all) {
    const auto rows = static_cast<int64_t>(step.size());
    REQUIRE(rows <= kMostRows);
    compile(rows == 1 ? 1 : rows <= 8 ? 8 : kMostRows);
    std::vector<int32_t> slots;
    std::vector<int32_t> sequences;
    std::vector<float> inputs[3];
    for (const RowId& row : step) {
      slots.push_back(row.slot);
      sequences.push_back(row.sequence);
      for (size_t i = 0; i < 3; ++i) {
        const auto width = static_cast<int64_t>(data_[i].size()) / (setup_.tokens * kSequences);
        const auto first = data_[i].begin() + place(row) * width;
        inputs[i].insert(inputs[i].end(), first, first + width);
      }
    }
    std::vector<const std::byte*> bound(graph_->values().size(), nullptr);
    for (size_t id = 0; id < bound.size(); ++id) {
      const Value& value = graph_->values()[id];
      if (value.kind != Value::Kind::input) continue;
      const void* data = value.input == StepInput::slots ? slots.data()
                         : value.input == StepInput::sequences
                             ? static_cast<void*>(sequences.data())
                             : inputs[value.index].data();
      bound[id] = static_cast<const std::byte*>(data);
    }
    std::byte* slab = cache_.data();
    const KvPages pages{&slab, static_cast<int32_t>(table_.size()), layout_.kinds[0].page_bytes,
                        table_.data(), static_cast<int32_t>(pages_)};
    REQUIRE(program_->run({rows, rows, bound, {&pages, 1}}).ok());
    const int64_t width = setup_.kv.v_dim * setup_.heads;
    const auto* found = reinterpret_cast<const float*>(output_->address());
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(found + r * width, width,
                  all.begin() + place(step[static_cast<size_t>(r)]) * width);
    }
  }

  int64_t place(const RowId& row) const { return row.sequence * setup_.tokens + row.slot; }

  void compile(int64_t rows) {
    if (rows == compiled_rows_) return;
    compiled_rows_ = rows;
    GraphBuilder g(infer_outputs, rows, rows, {{setup_.kv}, setup_.type, setup_.type});
    const auto input = [&](int32_t index, int64_t dim, int64_t heads) {
      return g.data_input(index, tensor(DType::f32, dim, heads, rows), Rows::tokens);
    };
    const ValueId q = input(0, setup_.kv.k_dim, setup_.heads);
    const ValueId k = input(1, setup_.kv.k_dim, setup_.kv.heads);
    const ValueId v = setup_.kv.v_in_k ? g.slice(k, 0, setup_.kv.v_dim)
                                       : input(2, setup_.kv.v_dim, setup_.kv.heads);
    const ValueId slots = g.input(StepInput::slots);
    const ValueId sequences = g.input(StepInput::sequences);
    g.add_all(op::KvStore{0}, {k, v, slots, sequences});
    const float scale = 2.0f / std::sqrt(static_cast<float>(setup_.kv.k_dim));
    g.output(g.add(op::Attention{0, scale, setup_.softcap, setup_.kv.window},
                   {q, slots, sequences, kNoValue}));
    program_.reset();
    graph_ = std::make_unique<Graph>(g.finish().value());
    const Segment segment{graph_.get(), 0, static_cast<int32_t>(graph_->nodes().size())};
    const ValueId out = graph_->outputs().front();
    output_ = device_->alloc(graph_->value(out).desc.extent_bytes(), Purpose::activations).value();
    scratch_ = device_->alloc(device_->scratch_bytes(segment), Purpose::scratch).value();
    std::vector<MemoryRef> memory(graph_->values().size());
    memory[static_cast<size_t>(out)] = {output_.get(), 0};
    program_ = device_->compile({segment, memory, {scratch_.get(), 0}}).value();
  }

  const Setup& setup_;
  std::unique_ptr<Device> device_;
  KvLayout layout_;
  int64_t pages_ = 0;
  std::vector<std::byte> cache_;
  std::vector<int32_t> table_;
  std::vector<std::vector<float>> data_;
  int64_t compiled_rows_ = 0;
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<Buffer> output_, scratch_;
  std::unique_ptr<Program> program_;
};

void expect_same(const std::vector<float>& found, const std::vector<float>& expected) {
  REQUIRE(found.size() == expected.size());
  CHECK(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0);
}

TEST_CASE("attention: steps and threads change no bit") {
  const Setup setups[] = {
      {"groups of 4", 4, {1, 32, 32}, DType::f16, 1200},
      {"groups of 7, odd sizes", 7, {1, 21, 13}, DType::f32, 1200},
      {"window", 2, {1, 32, 32, 650}, DType::q8_0, 1300},
      {"values in keys, softcap", 3, {1, 40, 24, 0, true}, DType::bf16, 1100, 3.0f},
      {"heads of their own", 3, {3, 32, 32}, DType::q4_0, 1100},
  };
  for (const Setup& setup : setups) {
    for (const std::string& isa : open_device("cpu", {}).value()->info().isas) {
      if (!open_device("cpu", {.threads = 1, .isa = isa})) continue;
      CAPTURE(setup.name);
      CAPTURE(isa);
      const std::vector<float> whole =
          Run(setup, 1, isa).results(make_steps(setup.tokens, setup.tokens, 0));
      CHECK(std::ranges::all_of(whole, [](float x) { return std::isfinite(x); }));
      expect_same(Run(setup, 1, isa).results(make_steps(setup.tokens, 1, 0)), whole);
      for (const int threads : {1, 2, 3, 7}) {
        CAPTURE(threads);
        expect_same(Run(setup, threads, isa).results(make_steps(setup.tokens, 337, 40)), whole);
        if (threads != 3) continue;
        expect_same(Run(setup, threads, isa).results(make_steps(setup.tokens, 5, 3)), whole);
      }
    }
  }
}

/// As many pages as make chunks grow, so that rows of one step are cut differently.
TEST_CASE("attention: chunks that grow with the context") {
  const Setup setup{"long", 1, {1, 4, 4}, DType::f32, kMostRows * 9};
  const Steps steps = make_steps(setup.tokens, kMostRows, 0);
  const std::vector<float> one = Run(setup, 1, "").results(steps);
  Steps last = steps;
  for (int i = 0; i < 3; ++i) {  // the end of the second sequence again, in few rows
    last.push_back(
        {{1, static_cast<int32_t>(setup.tokens) - 2}, {1, static_cast<int32_t>(setup.tokens) - 1}});
    last.push_back({{1, 256 * kPageTokens - 1}, {1, 256 * kPageTokens}});
  }
  expect_same(Run(setup, 3, "").results(last), one);
}

}  // namespace
}  // namespace infer
