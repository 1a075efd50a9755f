// NVIDIA's GPUs, through the library of the driver (NVML), which is opened at run time. Types and
// numbers are those of NVIDIA's public header nvml.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gui/host/system_sample.h"

namespace infer::gui {

class Nvml {
 public:
  /// Opens the library of this name. Null: there is none, or its driver does not work.
  static std::unique_ptr<Nvml> open(const char* library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Adds a sample of every GPU that can be reached. What the driver does not tell is not set.
  void read(std::vector<GpuSample>& gpus) const;

 private:
  Nvml() = default;
  struct Functions;
  std::unique_ptr<Functions> functions_;
};

}  // namespace infer::gui
