#include "backends/cuda/program.h"

#include <algorithm>
#include <utility>

#include "backends/cuda/fusion.h"
#include "backends/cuda/launches.h"
#include "backends/cuda/rounded_values.h"
#include "backends/cuda/step_memory.h"
#include "engine/core/log.h"

namespace infer::cuda {
namespace {

/// A copy from pinned memory as a node of a graph has it.
CUDA_MEMCPY3D copy_params(const StepMemory::Copy& copy) {
  CUDA_MEMCPY3D params{};
  params.srcMemoryType = CU_MEMORYTYPE_HOST;
  params.srcHost = copy.from;
  params.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  params.dstDevice = copy.to;
  params.WidthInBytes = static_cast<size_t>(copy.bytes);
  params.Height = 1;
  params.Depth = 1;
  return params;
}

/// A graph of the driver and what was made of it.
class StepGraph {
 public:
  /// The launches outlive it.
  StepGraph(Context& context, const std::vector<Launch>& launches, bool early)
      : context_(context), launches_(launches), early_(early) {}
  ~StepGraph() { clear(); }
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  Status make(const StepMemory& step) {
    Status status = build(step);
    if (!refused_ || !early_) return status;
    log(LogLevel::warning, "{}: {}; no kernel begins early", context_.gpu().name, status.message());
    early_ = false;
    return build(step);
  }

  Status launch(const StepMemory& step) {
    const DriverFunctions& cu = context_.cu();
    if (const StepMemory::Copy pages = step.pages();
        pages.bytes != pages_.bytes || pages.to != pages_.to || pages.from != pages_.from) {
      const CUDA_MEMCPY3D params = copy_params(pages);
      const Status changed = may_refuse(
          cu.cuGraphExecMemcpyNodeSetParams(exec_, pages_node_, &params, context_.handle()),
          "cannot change a graph");
      if (refused_) {
        INFER_CHECK(build(step));
      } else {
        INFER_CHECK(changed);
      }
      pages_ = pages;
    }
    return context_.check(cu.cuGraphLaunch(exec_, context_.stream()), "cannot launch a graph");
  }

 private:
  void clear() {
    if (!context_.enter().ok()) return;
    if (exec_ != nullptr) (void)context_.cu().cuGraphExecDestroy(std::exchange(exec_, nullptr));
    if (graph_ != nullptr) (void)context_.cu().cuGraphDestroy(std::exchange(graph_, nullptr));
  }

  Status build(const StepMemory& step) {
    clear();
    const DriverFunctions& cu = context_.cu();
    INFER_CHECK(context_.enter());
    INFER_CHECK(context_.check(cu.cuGraphCreate(&graph_, 0), "cannot make a graph"));
    std::vector<CUgraphNode> copies;
    CUgraphNode inputs = nullptr;
    INFER_CHECK(add_copy(step.inputs(), inputs));
    copies.push_back(inputs);
    if (pages_ = step.pages(); pages_.bytes > 0) {
      INFER_CHECK(add_copy(pages_, pages_node_));
      copies.push_back(pages_node_);
    }
    std::vector<CUgraphNode> nodes;
    for (const Launch& launch : launches_) INFER_CHECK(add_kernel(launch, copies, nodes));
    INFER_CHECK(may_refuse(cu.cuGraphInstantiate(&exec_, graph_, 0), "cannot make a graph"));
    return context_.check(cu.cuGraphUpload(exec_, context_.stream()), "cannot upload a graph");
  }

  /// context_.check(), and whether the driver cannot do what was asked for.
  Status may_refuse(CUresult result, const std::string& what) {
    refused_ = result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_INVALID_VALUE;
    return context_.check(result, what);
  }

  Status add_copy(const StepMemory::Copy& copy, CUgraphNode& node) {
    const CUDA_MEMCPY3D params = copy_params(copy);
    return context_.check(
        context_.cu().cuGraphAddMemcpyNode(&node, graph_, nullptr, 0, &params, context_.handle()),
        "cannot make a graph");
  }

  Status add_kernel(const Launch& launch, const std::vector<CUgraphNode>& copies,
                    std::vector<CUgraphNode>& nodes) {
    std::vector<CUgraphNode> after;
    for (const int32_t other : launch.after) after.push_back(nodes[static_cast<size_t>(other)]);
    // A kernel that follows one other may begin while that one still runs.
    const bool early = early_ && launch.waits && after.size() == 1;
    const CUgraphNode last = early ? after[0] : nullptr;
    if (early) after.clear();
    if (launch.after.empty()) after = copies;
    void* params[] = {const_cast<std::byte*>(launch.params.data())};
    CUDA_KERNEL_NODE_PARAMS kernel{};
    kernel.func = launch.function;
    kernel.gridDimX = static_cast<unsigned>(launch.grid.x);
    kernel.gridDimY = static_cast<unsigned>(launch.grid.y);
    kernel.gridDimZ = static_cast<unsigned>(launch.grid.z);
    kernel.blockDimX = static_cast<unsigned>(launch.threads);
    kernel.blockDimY = kernel.blockDimZ = 1;
    kernel.sharedMemBytes = static_cast<unsigned>(launch.shared_bytes);
    kernel.kernelParams = params;
    CUgraphNode node = nullptr;
    INFER_CHECK(context_.check(
        context_.cu().cuGraphAddKernelNode(&node, graph_, after.data(), after.size(), &kernel),
        "cannot add '" + launch.kernel + "' to a graph"));
    nodes.push_back(node);
    if (!early) return {};
    CUgraphEdgeData edge{};
    edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    return may_refuse(context_.cu().cuGraphAddDependencies(graph_, &last, &node, &edge, 1),
                      "cannot let '" + launch.kernel + "' begin early");
  }

