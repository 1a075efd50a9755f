#include "backends/vulkan/program.h"

#include <set>

#include "backends/vulkan/hazards.h"
#include "backends/vulkan/step_memory.h"

namespace infer::vulkan {
namespace {

/// Keys and values of a layer as one range that no memory has: nodes meet in it, whatever pages
/// they touch.
Range cache_of(int32_t layer) {
  const uint64_t at = (uint64_t{1} << 63) + static_cast<uint64_t>(layer);
  return {at, at + 1};
}

/// The layer whose cache a node reads or writes; -1: none.
int32_t layer_of(const Node& node) {
  if (const auto* store = std::get_if<op::KvStore>(&node.params)) return store->kv_layer;
  if (const auto* attention = std::get_if<op::Attention>(&node.params)) return attention->kv_layer;
  return -1;
}

class VulkanProgram final : public Program, private Recorder {
 public:
  VulkanProgram(Context& context, Pipelines& pipelines, const CompileSpec& spec)
      : context_(context),
        pipelines_(pipelines),
        segment_(spec.segment),
        graph_(*spec.segment.graph),
        kv_layout_(canonical_kv_layout(graph_.kv())),
        memory_(spec.memory.begin(), spec.memory.end()),
        commands_(context) {}

  ~VulkanProgram() override {
    if (queries_ == VK_NULL_HANDLE) return;
    profiled_.reset();  // waits for what may still use the queries
    context_.vk().vkDestroyQueryPool(context_.device(), queries_, nullptr);
  }

  Status record(VkDeviceAddress tables) {
    INFER_TRY_S(step_, StepMemory::create(context_, segment_, tables));
    INFER_CHECK(commands_.create());
    return record_all(commands_);
  }

  Status run(const Bindings& bindings) override {
    INFER_CHECK(step_->write(bindings));
    if (bindings.profiler != nullptr) return run_profiled(*bindings.profiler);
    INFER_CHECK(commands_.submit());
    return commands_.wait();
  }

