#include <utility>

#include "engine/telemetry/gpu_files.h"
#include "engine/telemetry/nvml.h"

namespace infer {

struct GpuMonitor::State {
  explicit State(TelemetryOptions with) : options(std::move(with)), files(options.sys) {}

  const TelemetryOptions options;
  GpuFiles files;
  bool opened = false;
  std::unique_ptr<Nvml> nvml;
};

GpuMonitor::GpuMonitor(TelemetryOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}

GpuMonitor::~GpuMonitor() = default;

std::vector<GpuTelemetry> GpuMonitor::read() {
  std::vector<GpuTelemetry> gpus;
  state_->files.read(std::chrono::steady_clock::now(), gpus);
  if (!std::exchange(state_->opened, true)) state_->nvml = Nvml::open(state_->options.nvml);
  if (state_->nvml == nullptr) return gpus;
  for (const Nvml::Gpu& gpu : state_->nvml->gpus()) gpus.push_back(state_->nvml->read(gpu));
  return gpus;
}

}  // namespace infer
