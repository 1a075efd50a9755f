// infer: what GPUs do at a moment, as their drivers tell it: NVIDIA's through NVML, whose library
// is opened at run time; AMD's and Intel's through the kernel's files (amdgpu, i915, xe). All
// programs count. The conventions are those of infer/infer.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infer/export.h"

namespace infer {

/// What is not told is not set.
struct GpuTelemetry {
  std::string device;                   ///< as in LoadOptions::device; empty: not known
  std::string name;                     ///< "NVIDIA RTX 4090", "amdgpu (card0)"
  std::string pci;                      ///< where it is: "0000:01:00.0"; empty: not known
  std::optional<double> busy;           ///< share of the time, 0 to 1
  std::optional<double> memory_busy;    ///< share of the time in which memory is read or written
  std::optional<int64_t> memory_used;   ///< bytes, by all programs
  std::optional<int64_t> memory_total;  ///< bytes
  std::optional<double> celsius;
  std::optional<double> watts;
  std::optional<double> watts_limit;
  std::optional<double> joules;  ///< since some moment; of two readings the difference counts
  std::optional<double> core_mhz;
  std::optional<double> memory_mhz;
  /// Why it runs slower than it could: "too hot", "power limit, too hot"; empty: it does not.
  std::optional<std::string> throttled;
};

struct TelemetryOptions {
  std::string sys = "/sys";                ///< where the kernel's small files are
  std::string nvml = "libnvidia-ml.so.1";  ///< opened with the first reading; empty: none
};

/// One thread at a time.
class INFER_API GpuMonitor {
 public:
  explicit GpuMonitor(TelemetryOptions options = {});
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  /// All GPUs that tell anything. It takes a few milliseconds, the first time more. Some values are
  /// means since the last reading, so the first has none of them.
  std::vector<GpuTelemetry> read();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace infer
