#include "backends/vulkan/ceilings.h"

#include <algorithm>
#include <span>
#include <string>

#include "backends/vulkan/memory.h"
#include "engine/backend/profiler.h"

namespace infer::vulkan {
namespace {

/// ops/int_rate.comp, weights/matrix_rate.comp
struct Push {
  VkDeviceAddress y;
  uint32_t rounds;
};
constexpr uint32_t kLanes = 128;
constexpr uint32_t kChains = 8;

/// Nanoseconds of a dispatch as the host sees it; negative on failure.
int64_t time_of(Context& context, Pipelines& pipelines, VkPipeline pipeline, uint32_t groups,
                const Push& push) {
  Commands commands(context);
  if (!commands.create().ok() || !commands.begin(true).ok()) return -1;
  const VolkDeviceTable& vk = context.vk();
  vk.vkCmdBindPipeline(commands.handle(), VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  vk.vkCmdPushConstants(commands.handle(), pipelines.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                        sizeof(push), &push);
  vk.vkCmdDispatch(commands.handle(), groups, 1, 1);
  if (!commands.end().ok()) return -1;
  const int64_t start = profile_clock();
  if (!commands.submit().ok() || !commands.wait().ok()) return -1;
  return profile_clock() - start;
}

/// The best of longer and longer dispatches, in 1e9 a second; `macs`: of a workgroup's round.
double measure(Context& context, Pipelines& pipelines, const std::string& shader,
               std::span<const uint32_t> constants, double macs) {
  // More invocations than any device keeps at once, but few for a processor.
  const uint32_t groups = context.physical().processor ? 128 : 8192;
  const auto results =
      RawBuffer::create(context, int64_t{groups} * kLanes * int64_t{sizeof(int32_t)}, 0,
                        VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
  const Result<VkPipeline> pipeline = pipelines.get(shader, constants);
  if (!results || !pipeline) return 0;
  constexpr int64_t kEnough = 20'000'000;  // ns: what submitting takes is little beside it
  constexpr uint32_t kMostRounds = 1 << 20;
  Push push{(*results)->address(), 16};
  double best = 0;
  for (;;) {
    const int64_t ns = time_of(context, pipelines, *pipeline, groups, push);
    if (ns <= 0) return 0;
    best =
        std::max(best, static_cast<double>(push.rounds) * groups * macs / static_cast<double>(ns));
    if (ns >= kEnough || push.rounds >= kMostRounds) return best;
    push.rounds *= 2;
  }
}

}  // namespace

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
  const uint32_t lanes[] = {subgroups * context.physical().subgroup};
  return measure(context, pipelines, "matrix_rate_" + shape.name(), lanes,
                 static_cast<double>(subgroups) * kChains * shape.m * shape.n * shape.k);
}

}  // namespace infer::vulkan
