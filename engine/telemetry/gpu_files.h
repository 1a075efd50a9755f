// GPUs as the kernel's drivers describe them in /sys: amdgpu, i915, xe.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "infer/telemetry.hpp"

namespace infer {

class GpuFiles {
 public:
  /// `sys`: the kernel's folder.
  explicit GpuFiles(std::filesystem::path sys) : sys_(std::move(sys)) {}

  /// Adds the GPUs that have any of these files. Those of NVIDIA have none: see Nvml.
  void read(std::chrono::steady_clock::time_point now, std::vector<GpuTelemetry>& gpus);

 private:
  struct Counter {
    std::chrono::steady_clock::time_point time;
    int64_t value = 0;
  };
  /// How fast the number in a file has grown since the last call, a second.
  std::optional<double> rate(const std::filesystem::path& file,
                             std::chrono::steady_clock::time_point now);
  void read_amd(const std::filesystem::path& device, GpuTelemetry& gpu) const;
  void read_intel(const std::filesystem::path& card, std::chrono::steady_clock::time_point now,
                  GpuTelemetry& gpu);

  std::filesystem::path sys_;
  std::map<std::filesystem::path, Counter> counters_;
};

}  // namespace infer
