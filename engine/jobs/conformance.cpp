#include "engine/jobs/conformance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/core/checked.h"
#include "engine/core/log.h"
#include "engine/jobs/conformance_memory.h"

namespace infer {
namespace {

enum class RowOrder { runs, turns };

/// FNV-1a: data of a case depend on its name alone.
uint64_t seed_of(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

/// What the host gives to one step.
struct Step {
  int64_t rows = 0;
  int64_t outputs = 0;
  std::vector<int32_t> slots, sequences, output_rows, output_ends;
  std::vector<int32_t> text_begins, text_ends, last_seen;
};

/// `lengths`: tokens that each sequence has already; grows by this step's.
Step make_step(const OpCase& c, int64_t rows, RowOrder order, std::vector<int32_t>& lengths) {
  Step step;
  step.rows = rows;
  step.outputs = std::min(c.outputs, rows);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t sequence = order == RowOrder::runs ? r * c.sequences / rows : r % c.sequences;
    step.sequences.push_back(static_cast<int32_t>(sequence));
    step.slots.push_back(lengths[static_cast<size_t>(sequence)]++);
  }
  // Rows of a sequence see each other in runs of at most 5 slots.
  for (size_t r = 0; r < step.slots.size(); ++r) {
    const int32_t end = lengths[static_cast<size_t>(step.sequences[r])];
    step.last_seen.push_back(std::min(end - 1, step.slots[r] - step.slots[r] % 5 + 4));
  }
  for (int64_t i = 0; i < step.outputs; ++i) {  // from the last row down, with gaps
    step.output_rows.push_back(static_cast<int32_t>(rows - 1 - i * rows / step.outputs));
    const int64_t longest = rows - step.output_rows.back();
    step.output_ends.push_back(step.output_rows.back() + static_cast<int32_t>(1 + 7 * i % longest));
  }
  // A text is a run of rows of one sequence.
  step.text_begins.resize(static_cast<size_t>(rows));
  step.text_ends.resize(static_cast<size_t>(rows));
  for (size_t begin = 0, end = 0; begin < step.text_begins.size(); begin = end) {
    while (end < step.sequences.size() && step.sequences[end] == step.sequences[begin]) ++end;
    for (size_t r = begin; r < end; ++r) {
      step.text_begins[r] = static_cast<int32_t>(begin);
      step.text_ends[r] = static_cast<int32_t>(end);
    }
  }
  return step;
}

/// Pointers to a step's inputs by ValueId.
Result<std::vector<const std::byte*>> bind_inputs(const Graph& graph, const CaseBuilder& builder,
                                                  const Step& step) {
  const auto bytes = [](const std::vector<int32_t>& x) {
    return reinterpret_cast<const std::byte*>(x.data());
  };
  std::vector<const std::byte*> inputs(graph.values().size(), nullptr);
  for (size_t id = 0; id < inputs.size(); ++id) {
    const Value& value = graph.values()[id];
    if (value.kind != Value::Kind::input) continue;
    switch (value.input) {
      case StepInput::slots: inputs[id] = bytes(step.slots); break;
      case StepInput::sequences: inputs[id] = bytes(step.sequences); break;
      case StepInput::output_rows: inputs[id] = bytes(step.output_rows); break;
      case StepInput::output_ends: inputs[id] = bytes(step.output_ends); break;
      case StepInput::last_seen: inputs[id] = bytes(step.last_seen); break;
      case StepInput::text_begins: inputs[id] = bytes(step.text_begins); break;
      case StepInput::text_ends: inputs[id] = bytes(step.text_ends); break;
      case StepInput::data:
        inputs[id] = builder.inputs()[static_cast<size_t>(value.index)].data();
        break;
      case StepInput::tokens:
      case StepInput::places:
      case StepInput::text_tokens:
      case StepInput::token_types:
      case StepInput::rope_table:
      case StepInput::image:
      case StepInput::adapter:
      case StepInput::hidden:
      case StepInput::ngrams:
        return fail(StatusCode::internal, "conformance cases give tokens and tables as data");
    }
  }
  return inputs;
}

/// Runs the references node by node in host memory.
void run_reference(const Graph& graph, const GuardedLayout& layout, std::byte* memory,
                   const std::vector<const std::byte*>& inputs, const Step& step,
                   const KvLayout& kv_layout, std::span<const KvPages> pages) {
  const auto ref = [&](ValueId id) {
    if (id == kNoValue) return TensorRef{};
    const Value& value = graph.value(id);
    const auto storage = static_cast<size_t>(graph.storage(id));
    const bool input = graph.values()[storage].kind == Value::Kind::input;
    // References only read their inputs; TensorRef serves results as well.
    std::byte* start =
        input ? const_cast<std::byte*>(inputs[storage]) : memory + layout.offsets[storage];
    TensorRef tensor{value.desc, start + value.offset};
    if (value.rows == Rows::tokens) tensor.desc.shape[2] = step.rows;
    if (value.rows == Rows::outputs) tensor.desc.shape[2] = step.outputs;
    return tensor;
  };
  for (const Node& node : graph.nodes()) {
    std::vector<TensorRef> in;
    std::vector<TensorRef> out;
    for (const ValueId id : node.inputs) in.push_back(ref(id));
    for (const ValueId id : node.outputs) out.push_back(ref(id));
    op_def(node.op()).reference({node.params, in, out, graph.kv(), kv_layout, pages});
  }
}

/// Σ(x−ref)² / Σref² over the finite values; infinite if NaN or an infinity meets something else.
class Difference {
 public:
  void add(float x, float ref) {
    if (std::isnan(ref) || std::isinf(ref)) {
      const bool same = std::isnan(ref) ? std::isnan(x) : x == ref;
      if (!same) error_ = std::numeric_limits<double>::infinity();
      return;
    }
    const double delta = static_cast<double>(x) - ref;
    error_ += std::isfinite(x) ? delta * delta : std::numeric_limits<double>::infinity();
    power_ += static_cast<double>(ref) * ref;
  }
  double value() const { return error_ == 0 ? 0 : error_ / power_; }

