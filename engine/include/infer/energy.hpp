// infer: the energy that the system says it has used. RAPL's counters of processor packages and, if
// asked for, what GPUs tell through hwmon (amdgpu, i915, xe) and NVML. Everything that runs counts.
// The conventions are those of infer/infer.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infer/export.h"

namespace infer {

struct EnergyOptions {
  std::string sys = "/sys";  ///< where the system's small files are
  bool gpus = false;
  std::string nvml = "libnvidia-ml.so.1";  ///< opened at run time, for GPUs; empty: none
};

/// Finds the counters once. One thread at a time.
class INFER_API EnergyMeter {
 public:
  explicit EnergyMeter(const EnergyOptions& options = {});
  ~EnergyMeter();
  EnergyMeter(const EnergyMeter&) = delete;
  EnergyMeter& operator=(const EnergyMeter&) = delete;

  /// What tells: "package-0", "amdgpu hwmon3", "nvidia 0". Empty: nothing does.
  std::vector<std::string> sources() const;
  /// Why a counter that is there cannot be read; empty: all can.
  const std::string& refused() const;

  struct Reading {
    std::vector<std::optional<int64_t>> values;  ///< by source
    std::chrono::steady_clock::time_point at;
  };
  Reading read() const;

  /// Joules between two readings, of all sources. A counter that has begun again at 0 has done so
  /// once. A source that tells only its power had the mean of both readings. Nothing if there is no
  /// source or one could not be read.
  std::optional<double> joules(const Reading& from, const Reading& to) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace infer
