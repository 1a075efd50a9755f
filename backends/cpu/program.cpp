// A compiled segment on the CPU: the calls of its phases in order, run as one job of the thread
// pool.
#include <atomic>
#include <new>

#include "backends/cpu/device.h"
#include "backends/cpu/fusion.h"
#include "backends/cpu/lone_thread.h"
#include "backends/cpu/spill.h"
#include "engine/core/platform/processor.h"

namespace infer::cpu {
namespace {

/// Multiplications of a step: with fewer, one thread computes it alone, in 100 µs at most. Threads
/// would save little of that: they wait about a microsecond for each other at every barrier, and
/// milliseconds if another program has the processor of one of them.
constexpr int64_t kWorthSharing = 1 << 20;
/// Rows whose weights are read once for several of them.
constexpr int64_t kManyRows = 8;

double seconds_now() { return static_cast<double>(profile_clock()) * 1e-9; }

/// A tensor of a call and what changes about it from run to run.
struct Operand {
  ValueId storage = kNoValue;  ///< of an input: whose pointer is bound at run time
  int64_t offset = 0;
  Rows rows = Rows::fixed;
};

struct Call {
  const CpuOp* op;
  const OpParams* params;
  bool barrier;
  Fused fused;
  std::vector<TensorRef> inputs, outputs;
  std::vector<Operand> input_operands, output_operands;
  std::vector<int32_t> nodes;  ///< graph nodes that this call computes
  int32_t layer = -1;          ///< of the spill: begins with this call
};

class CpuProgram final : public Program {
 public:
  CpuProgram(const CpuContext& context, const CompileSpec& spec)
      : context_(context),
        graph_(*spec.segment.graph),
        kv_layout_(canonical_kv_layout(graph_.kv())),
        scratch_(spec.scratch.buffer == nullptr
                     ? nullptr
                     : spec.scratch.buffer->address() + spec.scratch.offset) {
    for (const Phase& phase : plan_phases(spec.segment, context)) add(phase, spec.memory);
    if (spec.spill) plan_spill(spec.memory);
  }

  Status wait() override { return {}; }

  Status submit(const Bindings& bindings) override {
    for (Call& call : calls_) {
      bind(call.inputs, call.input_operands, bindings);
      bind(call.outputs, call.output_operands, bindings);
      if (call.fused.add != nullptr) call.fused.residual = call.inputs.back();
    }
    return run(bindings);
  }

 private:
  /// Computes the step with all threads or with one.
  Status run(const Bindings& bindings) {
    LoneThread* const lone = context_.lone;
    if (lone == nullptr) return run(bindings, *context_.pool);
    const int64_t of_step = work(bindings);
    if (of_step < kWorthSharing) return run(bindings, lone->pool);
    ThreadChoice& choice = bindings.rows < kManyRows ? lone->few : lone->many;
    const double begun = seconds_now();
    const bool one = choice.one(begun);
    busy_.store(0);
    INFER_CHECK(run(bindings, one ? lone->pool : *context_.pool));
    const double ended = seconds_now();
    const StepTimes times{static_cast<double>(of_step), ended - begun, busy_.load()};
    one ? choice.one_computed(ended, times) : choice.all_computed(ended, times);
    return {};
  }

  Status run(const Bindings& bindings, ThreadPool& pool) {
    CpuContext context = context_;
    context.pool = &pool;
    try {
      pool.run([&](int thread) {
        const double had = os::thread_seconds();
        Profiler* const profiler = bindings.profiler;
        PhaseEvent event{{}, thread};
        const auto end_event = [&] {
          if (event.nodes.empty()) return;
          event.end_ns = profile_clock();
          profiler->record(event);
        };
        for (const Call& call : calls_) {
          if (call.barrier) pool.barrier();
          if (call.layer >= 0 && thread == 0) spill_.enter(static_cast<size_t>(call.layer));
          if (profiler != nullptr) {
            end_event();
            event = {call.nodes, thread, profile_clock()};
          }
          const std::span inputs(call.inputs);
          call.op->run({context, *call.params, call.fused, inputs.first(given(call)), call.outputs,
                        scratch_, graph_.kv(), kv_layout_, bindings.pages, thread});
          if (profiler != nullptr) event.worked_ns = profile_clock();
        }
        if (profiler != nullptr) end_event();
        busy_.fetch_add(os::thread_seconds() - had);
      });
      spill_.leave();
    } catch (const std::bad_alloc&) {
      return error(StatusCode::out_of_memory, "cpu: an allocation failed during a step");
    }
    return {};
  }

  const Node& node(int32_t n) const { return graph_.nodes()[static_cast<size_t>(n)]; }

  /// Multiplications of a run, at most: by each weight for each row, and one for each byte of the
  /// keys and values that a row may see.
  int64_t work(const Bindings& bindings) const {
    int64_t of_row = weights_;
    for (const KvPages& pages : bindings.pages) of_row += pages.page_bytes * pages.table_stride;
    return of_row * bindings.rows;
  }

