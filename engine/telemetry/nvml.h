// NVIDIA's GPUs through the library of the driver (NVML), which is opened at run time. Types and
// numbers are those of NVIDIA's public header nvml.h.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/telemetry.hpp"

namespace infer {

class Nvml {
 public:
  struct Gpu {
    unsigned index = 0;      ///< NVML's
    void* handle = nullptr;  ///< nvmlDevice_t
  };

  /// Opens the library of this name. Null: there is none, or its driver does not work.
  static std::unique_ptr<Nvml> open(const std::string& library);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// The GPUs that could be reached when the library was opened.
  std::span<const Gpu> gpus() const { return gpus_; }
  /// What the driver does not tell is not set.
  GpuTelemetry read(const Gpu& gpu) const;
  /// Millijoules since the driver was loaded.
  std::optional<int64_t> millijoules(const Gpu& gpu) const;

 private:
  Nvml() = default;
  struct Functions;
  std::unique_ptr<Functions> functions_;  ///< null: not started
  std::vector<Gpu> gpus_;
};

}  // namespace infer
