// What the machine does, at one moment. Values that the system does not tell are not set.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infer/telemetry.hpp"

namespace infer::gui {

struct SystemSample {
  std::chrono::steady_clock::time_point time;
  std::optional<double> machine_cpu;  ///< share of all processors' time since the last sample
  std::optional<double> process_cpu;  ///< of this process, likewise; 1: all processors
  std::optional<int64_t> memory_total, memory_available;  ///< bytes of the machine
  std::optional<int64_t> process_resident, process_peak;  ///< bytes of this process in memory
  std::optional<double> cpu_celsius;
  std::optional<double> cpu_mhz;     ///< mean of all processors
  std::optional<double> cpu_joules;  ///< of all processor packages since the first sample
  std::optional<double> cpu_watts;   ///< mean since the last sample
  std::string no_energy;             ///< why there are no joules, and what to do
  /// Times that a processor was slowed down by its heat since the last sample.
  std::optional<int64_t> cpu_throttled;
  std::vector<GpuTelemetry> gpus;
};

}  // namespace infer::gui
