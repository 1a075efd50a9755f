#include "backends/vulkan/program.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "backends/gpu/phases.h"
#include "backends/vulkan/fusion.h"
#include "backends/vulkan/product.h"
#include "backends/vulkan/rope_store.h"
#include "backends/vulkan/step_memory.h"
#include "backends/vulkan/submissions.h"
#include "engine/core/checked.h"

namespace infer::vulkan {
namespace {

class VulkanProgram final : public Program, private Recorder {
 public:
  VulkanProgram(Context& context, Pipelines& pipelines, const Target& target,
                const CompileSpec& spec)
      : context_(context),
        pipelines_(pipelines),
        target_(target),
        segment_(spec.segment),
        graph_(*spec.segment.graph),
        kv_layout_(canonical_kv_layout(graph_.kv())),
        memory_(spec.memory.begin(), spec.memory.end()),
        calls_(plan_calls(segment_, target)),
        commands_(context) {
    if (scratch_bytes(segment_, target) > 0) {
      scratch_ = gpu::address_of(spec.scratch);
    }
  }

  ~VulkanProgram() override {
    if (queries_ == VK_NULL_HANDLE) return;
    profiled_.reset();  // waits for what may still use the queries
    context_.vk().vkDestroyQueryPool(context_.device(), queries_, nullptr);
  }

  Status record(VkDeviceAddress tables) {
    INFER_TRY_S(step_, StepMemory::create(context_, segment_, tables));
    INFER_CHECK(commands_.create());
    INFER_CHECK(prepare_pipelines());
    submissions_ = submissions(0);
    return record_all(commands_);
  }

  /// With a profiler it waits for the run, since the times are the host's too.
  Status submit(const Bindings& bindings) override {
    INFER_CHECK(step_->write(bindings));
    INFER_CHECK(divide_for(step_->context(bindings)));
    if (bindings.profiler != nullptr) return run_profiled(*bindings.profiler);
    return commands_.submit();
  }
  Status wait() override { return commands_.wait(); }

 private:
  /// All that will be asked for, so that they are compiled together.
  Status prepare_pipelines() {
    std::set<Pipelines::Key> keys;
    wanted_ = &keys;
    for (const FusedCall& call : calls_) record(call);
    wanted_ = nullptr;
    hazards_.clear();
    return pipelines_.prepare(keys);
  }

  /// By call: submissions_of().
  std::vector<int64_t> submissions(int64_t context) {
    context_tokens_ = counted_context(context, target_.tuning);
    std::vector<double> work;
    for (const FusedCall& call : calls_) {
      work.push_back(work_of(segment_, call, target_, context_tokens_));
    }
    return submissions_of(work, target_.tuning.submission);
  }

  /// Records the step anew if rows see so many more or fewer tokens that it is to be divided
  /// otherwise.
  Status divide_for(int64_t context) {
    if (counted_context(context, target_.tuning) == context_tokens_) return {};
    std::vector<int64_t> divided = submissions(context);
    if (divided == submissions_) return {};
    INFER_CHECK(commands_.wait());
    profiled_.reset();
    submissions_ = std::move(divided);
    Status status = record_all(commands_);
    if (!status.ok()) context_tokens_ = -1;  // the next step tries again
    return status;
  }

