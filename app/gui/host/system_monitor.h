// Use, temperature, power and clocks of the machine, where the system tells them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "gui/host/event_queue.h"
#include "gui/host/system_sample.h"
#include "infer/energy.hpp"

namespace infer::gui {

/// Takes samples on the thread that calls, which may take some milliseconds. Not thread-safe.
class SystemSampler {
 public:
  /// `root`: the folder in which "proc" and "sys" are. `nvml`: as TelemetryOptions::nvml.
  explicit SystemSampler(std::filesystem::path root = "/", std::string nvml = "libnvidia-ml.so.1");

  SystemSample sample();

 private:
  struct Ticks {
    int64_t busy = 0, all = 0, process = 0;
    bool known = false;
  };
  Ticks read_ticks() const;
  void read_processors(SystemSample& sample);
  void read_memory(SystemSample& sample) const;
  void read_energy(SystemSample& sample);
  std::optional<int64_t> throttle_count() const;

  const std::filesystem::path root_;
  const EnergyMeter energy_;  ///< of processors; GpuMonitor tells that of GPUs
  EnergyMeter::Reading energy_before_;
  std::chrono::steady_clock::time_point energy_time_;  ///< of the sample that read it
  double joules_ = 0;
  GpuMonitor gpus_;
  Ticks ticks_;
  std::optional<int64_t> throttled_;
};

struct MonitorOptions {
  std::filesystem::path root = "/";
  std::string nvml = "libnvidia-ml.so.1";
  std::chrono::milliseconds every{1000};
};

/// Samples on a thread of its own. The thread that draws calls all functions.
class SystemMonitor {
 public:
  explicit SystemMonitor(WakeFn wake = {}, MonitorOptions options = {});
  ~SystemMonitor();
  SystemMonitor(const SystemMonitor&) = delete;
  SystemMonitor& operator=(const SystemMonitor&) = delete;

  /// Whether samples are taken. It begins with `false`: a window that shows none of it does not
  /// wake the machine.
  void run(bool on);
  /// Calls `see` for the samples since the last call, at most 600.
  void poll(const std::function<void(const SystemSample&)>& see);

 private:
  void work();

  const MonitorOptions options_;
  EventQueue<SystemSample> samples_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool on_ = false;
  bool ending_ = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace infer::gui
