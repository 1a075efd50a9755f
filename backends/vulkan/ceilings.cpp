#include "backends/vulkan/ceilings.h"

#include <algorithm>
#include <span>
#include <string>

#include "backends/vulkan/constants.h"
#include "backends/vulkan/memory.h"
#include "engine/backend/profiler.h"

namespace infer::vulkan {
namespace {

/// ops/int_rate.comp, weights/matrix_rate.comp
struct Push {
  VkDeviceAddress y;
  uint32_t rounds;
};
/// ops/read_rate.comp
struct ReadPush {
  VkDeviceAddress y;
  uint32_t rounds, words;
  VkDeviceAddress x;
};
constexpr int64_t kLaneBytes = 8 * 16;  ///< that a lane reads at once
constexpr uint32_t kLanes = 128;
constexpr uint32_t kChains = 8;

/// What submitting takes is little beside this, in nanoseconds.
constexpr int64_t kEnough = 20'000'000;
constexpr uint32_t kMostRounds = 1 << 20;

/// Nanoseconds of what `record` records, as the host sees it; negative on failure.
template <typename Record>
int64_t time_of(Context& context, const Record& record) {
  Commands commands(context);
  if (!commands.create().ok() || !commands.begin(true).ok()) return -1;
  record(commands.handle());
  if (!commands.end().ok()) return -1;
  const int64_t start = profile_clock();
  if (!commands.submit().ok() || !commands.wait().ok()) return -1;
  return profile_clock() - start;
}

/// Of ever more rounds, until they take long enough, the highest rate; `amount`: of one round.
template <typename Record>
double best_rate(Context& context, double amount, uint32_t rounds, const Record& record) {
  double best = 0;
  for (;; rounds *= 2) {
    const int64_t ns =
        time_of(context, [&](VkCommandBuffer commands) { record(commands, rounds); });
    if (ns <= 0) return 0;
    best = std::max(best, amount * rounds / static_cast<double>(ns));
    if (ns >= kEnough || rounds >= kMostRounds) return best;
  }
}

template <typename Push>
void dispatch(Context& context, Pipelines& pipelines, VkCommandBuffer commands, VkPipeline pipeline,
              const Push& push, uint32_t groups) {
  const VolkDeviceTable& vk = context.vk();
  vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  vk.vkCmdPushConstants(commands, pipelines.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(push),
                        &push);
  vk.vkCmdDispatch(commands, groups, 1, 1);
}

/// The best rate of a shader, in 1e9 a second; `macs`: of a workgroup's round.
double measure(Context& context, Pipelines& pipelines, const std::string& shader,
               std::span<const uint32_t> constants, double macs) {
  // More invocations than any device keeps at once, but few for a processor.
  const uint32_t groups = context.physical().processor ? 128 : 8192;
  const auto results =
      RawBuffer::create(context, int64_t{groups} * kLanes * int64_t{sizeof(int32_t)}, 0,
                        VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
  const Result<VkPipeline> pipeline = pipelines.get(shader, constants);
  if (!results || !pipeline) return 0;
  return best_rate(context, groups * macs, 16, [&](VkCommandBuffer commands, uint32_t rounds) {
    dispatch(context, pipelines, commands, *pipeline, Push{(*results)->address(), rounds}, groups);
  });
}

double measure_copies(Context& context, const RawBuffer& from, const RawBuffer& to) {
  const auto copy = [&](VkCommandBuffer commands, uint32_t rounds) {
    const VkBufferCopy region{0, 0, static_cast<VkDeviceSize>(from.size())};
    for (uint32_t i = 0; i < rounds; ++i) {
      full_barrier(context, commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                   VK_PIPELINE_STAGE_TRANSFER_BIT);
      context.vk().vkCmdCopyBuffer(commands, from.handle(), to.handle(), 1, &region);
    }
  };
  return best_rate(context, 2.0 * static_cast<double>(from.size()), 1, copy);
}

/// By a shader, whose results go to `to`.
double measure_reads(Context& context, Pipelines& pipelines, const RawBuffer& from,
                     const RawBuffer& to) {
  const Result<VkPipeline> pipeline = pipelines.get("read_rate", {});
  if (!pipeline) return 0;
  // As many invocations as a large device keeps at once, and each reads several times.
  const auto groups =
      static_cast<uint32_t>(std::min<int64_t>(4096, from.size() / (4 * kLaneBytes * kLanes)));
  const auto words = static_cast<uint32_t>(from.size() / 16);
  const auto read = [&](VkCommandBuffer commands, uint32_t rounds) {
    dispatch(context, pipelines, commands, *pipeline,
             ReadPush{to.address(), rounds, words, from.address()}, groups);
  };
  return best_rate(context, static_cast<double>(from.size()), 1, read);
}

}  // namespace

double measure_bandwidth(Context& context, Pipelines& pipelines) {
  int64_t bytes = int64_t{context.physical().processor ? 64 : 1024} << 20;
  const auto allocate = [&] {
    return RawBuffer::create(context, bytes, 0, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
  };
  auto from = allocate();
  auto to = allocate();
  for (constexpr int64_t kLeast = int64_t{8} << 20; !from || !to;) {  // beside a model
    bytes /= 2;
    if (bytes < kLeast) return 0;
    from = allocate();
    to = allocate();
  }
  constexpr int kRounds = 3;
  double best = 0;
  for (int i = 0; i < kRounds; ++i) {
    best = std::max(best, measure_copies(context, **from, **to));
    best = std::max(best, measure_reads(context, pipelines, **from, **to));
  }
  return best;
}

double measure_integer_rate(Context& context, Pipelines& pipelines) {
  constexpr uint32_t kMacs = 4;  // of an instruction
  if (!context.physical().integer_dots) return 0;
  return measure(context, pipelines, "int_rate", {}, double{kLanes} * kChains * kMacs);
}

double measure_matrix_rate(Context& context, Pipelines& pipelines) {
  const MatrixShape& shape = context.physical().matrices;
  constexpr uint32_t kMostSubgroups = 16;
  const uint32_t subgroups = std::min(kLanes / context.physical().subgroup, kMostSubgroups);
  if (!shape.given() || subgroups == 0) return 0;
  const WorkgroupConstants constants{.workgroup = subgroups * context.physical().subgroup};
  return measure(context, pipelines, "matrix_rate_" + shape.name(), by_id(constants),
                 static_cast<double>(subgroups) * kChains * shape.m * shape.n * shape.k);
}

}  // namespace infer::vulkan