  Context& context_;
  const std::vector<Launch>& launches_;
  bool early_;            ///< Tuning::early, unless the driver refuses it
  bool refused_ = false;  ///< by the driver, the last that may_refuse() saw
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
  CUgraphNode pages_node_ = nullptr;
  StepMemory::Copy pages_;  ///< as the graph has it
};

class CudaProgram final : public Program {
 public:
  CudaProgram(Context& context, Modules& modules, const Target& target, const CompileSpec& spec)
      : context_(context),
        target_(target),
        segment_(spec.segment),
        graph_(*spec.segment.graph),
        kv_layout_(canonical_kv_layout(graph_.kv())),
        memory_(spec.memory.begin(), spec.memory.end()),
        calls_(plan_calls(segment_, target)),
        rounded_(segment_, calls_, target),
        launches_(context, modules),
        step_graph_(context, launches_.all(), target.tuning.early),
        done_(context) {
    if (scratch_bytes(segment_, target) > 0) scratch_ = gpu::address_of(spec.scratch);
  }
  ~CudaProgram() override { (void)done_.wait(); }

  Status record(uint64_t tables) {
    INFER_TRY_S(step_, StepMemory::create(context_, segment_, target_.counters(segment_), tables));
    INFER_CHECK(done_.create(false));
    for (const FusedCall& call : calls_) record(call);
    INFER_CHECK(launches_.status());
    return step_graph_.make(*step_);
  }

  /// With a profiler it waits for the run, since the times are the host's too.
  Status submit(const Bindings& bindings) override {
    INFER_CHECK(done_.wait());  // a wait before may have failed
    INFER_CHECK(context_.enter());
    INFER_CHECK(step_->write(bindings));
    if (bindings.profiler != nullptr) return run_profiled(*bindings.profiler);
    INFER_CHECK(step_graph_.launch(*step_));
    return done_.record();
  }
  Status wait() override { return named(done_.wait()); }

 private:
  /// A failure of a run says what ran.
  Status named(const Status& status) const {
    if (status.ok()) return {};
    const auto layer_of = [&](const FusedCall& call) {
      return std::max(graph_.nodes()[static_cast<size_t>(call.begin())].unit.layer, 0);
    };
    if (calls_.empty()) return status;
    return {status.code(), fmt::format("{}; computing layers {} to {}", status.message(),
                                       layer_of(calls_.front()), layer_of(calls_.back()))};
  }

  Operand operand(ValueId id) const {
    return gpu::operand_at(graph_, id, memory_,
                           [this](ValueId input) { return step_->input(input); });
  }

  void record(const FusedCall& call) {
    const gpu::OperandOf place = [this](ValueId id) { return operand(id); };
    launches_.begin_call(
        gpu::access_of(graph_, call,
                       {.operand = place,
                        .cache_use = [this](const Node& n) { return target_.cache_use(n); },
                        .uses_scratch =
                            [this](const Node& n) {
                              return target_.scratch_bytes(graph_, n, segment_.roles) > 0;
                            }},
                       scratch_));
    if (!call.fused()) {
      with_node(call.nodes[0], [](const CudaOp& op, const NodeCall& node) { op.record(node); });
    } else if (call.kind == FusedCall::Kind::products) {
      const ProductCall product = gpu::products_of(graph_, call, place);
      with_node(call.nodes[0],
                [&](const CudaOp& op, const NodeCall& node) { op.record_products(node, product); });
    } else {
      const RopeStoreCall ropes = gpu::ropes_of(graph_, call, place);
      const bool attends = call.attention >= 0;
      with_node(attends ? call.attention : call.nodes[2],
                [&](const CudaOp& op, const NodeCall& node) {
                  (attends ? op.record_attention : op.record_ropes)(node, ropes);
                });
    }
  }

  template <typename Use>
  void with_node(int32_t n, const Use& use) {
    const Node& node = graph_.nodes()[static_cast<size_t>(n)];
    const gpu::OperandOf place = [this](ValueId id) { return operand(id); };
    const std::vector<Operand> inputs = gpu::operands_of(node.inputs, place);
    const std::vector<Operand> outputs = gpu::operands_of(node.outputs, place);
    use(*target_.ops.find(node.op()),
        NodeCall{graph_, node, inputs, outputs, kv_layout_, target_.gpu, target_.tuning,
                 step_->address(), scratch_, step_->counters(), segment_.roles, rounded_,
                 launches_});
  }