  Status record_all(Commands& commands) {
    recording_ = &commands;
    status_ = {};
    broken_ = false;
    kept_read_ = 0;
    hazards_.clear();
    counts_.clear();
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
                             static_cast<uint32_t>(calls_.size()) + 1);
    }
    write_time();
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (i > 0 && submissions_[i] > 0) INFER_CHECK(commands.divide());
      parts_ = std::max<int64_t>(submissions_[i], 1);
      counts_.emplace_back();
      record(calls_[i]);
      if (broken_) return status_;
      write_time();
    }
    full_barrier(context_, commands.handle(), VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                 kDevice | VK_PIPELINE_STAGE_HOST_BIT);
    INFER_CHECK(commands.end());
    return status_;
  }

  /// The same work recorded once more, with the time after every call.
  Status prepare_profile() {
    nodes_.clear();
    for (const FusedCall& call : calls_) {
      for (int32_t n = call.begin(); n < call.end(); ++n) nodes_.push_back(n);
    }
    if (context_.physical().timestamp_bits > 0 && queries_ == VK_NULL_HANDLE) {
      VkQueryPoolCreateInfo create{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
      create.queryType = VK_QUERY_TYPE_TIMESTAMP;
      create.queryCount = static_cast<uint32_t>(calls_.size()) + 1;
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
      Counts all;
      for (const Counts& counts : counts_) {
        all.dispatches += counts.dispatches;
        all.barriers += counts.barriers;
      }
      profiler.record({nodes_, 0, start, end, end, all.dispatches, all.barriers});
      return {};
    }
    std::vector<uint64_t> ticks(calls_.size() + 1);
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
    std::span<const int32_t> nodes = nodes_;  // of the calls from the i-th on
    for (size_t i = 0; i < calls_.size(); ++i) {
      const auto count = static_cast<size_t>(calls_[i].end() - calls_[i].begin());
      const int64_t done = time_of(i + 1);
      profiler.record({nodes.first(count), 0, time_of(i), done, done, counts_[i].dispatches,
                       counts_[i].barriers});
      nodes = nodes.subspan(count);
    }
    return {};
  }

  Operand operand(ValueId id) const {
    return gpu::operand_at(graph_, id, memory_,
                           [this](ValueId input) { return step_->input(input); });
  }

  gpu::Access access_of(const FusedCall& call) const {
    return gpu::access_of(
        graph_, call,
        {.operand = [this](ValueId id) { return operand(id); },
         .cache_use = [this](const Node& node) { return target_.cache_use(node); },
         .uses_scratch =
             [this](const Node& node) {
               return target_.scratch_bytes(graph_, node, segment_.roles) > 0;
             }},
        scratch_);
  }

  void record(const FusedCall& call) {
    const gpu::Access access = access_of(call);
    if (hazards_.before(access.reads, access.writes)) {
      barrier();
      hazards_.clear();
    }
    hazards_.add(access.reads, access.writes);
    if (!call.fused()) {
      with_node(call.nodes[0],
                [&](const NodeCall& c) { target_.ops.find(c.node.op())->record(c); });
    } else if (call.kind == FusedCall::Kind::products) {
      record_products(call);
    } else {
      record_ropes(call);
    }
  }

  template <typename Use>
  void with_node(int32_t n, const Use& use) {
    const Node& node = graph_.nodes()[static_cast<size_t>(n)];
    const gpu::OperandOf place = [this](ValueId id) { return operand(id); };
    const std::vector<Operand> inputs = gpu::operands_of(node.inputs, place);
    const std::vector<Operand> outputs = gpu::operands_of(node.outputs, place);
    use(NodeCall{graph_, node, inputs, outputs, kv_layout_, target_.device, target_.tuning,
                 step_->address(), scratch_, segment_.roles, *this});
  }

  void record_products(const FusedCall& call) {
    const ProductCall product =
        gpu::products_of(graph_, call, [this](ValueId id) { return operand(id); });
    with_node(call.nodes[0], [&](const NodeCall& c) { record_product(c, product); });
  }

  void record_ropes(const FusedCall& call) {
    const RopeStoreCall in =
        gpu::ropes_of(graph_, call, [this](ValueId id) { return operand(id); });
    with_node(call.nodes[2], [&](const NodeCall& c) { record_rope_store(c, in); });
  }

  void barrier() override {
    if (wanted_ != nullptr || broken_) return;
    full_barrier(context_, recording_->handle(), VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                 VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
    ++counts_.back().barriers;
  }

  /// Blocks of memory that the host writes, one after another. Each recording keeps the same in the
  /// same order.
  VkDeviceAddress keep(std::span<const std::byte> data) override {
    if (wanted_ != nullptr || !status_.ok()) return 0;
    if (kept_read_ < kept_at_.size()) return kept_at_[kept_read_++];
    constexpr int64_t kBlock = 64 << 10;
    const int64_t bytes = round_up<int64_t>(static_cast<int64_t>(data.size()), 16);
    if (kept_.empty() || kept_used_ + bytes > kept_.back()->size()) {
      Result<std::unique_ptr<RawBuffer>> block = RawBuffer::create_mapped(
          context_, std::max(kBlock, bytes), VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
      if (!block) {
        status_ = block.error();
        return 0;
      }
      kept_.push_back(*std::move(block));
      kept_used_ = 0;
    }
    const int64_t at = std::exchange(kept_used_, kept_used_ + bytes);
    std::memcpy(kept_.back()->data() + at, data.data(), data.size());
    kept_at_.push_back(kept_.back()->address() + static_cast<VkDeviceAddress>(at));
    return kept_at_[kept_read_++];
  }

  void add(const std::string& shader, std::span<const uint32_t> constants,
           std::span<const std::byte> push, const Groups& groups, Parts parts) override {
    if (wanted_ != nullptr) {
      wanted_->emplace(shader, std::vector<uint32_t>(constants.begin(), constants.end()));
      return;
    }
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
    const int64_t count = parts == Parts::along_y ? std::clamp<int64_t>(groups.y, 1, parts_) : 1;
    for (int64_t part = 0; part < count; ++part) {
      if (part > 0) status_ = recording_->divide();
      broken_ = !status_.ok();
      if (broken_) return;
      const int64_t begin = groups.y * part / count;
      dispatch_from(begin, *pipeline, push,
                    {groups.x, groups.y * (part + 1) / count - begin, groups.z});
    }
    ++counts_.back().dispatches;
  }

  /// Workgroups from `begin` along y on.
  void dispatch_from(int64_t begin, VkPipeline pipeline, std::span<const std::byte> push,
                     const Groups& groups) {
    const VolkDeviceTable& vk = context_.vk();
    const VkCommandBuffer commands = recording_->handle();
    vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vk.vkCmdPushConstants(commands, pipelines_.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                          static_cast<uint32_t>(push.size()), push.data());
    vk.vkCmdDispatchBase(commands, 0, static_cast<uint32_t>(begin), 0,
                         static_cast<uint32_t>(groups.x), static_cast<uint32_t>(groups.y),
                         static_cast<uint32_t>(groups.z));
  }

  Context& context_;
  Pipelines& pipelines_;
  Target target_;
  Segment segment_;
  const Graph& graph_;
  KvLayout kv_layout_;
  std::vector<MemoryRef> memory_;
  VkDeviceAddress scratch_ = 0;
  std::vector<FusedCall> calls_;
  std::unique_ptr<StepMemory> step_;
  std::vector<std::unique_ptr<RawBuffer>> kept_;
  int64_t kept_used_ = 0;                 ///< bytes of the last one
  std::vector<VkDeviceAddress> kept_at_;  ///< of each keep() of a recording
  size_t kept_read_ = 0;                  ///< of these, by the recording so far
  int64_t context_tokens_ = 0;            ///< submissions_ are of so many
  std::vector<int64_t> submissions_;      ///< by call: submissions_of()
  int64_t parts_ = 1;                     ///< of the call that is recorded
  Commands commands_;
  Commands* recording_ = nullptr;
  std::set<Pipelines::Key>* wanted_ = nullptr;  ///< while nothing is recorded
  std::vector<int32_t> nodes_;                  ///< of the profile
  struct Counts {
    int32_t dispatches = 0;
    int32_t barriers = 0;
  };
  std::vector<Counts> counts_;  ///< by call
  VkQueryPool queries_ = VK_NULL_HANDLE;
  std::unique_ptr<Commands> profiled_;
  gpu::Hazards hazards_;
  Status status_;
  bool broken_ = false;  ///< a division failed: nothing is being recorded
};

}  // namespace

int64_t scratch_bytes(const Segment& segment, const Target& target) {
  int64_t most = 0;
  for (const Node& node : segment.nodes()) {
    most = std::max(most, target.scratch_bytes(*segment.graph, node, segment.roles));
  }
  return most;
}

Result<std::unique_ptr<Program>> compile_program(Context& context, Pipelines& pipelines,
                                                 const Target& target, VkDeviceAddress tables,
                                                 const CompileSpec& spec) {
  auto program = std::make_unique<VulkanProgram>(context, pipelines, target, spec);
  INFER_CHECK_R(program->record(tables));
  return program;
}

}  // namespace infer::vulkan
