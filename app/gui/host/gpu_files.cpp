#include "gui/host/gpu_files.h"

#include <algorithm>
#include <initializer_list>
#include <system_error>

#include "gui/host/system_files.h"

namespace infer::gui {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kAmd = 0x1002;
constexpr int64_t kIntel = 0x8086;

/// "0x1002" and a line end.
int64_t vendor_of(const fs::path& device) {
  const std::optional<std::string> text = read_system_text(device / "vendor");
  if (!text) return 0;
  return *text == "0x1002\n" || *text == "0x1002"   ? kAmd
         : *text == "0x8086\n" || *text == "0x8086" ? kIntel
                                                    : 0;
}

/// The name of the driver: where the link "driver" leads.
std::string driver_of(const fs::path& device, const char* otherwise) {
  std::error_code failed;
  const fs::path target = fs::read_symlink(device / "driver", failed);
  return failed ? otherwise : target.filename().string();
}

/// The first of these files that has a number, times `unit`.
std::optional<double> first_of(const fs::path& folder, std::initializer_list<const char*> names,
                               double unit) {
  for (const char* name : names) {
    if (const std::optional<double> value = read_scaled(folder / name, unit)) return value;
  }
  return std::nullopt;
}

/// The sensors of a device, of which most have one folder.
fs::path sensors_of(const fs::path& device) {
  const std::vector<fs::path> folders = numbered(device / "hwmon", "hwmon");
  return folders.empty() ? device / "hwmon" : folders.front();
}

void read_sensors(const fs::path& sensors, GpuSample& gpu) {
  gpu.celsius = first_of(sensors, {"temp1_input", "temp2_input"}, 1e-3);
  gpu.watts = first_of(sensors, {"power1_average", "power1_input"}, 1e-6);
  gpu.joules = first_of(sensors, {"energy1_input"}, 1e-6);
}

}  // namespace

std::optional<double> GpuFiles::rate(const fs::path& file,
                                     std::chrono::steady_clock::time_point now) {
  const std::optional<int64_t> value = read_number(file);
  if (!value) return std::nullopt;
  const auto [before, first] = counters_.try_emplace(file, Counter{now, *value});
  const Counter last = before->second;
  before->second = {now, *value};
  const double seconds = std::chrono::duration<double>(now - last.time).count();
  if (first || seconds <= 0 || *value < last.value) return std::nullopt;
  return static_cast<double>(*value - last.value) / seconds;
}

void GpuFiles::read_amd(const fs::path& device, GpuSample& gpu) const {
  gpu.busy = read_scaled(device / "gpu_busy_percent", 0.01);
  gpu.memory_used = read_number(device / "mem_info_vram_used");
  gpu.memory_total = read_number(device / "mem_info_vram_total");
  const fs::path sensors = sensors_of(device);
  read_sensors(sensors, gpu);
  gpu.core_mhz = read_scaled(sensors / "freq1_input", 1e-6);
  gpu.memory_mhz = read_scaled(sensors / "freq2_input", 1e-6);
}

void GpuFiles::read_intel(const fs::path& card, std::chrono::steady_clock::time_point now,
                          GpuSample& gpu) {
  const fs::path device = card / "device";
  const fs::path i915 = card / "gt/gt0";
  const fs::path xe = device / "tile0/gt0";
  const fs::path sensors = sensors_of(device);
  read_sensors(sensors, gpu);
  const std::optional<double> microwatts = rate(sensors / "energy1_input", now);
  if (!gpu.watts && microwatts) gpu.watts = *microwatts * 1e-6;
  gpu.core_mhz = first_of(card, {"gt/gt0/rps_act_freq_mhz", "gt_act_freq_mhz"}, 1);
  if (!gpu.core_mhz) gpu.core_mhz = read_scaled(xe / "freq0/act_freq", 1);
  // What is told are the milliseconds in which it slept.
  std::optional<double> asleep = rate(i915 / "rc6_residency_ms", now);
  if (!asleep) asleep = rate(xe / "gtidle/idle_residency_ms", now);
  if (asleep) gpu.busy = std::clamp(1 - *asleep * 1e-3, 0.0, 1.0);
  std::optional<int64_t> slow = read_number(i915 / "throttle_reason_status");
  bool hot = read_number(i915 / "throttle_reason_thermal").value_or(0) != 0;
  if (!slow) {
    slow = read_number(xe / "freq0/throttle/status");
    hot = read_number(xe / "freq0/throttle/reason_thermal").value_or(0) != 0;
  }
  if (slow) gpu.throttled = *slow == 0 ? "" : hot ? "too hot" : "power limit";
}

void GpuFiles::read(std::chrono::steady_clock::time_point now, std::vector<GpuSample>& gpus) {
  for (const fs::path& card : numbered(root_ / "sys/class/drm", "card")) {
    const fs::path device = card / "device";
    const int64_t vendor = vendor_of(device);
    GpuSample gpu;
    if (vendor == kAmd) {
      gpu.name = driver_of(device, "amdgpu");
      read_amd(device, gpu);
    } else if (vendor == kIntel) {
      gpu.name = driver_of(device, "i915");
      read_intel(card, now, gpu);
    } else {
      continue;
    }
    gpu.name += " (" + card.filename().string() + ")";
    gpus.push_back(std::move(gpu));
  }
}

}  // namespace infer::gui