 private:
  Status record_all(Commands& commands) {
    recording_ = &commands;
    hazards_.clear();
    INFER_CHECK(commands.begin(false));
    constexpr VkPipelineStageFlags kDevice =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    full_barrier(context_, commands.handle(), kDevice, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
    const bool timed = &commands != &commands_ && queries_ != VK_NULL_HANDLE;
    const VolkDeviceTable& vk = context_.vk();
    uint32_t query = 0;
    const auto write_time = [&] {
      if (!timed) return;
      vk.vkCmdWriteTimestamp(commands.handle(), VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_,
                             query++);
    };
    if (timed) {
      vk.vkCmdResetQueryPool(commands.handle(), queries_, 0,
                             static_cast<uint32_t>(nodes_.size()) + 1);
    }
    write_time();
    for (const Node& node : segment_.nodes()) {
      record(node);
      write_time();
    }
    full_barrier(context_, commands.handle(), VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                 kDevice | VK_PIPELINE_STAGE_HOST_BIT);
    INFER_CHECK(commands.end());
    return status_;
  }

  /// The same work recorded once more, with the time after every node.
  Status prepare_profile() {
    for (int32_t n = segment_.begin; n < segment_.end; ++n) nodes_.push_back(n);
    if (context_.physical().timestamp_bits > 0) {
      VkQueryPoolCreateInfo create{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
      create.queryType = VK_QUERY_TYPE_TIMESTAMP;
      create.queryCount = static_cast<uint32_t>(nodes_.size()) + 1;
      INFER_CHECK(context_.check(
          context_.vk().vkCreateQueryPool(context_.device(), &create, nullptr, &queries_),
          "cannot make a query pool"));
    }
    auto commands = std::make_unique<Commands>(context_);
    INFER_CHECK(commands->create());
    INFER_CHECK(record_all(*commands));
    profiled_ = std::move(commands);
    return {};
  }

  Status run_profiled(Profiler& profiler) {
    if (profiled_ == nullptr) INFER_CHECK(prepare_profile());
    const int64_t start = profile_clock();
    INFER_CHECK(profiled_->submit());
    INFER_CHECK(profiled_->wait());
    const int64_t end = profile_clock();
    if (queries_ == VK_NULL_HANDLE) {
      profiler.record({nodes_, 0, start, end, end});
      return {};
    }
    std::vector<uint64_t> ticks(nodes_.size() + 1);
    INFER_CHECK(context_.check(
        context_.vk().vkGetQueryPoolResults(
            context_.device(), queries_, 0, static_cast<uint32_t>(ticks.size()), ticks.size() * 8,
            ticks.data(), 8, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
        "cannot read timestamps"));
    // The device's clock ends with the run as the host sees it.
    const double period = static_cast<double>(context_.physical().limits.timestampPeriod);
    const auto time_of = [&](size_t i) {
      return end - static_cast<int64_t>(static_cast<double>(ticks.back() - ticks[i]) * period);
    };
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const int64_t done = time_of(i + 1);
      profiler.record({{&nodes_[i], 1}, 0, time_of(i), done, done});
    }
    return {};
  }

  Operand operand(ValueId id) const {
    if (id == kNoValue) return {};
    const Value& value = graph_.value(id);
    const ValueId storage = graph_.storage(id);
    const auto offset = static_cast<VkDeviceAddress>(value.offset);
    if (graph_.value(storage).kind == Value::Kind::input) {
      return {&value, step_->input(storage) + offset};
    }
    const MemoryRef& at = memory_[static_cast<size_t>(storage)];
    const auto base = reinterpret_cast<uintptr_t>(at.buffer->address());
    return {&value, base + static_cast<VkDeviceAddress>(at.offset) + offset};
  }

  void record(const Node& node) {
    std::vector<Operand> inputs;
    std::vector<Operand> outputs;
    std::vector<Range> reads;
    std::vector<Range> writes;
    const auto range = [](const Operand& x) {
      return Range{x.address,
                   x.address + static_cast<VkDeviceAddress>(x.value->desc.extent_bytes())};
    };
    for (const ValueId id : node.inputs) {
      inputs.push_back(operand(id));
      const bool made =
          id != kNoValue && graph_.value(graph_.storage(id)).kind == Value::Kind::result;
      if (made) reads.push_back(range(inputs.back()));
    }
    for (const ValueId id : node.outputs) {
      outputs.push_back(operand(id));
      writes.push_back(range(outputs.back()));
    }
    if (const int32_t layer = layer_of(node); layer >= 0) {
      (node.op() == OpId::KvStore ? writes : reads).push_back(cache_of(layer));
    }
    if (hazards_.before(reads, writes)) {
      full_barrier(context_, recording_->handle(), VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                   VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
      hazards_.clear();
    }
    hazards_.add(reads, writes);
    vulkan_op(node.op()).record(
        {graph_, node, inputs, outputs, kv_layout_, context_.physical(), step_->address(), *this});
  }

  void add(const std::string& shader, std::span<const uint32_t> constants,
           std::span<const std::byte> push, const Groups& groups) override {
    if (!status_.ok()) return;
    const Result<VkPipeline> pipeline = pipelines_.get(shader, constants);
    if (!pipeline) {
      status_ = pipeline.error();
      return;
    }
    const uint32_t* most = context_.physical().limits.maxComputeWorkGroupCount;
    if (groups.x > most[0] || groups.y > most[1] || groups.z > most[2]) {
      status_ = error(StatusCode::unsupported, "{}: '{}' needs {} × {} × {} workgroups",
                      context_.physical().name, shader, groups.x, groups.y, groups.z);
      return;
    }
    const VolkDeviceTable& vk = context_.vk();
    vk.vkCmdBindPipeline(recording_->handle(), VK_PIPELINE_BIND_POINT_COMPUTE, *pipeline);
    vk.vkCmdPushConstants(recording_->handle(), pipelines_.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                          static_cast<uint32_t>(push.size()), push.data());
    vk.vkCmdDispatch(recording_->handle(), static_cast<uint32_t>(groups.x),
                     static_cast<uint32_t>(groups.y), static_cast<uint32_t>(groups.z));
  }

  Context& context_;
  Pipelines& pipelines_;
  Segment segment_;
  const Graph& graph_;
  KvLayout kv_layout_;
  std::vector<MemoryRef> memory_;
  std::unique_ptr<StepMemory> step_;
  Commands commands_;
  Commands* recording_ = nullptr;
  std::vector<int32_t> nodes_;  ///< of the profile
  VkQueryPool queries_ = VK_NULL_HANDLE;
  std::unique_ptr<Commands> profiled_;
  Hazards hazards_;
  Status status_;
};

}  // namespace

std::vector<NodePhase> plan_phases(const Segment& segment) {
  const Graph& graph = *segment.graph;
  std::vector<NodePhase> phases;
  std::set<ValueId> made;    // in the running phase
  std::set<int32_t> stored;  // layers whose cache it writes
  int32_t current = 0;
  for (const Node& node : segment.nodes()) {
    const int32_t layer = layer_of(node);
    const bool store = node.op() == OpId::KvStore;
    bool waits = layer >= 0 && stored.contains(layer);
    for (const ValueId id : node.inputs) {
      waits = waits || (id != kNoValue && made.contains(graph.storage(id)));
    }
    if (waits) {
      ++current;
      made.clear();
      stored.clear();
    }
    for (const ValueId id : node.outputs) made.insert(graph.storage(id));
    if (store) stored.insert(layer);
    phases.push_back({current, true});
  }
  return phases;
}

Result<std::unique_ptr<Program>> compile_program(Context& context, Pipelines& pipelines,
                                                 VkDeviceAddress tables, const CompileSpec& spec) {
  auto program = std::make_unique<VulkanProgram>(context, pipelines, spec);
  INFER_CHECK_R(program->record(tables));
  return program;
}

}  // namespace infer::vulkan
