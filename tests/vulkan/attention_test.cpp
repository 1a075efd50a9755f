// Attention gives every row the same bits by each of its shaders, however the rows are put into
// steps, with contexts long enough for several pages in a chunk of keys.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/vulkan/tuning.h"
#include "engine/backend/device.h"
#include "engine/core/checked.h"
#include "engine/ops/op.h"
#include "tests/support.h"

namespace infer::vulkan {
namespace {

struct Setup {
  const char* name;
  int64_t heads;
  KvLayerShape kv;
  DType type;
  int64_t tokens;  ///< of each sequence
  float softcap = 0;
  int32_t from = 0;  ///< slots before it are stored, and nothing asks from there
};

constexpr int32_t kSequences = 3;

/// A row of a step.
struct RowId {
  int32_t sequence;
  int32_t slot;
};
using Steps = std::vector<std::vector<RowId>>;

/// The sequences one after another in steps of so many rows, which take the end of one and the
/// start of the next together.
Steps in_turn(int32_t from, int64_t tokens, size_t rows) {
  Steps steps;
  for (int32_t sequence = 0; sequence < kSequences; ++sequence) {
    for (int32_t slot = from; slot < tokens; ++slot) {
      if (steps.empty() || steps.back().size() == rows) steps.emplace_back();
      steps.back().push_back({sequence, slot});
    }
  }
  return steps;
}

/// A prompt of each sequence, then tokens of all of them: steps of one row of each, and then of 1,
/// 9 and 30.
Steps mixed(int32_t from, int64_t tokens) {
  Steps steps;
  const auto prompt = static_cast<int32_t>(tokens - 70);
  for (int32_t sequence = 0; sequence < kSequences; ++sequence) {
    steps.emplace_back();
    for (int32_t slot = from; slot < prompt; ++slot) steps.back().push_back({sequence, slot});
  }
  int32_t done[kSequences] = {prompt, prompt, prompt};
  const int32_t rows[2][kSequences] = {{1, 1, 1}, {1, 9, 30}};
  for (int turn = 0; turn < 5; ++turn) {
    steps.emplace_back();
    for (int32_t sequence = 0; sequence < kSequences; ++sequence) {
      for (int32_t i = 0; i < rows[turn / 3][sequence]; ++i) {
        steps.back().push_back({sequence, done[sequence]++});
      }
    }
  }
  for (int32_t sequence = 0; sequence < kSequences; ++sequence) {
    steps.emplace_back();
    while (done[sequence] < tokens) steps.back().push_back({sequence, done[sequence]++});
  }
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
  Run(const Setup& setup, const Tuning& tuning) : setup_(setup) {
    force_tuning(tuning);
    device_ = open_device("vulkan", {}).value();
    force_tuning(std::nullopt);
    layout_ = canonical_kv_layout({{setup.kv}, setup.type, setup.type});
    pages_ = div_ceil<int64_t>(setup.tokens, kPageTokens);
    // A cache of bytes that are no numbers: what no token has written must not be seen.
    const std::vector<std::byte> none(
        static_cast<size_t>(kSequences * pages_ * layout_.kinds[0].page_bytes), std::byte{0xff});
    cache_ = device_->alloc(static_cast<int64_t>(none.size()), Purpose::kv).value();
    REQUIRE(device_->write(none, {cache_.get(), 0}).ok());
    for (int32_t page = 0; page < kSequences * pages_; ++page) table_.push_back(page);
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
    for (const std::vector<RowId>& step : in_turn(0, setup_.from, kStored)) run(step, false, all);
    for (const std::vector<RowId>& step : steps) run(step, true, all);
    return all;
  }

 private:
  static constexpr int64_t kStored = 500;  ///< rows that are stored at once

  void run(const std::vector<RowId>& step, bool attend, std::vector<float>& all) {
    const auto rows = static_cast<int64_t>(step.size());
    compile(!attend ? kStored : rows <= 16 ? 16 : 200, attend);  // as buckets do
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
    std::byte* slab = cache_->address();
    const KvPages pages{&slab, static_cast<int32_t>(table_.size()), layout_.kinds[0].page_bytes,
                        table_.data(), static_cast<int32_t>(pages_)};
    REQUIRE(program_->run({rows, rows, bound, {&pages, 1}}).ok());
    if (!attend) return;
    const int64_t width = setup_.kv.v_dim * setup_.heads;
    std::vector<float> found(static_cast<size_t>(rows * width));
    REQUIRE(device_->read({output_.get(), 0}, std::as_writable_bytes(std::span(found))).ok());
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(found.begin() + r * width, width,
                  all.begin() + place(step[static_cast<size_t>(r)]) * width);
    }
  }