 private:
  double error_ = 0;
  double power_ = 0;
};

/// Adds what a step made of one output; both point to the value's first element. Integers must be
/// equal.
Status compare(const Value& value, const Step& step, const std::byte* found,
               const std::byte* expected, Difference& difference) {
  const TensorDesc& desc = value.desc;
  const int64_t rows = value.rows == Rows::outputs ? step.outputs : step.rows;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t h = 0; h < desc.shape[1]; ++h) {
      for (int64_t i = 0; i < desc.shape[0]; ++i) {
        const int64_t at = i * desc.stride[0] + h * desc.stride[1] + r * desc.stride[2];
        if (desc.type == DType::f32) {
          float x = 0;
          float ref = 0;
          std::memcpy(&x, found + at, sizeof(x));
          std::memcpy(&ref, expected + at, sizeof(ref));
          difference.add(x, ref);
        } else if (std::memcmp(found + at, expected + at, static_cast<size_t>(desc.stride[0]))) {
          return error(StatusCode::internal, "element {} of row {} differs", i, r);
        }
      }
    }
  }
  return {};
}

/// The differences of each output: judged after every step, or over all draws of a case together.
class Judge {
 public:
  Judge(const Graph& graph, double tolerance)
      : tolerance_(tolerance), differences_(graph.outputs().size()) {}

  Difference& output(size_t i) { return differences_[i]; }
  Status judge() {
    for (Difference& difference : differences_) {
      const double found = std::exchange(difference, Difference()).value();
      if (!(found <= tolerance_)) {
        return error(StatusCode::internal, "normalised squared error {:.3g}, allowed {:.3g}", found,
                     tolerance_);
      }
    }
    return {};
  }

 private:
  double tolerance_;
  std::vector<Difference> differences_;
};

/// How often a case is drawn: a result of few values may be near zero by chance, and its relative
/// error then says nothing; only together with others does it.
int draws_of(const Graph& graph) {
  constexpr int64_t kEnough = 16;
  const int64_t values = graph.value(graph.outputs().at(0)).desc.elements();
  return values >= kEnough ? 1 : static_cast<int>(div_ceil(4 * kEnough, values));
}

double tolerance_of(const OpDef& op, const OpCase& c, bool exact, Roles roles) {
  const bool product = op.id == OpId::Matmul || op.id == OpId::MoeMatmul;
  const double tolerance = exact && product ? std::min(c.tolerance, 1e-10) : c.tolerance;
  return roles == Roles::generated ? tolerance : tolerance + 1e-5;  // prompts: float16
}

