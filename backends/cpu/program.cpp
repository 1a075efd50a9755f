// A compiled segment on the CPU: the kernel calls in order, run as one job of the thread pool with
// a barrier after each call.
#include <algorithm>
#include <new>

#include "backends/cpu/device.h"
#include "backends/cpu/product.h"

namespace infer::cpu {
namespace {

/// A tensor of a call and what changes about it from run to run.
struct Operand {
  ValueId storage = kNoValue;  ///< of an input: whose pointer is bound at run time
  int64_t offset = 0;
  Rows rows = Rows::fixed;
};

struct Call {
  const CpuOp* op;
  const OpParams* params;
  std::vector<TensorRef> inputs, outputs;
  std::vector<Operand> input_operands, output_operands;
  std::vector<int32_t> nodes;  ///< what of the graph it computes
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
    for (int32_t i = spec.segment.begin; i < spec.segment.end; ++i) add(i, spec.memory);
  }

  Status run(const Bindings& bindings) override {
    for (Call& call : calls_) {
      bind(call.inputs, call.input_operands, bindings);
      bind(call.outputs, call.output_operands, bindings);
    }
    try {
      context_.pool->run([&](int thread) {
        Profiler* const profiler = bindings.profiler;
        for (const Call& call : calls_) {
          PhaseEvent event{call.nodes, thread};
          if (profiler != nullptr) event.start_ns = profile_clock();
          call.op->run({context_, *call.params, call.inputs, call.outputs, scratch_, graph_.kv(),
                        kv_layout_, bindings.pages, thread});
          if (profiler != nullptr) event.worked_ns = profile_clock();
          context_.pool->barrier();
          if (profiler == nullptr) continue;
          event.end_ns = profile_clock();
          profiler->record(event);
        }
      });
    } catch (const std::bad_alloc&) {
      return error(StatusCode::out_of_memory, "cpu: an allocation failed during a step");
    }
    return {};
  }

 private:
  void add(int32_t index, std::span<const MemoryRef> memory) {
    const Node& node = graph_.nodes()[static_cast<size_t>(index)];
    Call call{&cpu_op(node.op()), &node.params, {}, {}, {}, {}, {index}};
    for (const ValueId id : node.inputs) add_operand(id, memory, call.inputs, call.input_operands);
    for (const ValueId id : node.outputs) {
      add_operand(id, memory, call.outputs, call.output_operands);
    }
    if (!calls_.empty() && joins(calls_.back(), call)) {
      append(calls_.back().inputs, call.inputs, 1);
      append(calls_.back().input_operands, call.input_operands, 1);
      append(calls_.back().outputs, call.outputs, 0);
      append(calls_.back().output_operands, call.output_operands, 0);
      append(calls_.back().nodes, call.nodes, 0);
    } else {
      calls_.push_back(std::move(call));
    }
  }

  template <typename T>
  static void append(std::vector<T>& to, const std::vector<T>& from, size_t skip) {
    to.insert(to.end(), from.begin() + static_cast<ptrdiff_t>(skip), from.end());
  }

  /// Products with the same activations, in the same form, become one call: q, k, v; gate, up.
  bool joins(const Call& last, const Call& next) const {
    if (last.op->id != OpId::Matmul || next.op->id != OpId::Matmul) return false;
    const TensorRef& a = last.inputs[0];
    const TensorRef& b = next.inputs[0];
    return a.data == b.data && a.desc.shape == b.desc.shape &&
           last.input_operands[0].storage == next.input_operands[0].storage &&
           Product::choose(context_, last.inputs[1].desc).quantised_activations() ==
               Product::choose(context_, next.inputs[1].desc).quantised_activations();
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
};

}  // namespace

std::unique_ptr<Program> compile_program(const CpuContext& context, const CompileSpec& spec) {
  return std::make_unique<CpuProgram>(context, spec);
}

}  // namespace infer::cpu
