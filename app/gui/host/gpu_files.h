// GPUs as the kernel's drivers describe them in /sys: amdgpu, i915, xe.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "gui/host/system_sample.h"

namespace infer::gui {

class GpuFiles {
 public:
  /// `root`: the folder in which "sys" is.
  explicit GpuFiles(std::filesystem::path root) : root_(std::move(root)) {}

  /// Adds the GPUs that have any of these files. Those of NVIDIA have none: see Nvml.
  void read(std::chrono::steady_clock::time_point now, std::vector<GpuSample>& gpus);

 private:
  struct Counter {
    std::chrono::steady_clock::time_point time;
    int64_t value = 0;
  };
  /// How fast the number in a file has grown since the last call, a second.
  std::optional<double> rate(const std::filesystem::path& file,
                             std::chrono::steady_clock::time_point now);
  void read_amd(const std::filesystem::path& device, GpuSample& gpu) const;
  void read_intel(const std::filesystem::path& card, std::chrono::steady_clock::time_point now,
                  GpuSample& gpu);

  std::filesystem::path root_;
  std::map<std::filesystem::path, Counter> counters_;
};

}  // namespace infer::gui