  Status prepare_profile() {
    if (!times_.empty()) return {};
    std::vector<std::unique_ptr<Event>> times;
    for (size_t i = 0; i <= calls_.size(); ++i) {
      times.push_back(std::make_unique<Event>(context_));
      INFER_CHECK(times.back()->create(true));
    }
    for (const FusedCall& call : calls_) {
      for (int32_t n = call.begin(); n < call.end(); ++n) nodes_.push_back(n);
    }
    times_ = std::move(times);
    return {};
  }

  Status copy(const StepMemory::Copy& copy) const {
    if (copy.bytes == 0) return {};
    return context_.check(
        context_.cu().cuMemcpyHtoDAsync(copy.to, copy.from, static_cast<size_t>(copy.bytes),
                                        context_.stream()),
        "cannot copy to the device");
  }

  Status launch_alone(const Launch& launch) const {
    void* params[] = {const_cast<std::byte*>(launch.params.data())};
    return context_.check(
        context_.cu().cuLaunchKernel(
            launch.function, static_cast<unsigned>(launch.grid.x),
            static_cast<unsigned>(launch.grid.y), static_cast<unsigned>(launch.grid.z),
            static_cast<unsigned>(launch.threads), 1, 1, static_cast<unsigned>(launch.shared_bytes),
            context_.stream(), params, nullptr),
        "cannot launch '" + launch.kernel + "'");
  }

  /// One launch after the other on the stream, with the time after every call. A kernel that
  /// faults is named.
  Status run_profiled(Profiler& profiler) {
    INFER_CHECK(prepare_profile());
    INFER_CHECK(copy(step_->inputs()));
    INFER_CHECK(copy(step_->pages()));
    INFER_CHECK(times_[0]->record());
    for (size_t call = 0; call < calls_.size(); ++call) {
      for (size_t i = launches_.first_of(call); i < launches_.first_of(call + 1); ++i) {
        INFER_CHECK(launch_alone(launches_.all()[i]));
      }
      INFER_CHECK(times_[call + 1]->record());
    }
    for (size_t call = 0; call <= calls_.size(); ++call) {
      const Status done = times_[call]->wait();
      if (done.ok()) continue;
      return {done.code(), fmt::format("{}; computing {}", done.message(), name_of(call))};
    }
    const int64_t end = profile_clock();
    std::vector<int64_t> at;  // nanoseconds before the end
    for (const auto& time : times_) {
      INFER_TRY_S(const double milliseconds, times_.back()->milliseconds_since(*time));
      at.push_back(static_cast<int64_t>(milliseconds * 1e6));
    }
    std::span<const int32_t> nodes = nodes_;  // of the calls from the i-th on
    for (size_t i = 0; i < calls_.size(); ++i) {
      const auto count = static_cast<size_t>(calls_[i].end() - calls_[i].begin());
      const auto launches = static_cast<int32_t>(launches_.first_of(i + 1) - launches_.first_of(i));
      profiler.record({nodes.first(count), 0, end - at[i], end - at[i + 1], end - at[i + 1],
                       launches, launches_.waits(i) ? 1 : 0});
      nodes = nodes.subspan(count);
    }
    return {};
  }

  /// The operation and the kernels whose end the event stands for.
  std::string name_of(size_t event) const {
    if (event == 0) return "the copy of a step's inputs";
    const Node& node = graph_.nodes()[static_cast<size_t>(calls_[event - 1].nodes[0])];
    std::string name = fmt::format("'{}' of layer {}", op_name(node.op()), node.unit.layer);
    for (size_t i = launches_.first_of(event - 1); i < launches_.first_of(event); ++i) {
      name += fmt::format(", kernel '{}'", launches_.all()[i].kernel);
    }
    return name;
  }

  Context& context_;
  Target target_;
  Segment segment_;
  const Graph& graph_;
  KvLayout kv_layout_;
  std::vector<MemoryRef> memory_;
  uint64_t scratch_ = 0;
  std::vector<FusedCall> calls_;
  RoundedValues rounded_;
  std::unique_ptr<StepMemory> step_;
  Launches launches_;
  StepGraph step_graph_;
  std::vector<int32_t> nodes_;  ///< of the profile
  std::vector<std::unique_ptr<Event>>
      times_;  ///< of the profile: before the first call, after each
  Event done_;
};

}  // namespace

Result<std::unique_ptr<Program>> compile_program(Context& context, Modules& modules,
                                                 const Target& target, uint64_t tables,
                                                 const CompileSpec& spec) {
  auto program = std::make_unique<CudaProgram>(context, modules, target, spec);
  INFER_CHECK_R(program->record(tables));
  return program;
}

}  // namespace infer::cuda
