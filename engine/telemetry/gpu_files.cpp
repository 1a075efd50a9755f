#include "engine/telemetry/gpu_files.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <system_error>

#include "engine/telemetry/small_files.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

constexpr double kPercent = 0.01;
constexpr double kMilli = 1e-3;
constexpr double kMicro = 1e-6;

/// Whether a folder of /sys/class/drm is a card: "card0", not "card0-DP-1".
bool is_card(const fs::path& folder) {
  const std::string name = folder.filename().string();
  constexpr std::string_view kPrefix = "card";
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
         name.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos;
}

/// The name of the driver: where the link "driver" leads.
std::string driver_of(const fs::path& device, const char* otherwise) {
  std::error_code failed;
  const fs::path target = fs::read_symlink(device / "driver", failed);
  return failed ? otherwise : target.filename().string();
}

/// Where it is on the bus, by the folder that "device" leads to; empty if that has another name.
std::string pci_of(const fs::path& device) {
  std::error_code failed;
  const std::string name = fs::weakly_canonical(device, failed).filename().string();
  constexpr std::string_view kForm = "0000:00:00.0";
  return failed || name.size() != kForm.size() || name[4] != ':' || name[7] != ':' ? "" : name;
}

/// The first of these files that has a number, times `unit`.
std::optional<double> first_of(const fs::path& folder, std::initializer_list<const char*> names,
                               double unit) {
  for (const char* name : names) {
    if (const std::optional<double> value = small_scaled(folder / name, unit)) return value;
  }
  return std::nullopt;
}

/// The sensors of a device, of which most have one folder.
fs::path sensors_of(const fs::path& device) {
  const std::vector<fs::path> folders = entries_of(device / "hwmon");
  return folders.empty() ? device / "hwmon" : folders.front();
}

void read_sensors(const fs::path& sensors, GpuTelemetry& gpu) {
  gpu.celsius = first_of(sensors, {"temp1_input", "temp2_input"}, kMilli);
  gpu.watts = first_of(sensors, {"power1_average", "power1_input"}, kMicro);
  gpu.watts_limit = first_of(sensors, {"power1_cap", "power1_max"}, kMicro);
  gpu.joules = first_of(sensors, {"energy1_input"}, kMicro);
}

/// Whether any of these files holds another number than 0.
bool any_of(const fs::path& folder, const std::string& prefix,
            std::initializer_list<const char*> names) {
  return std::ranges::any_of(
      names, [&](const char* name) { return small_number(folder / (prefix + name)).value_or(0); });
}

/// What i915 and xe say of the clocks: `status` is 0 if nothing slows it down.
std::optional<std::string> throttled_by(const fs::path& folder, const char* status,
                                        const std::string& prefix) {
  const std::optional<int64_t> slow = small_number(folder / status);
  if (!slow) return std::nullopt;
  if (*slow == 0) return "";
  const bool power = any_of(folder, prefix, {"pl1", "pl2", "pl4"});
  const bool hot = any_of(folder, prefix, {"thermal", "prochot", "vr_thermalert"});
  return power && hot ? "power limit, too hot" : hot ? "too hot" : "power limit";
}

}  // namespace

std::optional<double> GpuFiles::rate(const fs::path& file,
                                     std::chrono::steady_clock::time_point now) {
  const std::optional<int64_t> value = small_number(file);
  if (!value) return std::nullopt;
  const auto [before, first] = counters_.try_emplace(file, Counter{now, *value});
  const Counter last = before->second;
  before->second = {now, *value};
  const double seconds = std::chrono::duration<double>(now - last.time).count();
  if (first || seconds <= 0 || *value < last.value) return std::nullopt;
  return static_cast<double>(*value - last.value) / seconds;
}

void GpuFiles::read_amd(const fs::path& device, GpuTelemetry& gpu) const {
  gpu.busy = small_scaled(device / "gpu_busy_percent", kPercent);
  gpu.memory_busy = small_scaled(device / "mem_busy_percent", kPercent);
  gpu.memory_used = small_number(device / "mem_info_vram_used");
  gpu.memory_total = small_number(device / "mem_info_vram_total");
  const fs::path sensors = sensors_of(device);
  read_sensors(sensors, gpu);
  gpu.core_mhz = small_scaled(sensors / "freq1_input", kMicro);
  gpu.memory_mhz = small_scaled(sensors / "freq2_input", kMicro);
}

void GpuFiles::read_intel(const fs::path& card, std::chrono::steady_clock::time_point now,
                          GpuTelemetry& gpu) {
  const fs::path device = card / "device";
  const fs::path i915 = card / "gt/gt0";
  const fs::path xe = device / "tile0/gt0";
  const fs::path sensors = sensors_of(device);
  read_sensors(sensors, gpu);
  const std::optional<double> microwatts = rate(sensors / "energy1_input", now);
  if (!gpu.watts && microwatts) gpu.watts = *microwatts * kMicro;
  gpu.core_mhz = first_of(card, {"gt/gt0/rps_act_freq_mhz", "gt_act_freq_mhz"}, 1);
  if (!gpu.core_mhz) gpu.core_mhz = small_scaled(xe / "freq0/act_freq", 1);
  // What is told are the milliseconds in which it slept.
  std::optional<double> asleep = rate(i915 / "rc6_residency_ms", now);
  if (!asleep) asleep = rate(xe / "gtidle/idle_residency_ms", now);
  if (asleep) gpu.busy = std::clamp(1 - *asleep * kMilli, 0.0, 1.0);
  gpu.throttled = throttled_by(i915, "throttle_reason_status", "throttle_reason_");
  if (!gpu.throttled) gpu.throttled = throttled_by(xe / "freq0/throttle", "status", "reason_");
}

void GpuFiles::read(std::chrono::steady_clock::time_point now, std::vector<GpuTelemetry>& gpus) {
  for (const fs::path& card : entries_of(sys_ / "class/drm")) {
    if (!is_card(card)) continue;
    const fs::path device = card / "device";
    const std::string vendor = small_file(device / "vendor").value_or("");
    GpuTelemetry gpu;
    if (vendor == "0x1002") {
      gpu.name = driver_of(device, "amdgpu");
      read_amd(device, gpu);
    } else if (vendor == "0x8086") {
      gpu.name = driver_of(device, "i915");
      read_intel(card, now, gpu);
    } else {
      continue;
    }
    gpu.name += " (" + card.filename().string() + ")";
    gpu.pci = pci_of(device);
    gpus.push_back(std::move(gpu));
  }
}

}  // namespace infer