  void add(const Phase& phase, std::span<const MemoryRef> memory) {
    const FusedCall& of = phase.call;
    const Node& first = node(of.nodes[0]);
    Call call{
        context_.ops->find(first.op()), &first.params, phase.barrier, {}, {}, {}, {}, {}, {}, -1};
    for (int32_t n = of.begin(); n < of.end(); ++n) {
      call.nodes.push_back(n);
      if (node(n).op() == OpId::Embed) continue;  // a few rows of a table
      for (const ValueId id : node(n).inputs) {
        if (id == kNoValue) continue;
        const Value& value = graph_.value(graph_.storage(id));
        if (value.kind == Value::Kind::weight) weights_ += value.desc.elements();
      }
    }
    if (of.norm >= 0) call.fused.norm = &std::get<op::RmsNorm>(node(of.norm).params);
    if (of.glu >= 0) call.fused.glu = &std::get<op::Glu>(node(of.glu).params);
    if (of.add >= 0) call.fused.add = &std::get<op::Add>(node(of.add).params);

    const auto add_input = [&](ValueId id) {
      add_operand(id, memory, call.inputs, call.input_operands);
    };
    if (of.kind == FusedCall::Kind::products) {
      add_input(of.norm >= 0 ? node(of.norm).inputs[0] : first.inputs[0]);
      const bool experts = first.op() == OpId::MoeMatmul;
      if (experts) add_input(first.inputs[2]);
      for (const int32_t n : of.nodes) {
        const auto& in = node(n).inputs;
        add_input(in[1]);
        add_input(in[experts ? 3 : 2]);
        add_input(in[experts ? 4 : 3]);
      }
    } else {
      for (const ValueId id : first.inputs) add_input(id);
    }
    // What Fused refers to lies behind the operation's own inputs.
    if (of.norm >= 0) {
      add_input(node(of.norm).inputs[1]);
      call.fused.norm_weight = call.inputs.back();
    }
    if (of.add >= 0) add_input(node(of.add).inputs[0]);

    for (int32_t n = of.nodes[0]; n < of.end(); ++n) {
      if (!of.stores(n)) continue;
      for (const ValueId id : node(n).outputs) {
        add_operand(id, memory, call.outputs, call.output_operands);
      }
    }
    calls_.push_back(std::move(call));
  }

  /// Groups the calls by layer, with the weights of each.
  void plan_spill(std::span<const MemoryRef> memory) {
    int32_t layer = 0;
    for (Call& call : calls_) {
      const int32_t of_call = node(call.nodes[0]).unit.layer;
      if (&call == &calls_[0] || of_call != layer) {
        call.layer = static_cast<int32_t>(spill_.add_layer());
        layer = of_call;
      }
      for (const int32_t n : call.nodes) {
        for (const ValueId id : node(n).inputs) {
          if (id == kNoValue || graph_.value(graph_.storage(id)).kind != Value::Kind::weight) {
            continue;
          }
          const MemoryRef& at = memory[static_cast<size_t>(graph_.storage(id))];
          if (!at.buffer->in_file()) continue;  // what was loaded stays in memory
          const int64_t bytes = graph_.value(graph_.storage(id)).desc.extent_bytes();
          // What is gathered from a table is a few rows: not worth reading ahead.
          spill_.add(at.buffer->address() + at.offset, bytes, node(n).op() != OpId::Embed);
        }
      }
    }
    spill_.finish();
  }

  /// Inputs of the operation itself.
  static size_t given(const Call& call) {
    return call.inputs.size() - (call.fused.norm != nullptr ? 1 : 0) -
           (call.fused.add != nullptr ? 1 : 0);
  }

  void add_operand(ValueId id, std::span<const MemoryRef> memory, std::vector<TensorRef>& refs,
                   std::vector<Operand>& operands) {
    if (id == kNoValue) {
      refs.emplace_back();
      operands.emplace_back();
      return;
    }
    const Value& value = graph_.value(id);
    const ValueId storage = graph_.storage(id);
    const bool bound = graph_.value(storage).kind == Value::Kind::input;
    const MemoryRef& at = memory[static_cast<size_t>(storage)];
    refs.push_back({value.desc, bound ? nullptr : at.buffer->address() + at.offset + value.offset});
    operands.push_back({bound ? storage : kNoValue, value.offset, value.rows});
  }

  static void bind(std::vector<TensorRef>& refs, const std::vector<Operand>& operands,
                   const Bindings& bindings) {
    for (size_t i = 0; i < refs.size(); ++i) {
      const Operand& operand = operands[i];
      if (operand.rows == Rows::fixed) continue;
      refs[i].desc.shape[2] = operand.rows == Rows::tokens ? bindings.rows : bindings.outputs;
      if (operand.storage != kNoValue) {
        // Inputs are only read; TensorRef serves results as well.
        refs[i].data =
            const_cast<std::byte*>(bindings.inputs[static_cast<size_t>(operand.storage)]) +
            operand.offset;
      }
    }
  }

  const CpuContext& context_;
  const Graph& graph_;
  KvLayout kv_layout_;
  std::byte* scratch_;
  std::vector<Call> calls_;
  std::atomic<double> busy_{0};  ///< StepTimes::busy of the run
  int64_t weights_ = 0;          ///< elements, without tables of which a few rows are read
  Spill spill_;
};

}  // namespace

std::unique_ptr<Program> compile_program(const CpuContext& context, const CompileSpec& spec) {
  return std::make_unique<CpuProgram>(context, spec);
}

}  // namespace infer::cpu
