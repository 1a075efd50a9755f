#include "engine/jobs/speed.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "engine/core/dtype.h"
#include "engine/exec/work.h"
#include "engine/plan/planner.h"

namespace infer {
namespace {

/// Fractions of a ceiling, lowest and highest.
struct FractionRange {
  double low;
  double high;
};

/// Of the read bandwidth while generating, and of the arithmetic in a prompt.
struct Fractions {
  FractionRange generation;
  FractionRange prompt;
};

// From tools/bench/RESULTS.md. "2026-11-22, night", "2026-11-22, evening" and "NF4": q4_0, q4_k_m,
// q6_k, q8_0, iq4_nl and nf4 with AVX2.
constexpr Fractions kAvx2{{0.54, 0.89}, {0.29, 0.54}};
// The same sections with AVX-512, and the slower machine of "2026-11-21, night". Those with AMX and
// with AVX-VNNI of "2026-11-26, at night" are within this range and that of AVX2.
constexpr Fractions kAvx512{{0.48, 0.90}, {0.19, 0.59}};
// llama-24m, of "2026-11-21, night" and "2026-11-22, later": weights that stay in the processor's
// caches are read faster than memory, and waiting for threads takes a part of so short a step.
constexpr Fractions kSmall{{0.45, 1.6}, {0.15, 0.59}};
constexpr double kSmallBytes = 64 << 20;
// Lowest: an H200, through CUDA and Vulkan, of "2026-11-26, at night". Highest: of processors,
// because GPUs of less bandwidth wait less between kernels.
constexpr Fractions kGpu{{0.28, 0.90}, {0.17, 0.59}};

/// Types of whole models in the sections above.
constexpr DType kMeasured[] = {DType::q4_0, DType::q4_k,   DType::q6_k,
                               DType::q8_0, DType::iq4_nl, DType::nf4};

/// A smaller share of the arithmetic does not change what is said.
constexpr double kLittle = 0.1;

/// Of a device that is not never_measured().
Fractions fractions_of(const DeviceInfo& device, const DeviceWork& work) {
  if (device.isa.empty()) return kGpu;
  if (work.weight_bytes < kSmallBytes) return kSmall;
  return device.isa.starts_with("avx512") ? kAvx512 : kAvx2;
}

void add_note(SpeedEstimate& estimate, const std::string& note) {
  if (estimate.note.find(note) != std::string::npos) return;
  estimate.note += (estimate.note.empty() ? "" : "; ") + note;
}

/// Why nothing can be said of a device; empty: something can.
std::string reason_against(const DeviceLoad& device) {
  const std::string never = never_measured(device.info);
  const bool known =
      device.speed.source != DeviceSpeed::Source::unknown && device.speed.read_bandwidth_gb_s > 0;
  if (!never.empty() || known) return never;
  return fmt::format("the limits of {} have not been measured", device.info.name);
}

/// Sums of seconds; speeds are their inverses.
struct Times {
  FractionRange generation{0, 0};  ///< low: with the low fractions, the longest
  FractionRange generation_full{0, 0};
  FractionRange prompt{0, 0};
};

void add_device(const DeviceLoad& device, const Fractions& fractions, double macs_per_s,
                Times& times) {
  const double bytes_per_s = device.speed.read_bandwidth_gb_s * 1e9;
  const auto add = [](FractionRange& sum, double seconds, const FractionRange& fraction) {
    sum.low += seconds / fraction.low;
    sum.high += seconds / fraction.high;
  };
  add(times.generation, device.work.first_bytes / bytes_per_s, fractions.generation);
  add(times.generation_full, device.work.full_bytes / bytes_per_s, fractions.generation);
  if (macs_per_s <= 0) return;
  // A prompt can not be faster than its weights are read.
  FractionRange arithmetic{0, 0};
  FractionRange reads{0, 0};
  add(arithmetic, device.work.prompt_macs / macs_per_s, fractions.prompt);
  add(reads, device.work.prompt_bytes / bytes_per_s, fractions.generation);
  times.prompt.low += std::max(arithmetic.low, reads.low);
  times.prompt.high += std::max(arithmetic.high, reads.high);
}

SpeedRange rates(double tokens, const FractionRange& seconds) {
  if (!(seconds.low > 0 && seconds.high > 0)) return {};
  return {tokens / seconds.low, tokens / seconds.high};
}

/// The share of a node's multiply-accumulates by the type of its weight.
void count_type(const Graph& graph, const Node& node, double macs, DeviceWork& work) {
  if (macs == 0) return;
  const DType type = graph.value(node.inputs[1]).desc.type;
  if (dtype_info(type).block_elements == 1) {
    work.float_macs += macs;
  } else if (std::ranges::find(kMeasured, type) == std::end(kMeasured)) {
    work.unmeasured_macs += macs;
  }
}

}  // namespace

std::string never_measured(const DeviceInfo& device) {
  if (device.description.find("llvmpipe") != std::string::npos) {
    return device.name + " computes on the processor, and nothing was measured there";
  }
  if (device.isa.empty() || device.isa.starts_with("avx")) return {};
  return fmt::format("nothing was measured with the {} kernels of {}", device.isa, device.name);
}

Result<std::vector<DeviceWork>> device_work(const OpenedModel& opened, int64_t prompt) {
  const MemoryPlan& plan = opened.plan;
  std::vector<DeviceWork> all(opened.devices.size());
  const auto of = [&](const Node& node) -> DeviceWork& {
    return all[static_cast<size_t>(plan.placement.of(node.unit))];
  };
  INFER_TRY(const Graph token, build_graph(*opened.model, *opened.weights, 1, 1, plan.k_type,
                                           plan.v_type, plan.placement));
  const StepShape first{{{0, 1}}, 1};
  const StepShape last{{{std::max<int64_t>(plan.context - 1, 0), 1}}, 1};
  for (const Node& node : token.nodes()) {
    DeviceWork& work = of(node);
    const Work empty = node_work(token, node, first);
    const Work full = node_work(token, node, last);
    work.weight_bytes += empty.weight_bytes;
    work.first_bytes += empty.weight_bytes + empty.cache_bytes;
    work.full_bytes += full.weight_bytes + full.cache_bytes;
  }
  INFER_TRY(const Graph many, build_graph(*opened.model, *opened.weights, prompt, 1, plan.k_type,
                                          plan.v_type, plan.placement));
  const StepShape step{{{0, prompt}}, 1};
  for (const Node& node : many.nodes()) {
    const Work done = node_work(many, node, step);
    DeviceWork& work = of(node);
    work.prompt_bytes += done.weight_bytes + done.cache_bytes;
    work.prompt_macs += done.weight_macs;
    count_type(many, node, done.weight_macs, work);
  }
  return all;
}

SpeedEstimate estimate_speed(std::span<const DeviceLoad> devices, int64_t prompt) {
  SpeedEstimate estimate;
  estimate.prompt_tokens = prompt;
  Times times;
  bool prompts = true;
  for (const DeviceLoad& device : devices) {
    const DeviceWork& work = device.work;
    if (work.first_bytes == 0 && work.prompt_macs == 0) continue;
    estimate.devices.push_back(device.speed);
    const std::string against = reason_against(device);
    if (!against.empty()) {
      if (estimate.unknown.empty()) estimate.unknown = against;
      continue;
    }
    const bool gpu = device.info.isa.empty();
    if (gpu) {
      add_note(estimate,
               "one GPU has been measured, which reached the lowest of these fractions: an H200; "
               "the highest are those of CPUs");
    }
    if (gpu && work.weight_bytes < kSmallBytes) {
      add_note(estimate,
               "so small a model will be slower on a GPU: starting a step takes longer "
               "than reading it");
    }
    const double rate =
        device.speed.prompt_mac_g_s > 0 ? device.speed.prompt_mac_g_s : device.speed.int8_mac_g_s;
    if (rate <= 0 && work.prompt_macs > 0) {
      prompts = false;
      add_note(estimate,
               fmt::format("prompts: the arithmetic of {} is not known", device.info.name));
    }
    if (!gpu && work.float_macs > kLittle * work.prompt_macs) {
      prompts = false;
      add_note(estimate, "prompts: nothing was measured with weights that are not quantised");
    }
    if (!gpu && work.unmeasured_macs > kLittle * work.prompt_macs) {
      add_note(estimate,
               "nothing was measured with this type of weights: these are fractions of "
               "other types");
    }
    add_device(device, fractions_of(device.info, work), rate * 1e9, times);
  }
  if (!estimate.unknown.empty()) return estimate;
  estimate.generation = rates(1, times.generation);
  estimate.generation_full = rates(1, times.generation_full);
  if (prompts) estimate.prompt = rates(static_cast<double>(prompt), times.prompt);
  return estimate;
}

}  // namespace infer