/// For which roles of tokens a case is run: only products and attention differ.
std::span<const Roles> roles_of(const Graph& graph, Device& device) {
  Device* const devices[] = {&device};
  const bool differs = std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return node.op() == OpId::Matmul || node.op() == OpId::Attention;
  });
  return roles_of_programs(std::span(devices).first(differs ? 1 : 0));
}

/// One case with its rows in one order, on the device and on the host.
class CaseRun {
 public:
  CaseRun(Device& device, const OpCase& c, const CaseBuilder& builder, const Graph& graph,
          Roles roles)
      : device_(device),
        roles_(roles),
        case_(c),
        builder_(builder),
        graph_(graph),
        kv_layout_(canonical_kv_layout(graph.kv())),
        host_layout_(guarded_layout(graph, nullptr)),
        device_layout_(guarded_layout(graph, &device)),
        host_(static_cast<size_t>(host_layout_.bytes), kUntouched) {}

  /// `pooled`: the judge speaks at the end, by the caller.
  Status run(RowOrder order, Judge& judge, bool pooled) {
    std::vector<int64_t> rows{case_.rows};
    if (case_.rows > 1 || !graph_.kv().layers.empty()) rows.push_back((case_.rows + 1) / 2);
    const int64_t tokens = std::accumulate(rows.begin(), rows.end(), int64_t{0});
    std::vector<KvArena> kv;
    std::vector<KvPages> host_pages;
    std::vector<KvPages> device_pages;
    for (const KvKind& kind : kv_layout_.kinds) {
      INFER_TRY_S(KvArena arena, KvArena::make(device_, kind, case_.sequences, tokens));
      kv.push_back(std::move(arena));
      host_pages.push_back(kv.back().host_pages());
      device_pages.push_back(kv.back().device_pages());
    }
    INFER_CHECK(prepare());
    std::vector<int32_t> lengths(static_cast<size_t>(case_.sequences), 0);
    for (const int64_t count : rows) {
      const Step step = make_step(case_, count, order, lengths);
      INFER_TRY_S(const auto inputs, bind_inputs(graph_, builder_, step));
      run_reference(graph_, host_layout_, host_.data(), inputs, step, kv_layout_, host_pages);
      INFER_CHECK(
          program_->run({step.rows, step.outputs, inputs, device_pages, nullptr, step.rows / 2}));
      INFER_CHECK(compare_outputs(step, judge));
      if (!pooled) INFER_CHECK(judge.judge());
      INFER_CHECK(memory_->check_guards());
      INFER_CHECK(scratch_->check_guards());
      for (const KvArena& arena : kv) INFER_CHECK(arena.check_guards());
      INFER_CHECK(check_host_guards());
    }
    return {};
  }

 private:
  Status prepare() {
    const Segment segment{&graph_, 0, static_cast<int32_t>(graph_.nodes().size()), roles_};
    INFER_TRY_S(memory_, GuardedBuffer::make(device_, device_layout_, Purpose::activations));
    INFER_TRY_S(scratch_,
                GuardedBuffer::make(device_, single_layout(device_.scratch_bytes(segment), device_),
                                    Purpose::scratch));
    std::vector<MemoryRef> memory(graph_.values().size());
    for (size_t id = 0; id < memory.size(); ++id) {
      const Value& value = graph_.values()[id];
      if (value.kind != Value::Kind::weight && value.kind != Value::Kind::result) continue;
      memory[id] = memory_->at(id);
      if (value.kind != Value::Kind::weight) continue;
      const auto& stored = builder_.weights()[static_cast<size_t>(value.index)];
      std::ranges::copy(stored, host_.begin() + host_layout_.offsets[id]);
      const ReadFn read = [&](uint64_t offset, std::span<std::byte> out) {
        std::memcpy(out.data(), stored.data() + offset, out.size());
        return Status();
      };
      INFER_CHECK(device_.load_weight(value.desc, read, memory[id]));
    }
    INFER_CHECK(memory_->remember_guards());
    INFER_CHECK(scratch_->remember_guards());
    INFER_TRY_S(program_, device_.compile({segment, memory, scratch_->at(0)}));
    return {};
  }

