#include "engine/telemetry/device_telemetry.h"

#include <algorithm>
#include <chrono>
#include <mutex>

namespace infer {
namespace {

using Clock = std::chrono::steady_clock;

/// A reading can take milliseconds, and statistics may be asked for with every frame of a window.
constexpr std::chrono::seconds kFresh{1};

struct Shared {
  std::mutex mutex;
  std::unique_ptr<GpuMonitor> monitor;
  std::vector<GpuTelemetry> told;
  Clock::time_point at;
};

/// Never destroyed: what ends with the process needs no library closed.
Shared& shared() {
  static Shared* const made = new Shared();
  return *made;
}

}  // namespace

std::optional<GpuTelemetry> telemetry_at(const std::string& pci) {
  if (pci.empty()) return std::nullopt;
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  const bool first = all.monitor == nullptr;
  if (first) all.monitor = std::make_unique<GpuMonitor>();
  if (const Clock::time_point now = Clock::now(); first || now - all.at > kFresh) {
    all.told = all.monitor->read();
    all.at = now;
  }
  const auto found = std::ranges::find(all.told, pci, &GpuTelemetry::pci);
  return found == all.told.end() ? std::nullopt : std::optional(*found);
}

void use_telemetry(const TelemetryOptions& options) {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  all.monitor = std::make_unique<GpuMonitor>(options);
  all.at = {};
}

}  // namespace infer
