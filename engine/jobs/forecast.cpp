// Plans with the expected speed, also for devices that are not present.
#include <algorithm>
#include <new>

#include "engine/backend/absent_device.h"
#include "engine/core/log.h"
#include "engine/jobs/device_table.h"
#include "engine/jobs/known_ceilings.h"
#include "engine/jobs/speed.h"
#include "engine/session/guarded.h"
#include "engine/session/memory_report.h"
#include "engine/session/opened_model.h"
#include "infer/jobs.hpp"

namespace infer {
namespace {

/// The prompt that `infer bench` measures if nothing is said.
constexpr int64_t kForecastPrompt = 256;

constexpr double kGigaMacsOfTera = 1000.0 / 2;  // an operation is half a multiply-accumulate

/// Opens the CPU, and in place of any other device the one that is not present.
OpenDevice opens_absent(const DeviceSpecification& device, const AbsentDef& backend) {
  return [&](const std::string& name,
             const DeviceOptions& options) -> Result<std::unique_ptr<Device>> {
    if (name != device.name) return open_device(name, options);
    return backend.make({device.name, device.memory, device.float16_tflops > 0, options.exact});
  };
}

/// The back end that would use the device: CUDA for NVIDIA's, if this build has it.
const AbsentDef& backend_for(const DeviceSpecification& device) {
  const std::span<const AbsentDef* const> all = all_absent();
  const std::string_view wanted = device.maker == "NVIDIA" ? "cuda" : "vulkan";
  const auto found =
      std::ranges::find_if(all, [&](const AbsentDef* backend) { return backend->name == wanted; });
  return found == all.end() ? *all.front() : **found;
}

DeviceSpeed speed_of(const DeviceSpecification& device, bool exact) {
  DeviceSpeed speed;
  speed.device = device.name;
  speed.source = DeviceSpeed::Source::specification;
  speed.read_bandwidth_gb_s = device.read_bandwidth_gb_s;
  speed.int8_mac_g_s = device.int8_tops * kGigaMacsOfTera;
  if (!exact) speed.prompt_mac_g_s = device.float16_tflops * kGigaMacsOfTera;
  return speed;
}

/// The limits of a device that is present: as the file has them, or measured and put there.
DeviceSpeed speed_of(Device& device, bool exact, bool measure) {
  const DeviceInfo info = device.info();
  const std::string key = ceilings_key(info, exact);
  const std::string file = ceilings_file();
  std::optional<Ceilings> known = known_ceilings(file, key);
  if (!known && measure && never_measured(info).empty()) {
    try {
      known = device.measure_ceilings();
      if (const Status kept = keep_ceilings(file, key, *known); !kept.ok()) {
        log(LogLevel::info, "what was measured is not kept: {}", kept.message());
      }
    } catch (const std::bad_alloc&) {
      log(LogLevel::info, "{}: no memory to measure its limits", info.name);
    }
  }
  DeviceSpeed speed;
  speed.device = info.name;
  if (!known) return speed;
  speed.source = DeviceSpeed::Source::measured;
  speed.read_bandwidth_gb_s = known->read_bandwidth_gb_s;
  speed.int8_mac_g_s = known->int8_mac_g_s;
  speed.prompt_mac_g_s = known->prompt_mac_g_s;
  return speed;
}

Result<SpeedEstimate> speed_of(const OpenedModel& opened, const LoadOptions& options,
                               const ForecastOptions& what,
                               const std::optional<DeviceSpecification>& absent) {
  const int64_t prompt =
      std::max<int64_t>(std::min({kForecastPrompt, opened.plan.max_rows, opened.plan.context}), 1);
  SpeedEstimate estimate;
  estimate.prompt_tokens = prompt;
  if (opened.plan.spilled) {
    estimate.unknown = "every step reads the weights from the file: the disk sets the speed";
    return estimate;
  }
  if (opened.model->info().embeds) {
    estimate.unknown = "nothing was measured with models that make vectors of texts";
    return estimate;
  }
  if (opened.request.weights_mapped) {
    estimate.unknown = "nothing was measured with mapped weights (--mmap)";
    return estimate;
  }
  if (options.exact) {
    estimate.unknown = "nothing was measured with float32 activations (--exact)";
    return estimate;
  }
  INFER_TRY(const std::vector<DeviceWork> work, device_work(opened, prompt));
  std::vector<DeviceLoad> loads;
  for (size_t d = 0; d < work.size(); ++d) {
    if (work[d].first_bytes == 0 && work[d].prompt_macs == 0) continue;
    Device& device = *opened.devices[d];
    const DeviceInfo info = device.info();
    const bool here = !absent || info.name != absent->name;
    loads.push_back(
        {info,
         here ? speed_of(device, options.exact, what.measure) : speed_of(*absent, options.exact),
         work[d]});
  }
  estimate = estimate_speed(loads, prompt);
  const int64_t least = opened.plan.least_streamed;
  if (least > 0 && least <= prompt) {
    estimate.note += fmt::format(
        "{}prompts are faster than that: the GPU computes the CPU's parts as well, with weights "
        "that it gets for each step",
        estimate.note.empty() ? "" : "; ");
  }
  return estimate;
}

}  // namespace

std::vector<DeviceSpecification> device_specifications() {
  const std::span<const DeviceSpecification> known = known_devices();
  return {known.begin(), known.end()};
}

Result<Forecast> forecast(const std::string& path, const LoadOptions& options,
                          const ForecastOptions& what) {
  return guarded([&]() -> Result<Forecast> {
    Forecast forecast;
    LoadOptions load = options;
    OpenDevice open = open_device;
    if (!what.on.empty()) {
      INFER_TRY(forecast.absent, find_device(what.on));
      if (all_absent().empty()) {
        return fail(StatusCode::unsupported,
                    "this build has no back end for GPUs, so it cannot plan for one");
      }
      load.device = forecast.absent->name;
      forecast.absent_backend = backend_for(*forecast.absent).name;
      open = opens_absent(*forecast.absent, backend_for(*forecast.absent));
    }
    INFER_TRY(const OpenedModels opened, OpenedModels::open(path, load, true, open));
    forecast.memory = memory_report(opened);
    INFER_TRY(forecast.speed, speed_of(opened.main, load, what, forecast.absent));
    return forecast;
  });
}

}  // namespace infer