  int64_t place(const RowId& row) const { return row.sequence * setup_.tokens + row.slot; }

  void compile(int64_t rows, bool attend) {
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
    const Segment segment{graph_.get(), 0, attend ? 2 : 1};
    const ValueId out = graph_->outputs().front();
    output_ = device_->alloc(graph_->value(out).desc.extent_bytes(), Purpose::activations).value();
    scratch_ =
        device_->alloc(std::max<int64_t>(device_->scratch_bytes(segment), 64), Purpose::scratch)
            .value();
    std::vector<MemoryRef> memory(graph_->values().size());
    memory[static_cast<size_t>(out)] = {output_.get(), 0};
    program_ = device_->compile({segment, memory, {scratch_.get(), 0}}).value();
  }

  const Setup& setup_;
  std::unique_ptr<Device> device_;
  KvLayout layout_;
  int64_t pages_ = 0;
  std::unique_ptr<Buffer> cache_;
  std::vector<int32_t> table_;
  std::vector<std::vector<float>> data_;
  int64_t compiled_rows_ = 0;
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<Buffer> output_, scratch_;
  std::unique_ptr<Program> program_;
};

/// Rows on their own: whole or split along the keys. Tiles through a subgroup or shared memory,
/// also ones that rows of few heads fill.
struct Shaders {
  const char* name;
  int64_t split_rows;
  uint32_t tile_queries;
  bool handed;
};
constexpr Shaders kShaders[] = {{"split along the keys", 100000, 0, false},
                                {"tiles through a subgroup", 16, 8, true},
                                {"tiles in shared memory", 16, 32, false},
                                {"small tiles", 0, 4, false}};

Tuning with(const Shaders& shaders) {
  Tuning tuning;
  tuning.split_rows = shaders.split_rows;
  tuning.tile_queries = shaders.tile_queries;
  tuning.handed_keys = shaders.handed;
  return tuning;
}

TEST_CASE("attention: shaders and steps change no bit") {
  const Result<std::unique_ptr<Device>> device = open_device("vulkan", {});
  if (!device) return test::skipped("vulkan: " + device.error().message());
  constexpr int64_t kLong = 33 * kPageTokens;
  const Setup setups[] = {
      {"groups of 4", 4, {1, 32, 32}, DType::f16, 200},
      {"groups of 7, odd sizes", 7, {1, 21, 13}, DType::f32, 150},
      {"window", 2, {1, 32, 32, 90}, DType::q8_0, 200},
      {"values in keys, softcap", 3, {1, 40, 24, 0, true}, DType::bf16, 150, 3.0f},
      {"heads of their own", 3, {3, 32, 64}, DType::q4_0, 150},
      {"wide values", 2, {1, 6, 300}, DType::f16, 100},
      {"chunks that grow", 1, {1, 4, 4}, DType::f16, kLong, 0, kLong - 130},
      {"chunks of a window that grow",
       1,
       {1, 4, 4, 32 * kPageTokens - 9},
       DType::f16,
       kLong,
       0,
       kLong - 130},
  };
  for (const Setup& setup : setups) {
    CAPTURE(setup.name);
    const std::vector<float> rows_alone =
        Run(setup, with({"", 0, 0, false})).results(in_turn(setup.from, setup.tokens, 190));
    CHECK(std::ranges::all_of(rows_alone, [](float x) { return std::isfinite(x); }));
    for (const Shaders& shaders : kShaders) {
      CAPTURE(shaders.name);
      Run run(setup, with(shaders));
      for (const Steps& steps :
           {in_turn(setup.from, setup.tokens, 70), mixed(setup.from, setup.tokens)}) {
        const std::vector<float> found = run.results(steps);
        REQUIRE(found.size() == rows_alone.size());
        CHECK(std::memcmp(found.data(), rows_alone.data(), found.size() * sizeof(float)) == 0);
      }
    }
  }
}

}  // namespace
}  // namespace infer::vulkan