  Status compare_outputs(const Step& step, Judge& judge) {
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const ValueId id = graph_.outputs()[i];
      const Value& value = graph_.value(id);
      const auto storage = static_cast<size_t>(graph_.storage(id));
      const Value& stored = graph_.values()[storage];
      if (stored.kind != Value::Kind::result) {
        return error(StatusCode::internal, "a case gives an input as its result");
      }
      std::vector<std::byte> found(static_cast<size_t>(stored.desc.extent_bytes()));
      INFER_CHECK(device_.read(memory_->at(storage), found));
      INFER_CHECK(compare(value, step, found.data() + value.offset,
                          host_.data() + host_layout_.offsets[storage] + value.offset,
                          judge.output(i)));
    }
    return {};
  }

  Status check_host_guards() const {
    for (const auto& [begin, end] : host_layout_.guards) {
      for (int64_t i = begin; i < end; ++i) {
        if (host_[static_cast<size_t>(i)] != kUntouched) {
          return error(StatusCode::internal, "the reference writes outside of its results");
        }
      }
    }
    return {};
  }

  Device& device_;
  Roles roles_;
  const OpCase& case_;
  const CaseBuilder& builder_;
  const Graph& graph_;
  KvLayout kv_layout_;
  GuardedLayout host_layout_, device_layout_;
  std::vector<std::byte> host_;
  std::unique_ptr<GuardedBuffer> memory_, scratch_;
  std::unique_ptr<Program> program_;
};

}  // namespace

Status run_case(Device& device, const OpDef& op, const OpCase& op_case, bool exact) {
  const uint64_t seed = seed_of(std::string(op.name) + " " + op_case.name);
  std::vector<Judge> judges;  // by roles
  int draws = 1;
  for (int draw = 0; draw < draws; ++draw) {
    CaseBuilder builder(op_case, seed + static_cast<uint64_t>(draw));
    op_case.build(builder);
    INFER_TRY_S(const Graph graph, builder.finish());
    for (const Node& node : graph.nodes()) INFER_CHECK(device.capability(graph, node));
    const std::span<const Roles> all_roles = roles_of(graph, device);
    if (draw == 0) {
      for (const Roles roles : all_roles) {
        judges.emplace_back(graph, tolerance_of(op, op_case, exact, roles));
      }
      draws = draws_of(graph);
    }
    for (size_t i = 0; i < all_roles.size(); ++i) {
      for (const RowOrder order : {RowOrder::runs, RowOrder::turns}) {
        if (order == RowOrder::turns && op_case.sequences < 2) continue;
        CaseRun run(device, op_case, builder, graph, all_roles[i]);
        INFER_CHECK(run.run(order, judges[i], draws > 1));
      }
    }
  }
  for (Judge& judge : judges) INFER_CHECK(judge.judge());
  return {};
}

SelftestReport run_conformance(Device& device, bool exact, const WantedCase& wanted,
                               const ProgressFn& progress) {
  SelftestReport report;
  std::vector<std::pair<const OpDef*, std::vector<OpCase>>> all;
  double count = 0;
  double done = 0;
  for (const OpDef* op : all_ops()) {
    auto& [named, cases] = all.emplace_back(op, std::vector<OpCase>());
    op->cases(cases);
    std::erase_if(cases, [&](const OpCase& c) { return !wanted(*op, c); });
    count += static_cast<double>(cases.size());
  }
  for (const auto& [op, cases] : all) {
    for (const OpCase& c : cases) {
      if (progress && !progress(done++ / count)) return report;
      const Status status = run_case(device, *op, c, exact);
      const std::string name = fmt::format("{} {}{}", op->name, c.name, exact ? " (exact)" : "");
      if (status.ok()) {
        ++report.passed;
      } else if (status.code() == StatusCode::unsupported) {
        ++report.unsupported;
        log(LogLevel::info, "{}: unsupported: {}", name, status.message());
      } else {
        ++report.failed;
        report.failures.push_back(name + ": " + status.message());
      }
    }
  }
  return report;
}

SelftestReport run_conformance(Device& device, bool exact, const std::string& only,
                               const ProgressFn& progress) {
  const auto wanted = [&](const OpDef& op, const OpCase&) {
    return only.empty() || only == op.name;
  };
  return run_conformance(device, exact, wanted, progress);
}

}  // namespace infer
