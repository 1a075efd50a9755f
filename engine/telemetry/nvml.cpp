#include "engine/telemetry/nvml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "engine/core/platform/library.h"

namespace infer {
namespace {

using Code = int;  // nvmlReturn_t
using Handle = void*;

constexpr Code kSuccess = 0;
constexpr unsigned kMostDevices = 64;
constexpr unsigned kNameBytes = 96;   // NVML_DEVICE_NAME_V2_BUFFER_SIZE
constexpr int kTemperatureOfGpu = 0;  // NVML_TEMPERATURE_GPU
constexpr int kClockOfCores = 0;      // NVML_CLOCK_GRAPHICS
constexpr int kClockOfMemory = 2;     // NVML_CLOCK_MEM
constexpr double kPercent = 0.01;
constexpr double kMilli = 1e-3;

/// nvmlClocksEventReason… What is missing here, such as an idle GPU's clocks, slows nothing down.
constexpr struct {
  unsigned long long bits;
  const char* reason;
} kThrottling[] = {
    {0x02, "clocks are set lower"},    // ApplicationsClocksSetting
    {0x04 | 0x80, "power limit"},      // SwPowerCap, HwPowerBrakeSlowdown
    {0x10, "another GPU's clocks"},    // SyncBoost
    {0x20 | 0x40, "too hot"},          // SwThermalSlowdown, HwThermalSlowdown
    {0x100, "clocks of the display"},  // DisplayClockSetting
};
/// HwSlowdown says that one of the reasons of hardware holds, which newer drivers name as well.
constexpr unsigned long long kHardwareSlowdown = 0x08;

struct Utilization {  // nvmlUtilization_t, percent
  unsigned gpu, memory;
};
struct MemoryInfo {  // nvmlMemory_t, bytes
  unsigned long long total, free, used;
};
struct PciInfo {  // nvmlPciInfo_t
  char legacy_id[16];
  unsigned domain, bus, device, ids, subsystem_ids;
  char id[32];
};

std::string throttled_by(unsigned long long bits) {
  std::vector<std::string_view> reasons;
  for (const auto& known : kThrottling) {
    if ((bits & known.bits) != 0) reasons.emplace_back(known.reason);
  }
  if (reasons.empty() && (bits & kHardwareSlowdown) != 0) reasons.emplace_back("its hardware");
  return fmt::format("{}", fmt::join(reasons, ", "));
}

}  // namespace

struct Nvml::Functions {
  Code (*init)() = nullptr;
  Code (*shutdown)() = nullptr;
  Code (*count)(unsigned*) = nullptr;
  Code (*device)(unsigned, Handle*) = nullptr;
  // Those that may be absent.
  Code (*name)(Handle, char*, unsigned) = nullptr;
  Code (*pci)(Handle, PciInfo*) = nullptr;
  Code (*utilization)(Handle, Utilization*) = nullptr;
  Code (*memory)(Handle, MemoryInfo*) = nullptr;
  Code (*temperature)(Handle, int, unsigned*) = nullptr;
  Code (*power)(Handle, unsigned*) = nullptr;
  Code (*power_limit)(Handle, unsigned*) = nullptr;
  Code (*energy)(Handle, unsigned long long*) = nullptr;
  Code (*clock)(Handle, int, unsigned*) = nullptr;
  Code (*throttle)(Handle, unsigned long long*) = nullptr;
};

std::unique_ptr<Nvml> Nvml::open(const std::string& library) {
  void* const opened = library.empty() ? nullptr : os::open_library(library.c_str());
  if (opened == nullptr) return nullptr;
  auto functions = std::make_unique<Functions>();
  Functions& f = *functions;
  const auto find = [&](auto& function, const char* name) {
    using Function = std::remove_reference_t<decltype(function)>;
    function = reinterpret_cast<Function>(os::find_function(opened, name));
  };
  find(f.init, "nvmlInit_v2");
  find(f.shutdown, "nvmlShutdown");
  find(f.count, "nvmlDeviceGetCount_v2");
  find(f.device, "nvmlDeviceGetHandleByIndex_v2");
  find(f.name, "nvmlDeviceGetName");
  find(f.pci, "nvmlDeviceGetPciInfo_v3");
  find(f.utilization, "nvmlDeviceGetUtilizationRates");
  find(f.memory, "nvmlDeviceGetMemoryInfo");
  find(f.temperature, "nvmlDeviceGetTemperature");
  find(f.power, "nvmlDeviceGetPowerUsage");
  find(f.power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  find(f.energy, "nvmlDeviceGetTotalEnergyConsumption");
  find(f.clock, "nvmlDeviceGetClockInfo");
  // Later drivers call the same function so.
  find(f.throttle, "nvmlDeviceGetCurrentClocksEventReasons");
  if (f.throttle == nullptr) find(f.throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
  const bool whole = f.init && f.shutdown && f.count && f.device;
  if (!whole || f.init() != kSuccess) return nullptr;
  std::unique_ptr<Nvml> nvml(new Nvml());
  nvml->functions_ = std::move(functions);
  unsigned count = 0;
  if (f.count(&count) != kSuccess) count = 0;
  for (unsigned i = 0; i < std::min(count, kMostDevices); ++i) {
    Handle handle = nullptr;
    if (f.device(i, &handle) == kSuccess) nvml->gpus_.push_back({i, handle});
  }
  return nvml;
}

Nvml::~Nvml() {
  if (functions_ != nullptr) (void)functions_->shutdown();
}

std::optional<int64_t> Nvml::millijoules(const Gpu& gpu) const {
  unsigned long long value = 0;
  const auto energy = functions_->energy;
  if (energy == nullptr || energy(gpu.handle, &value) != kSuccess) return std::nullopt;
  return static_cast<int64_t>(value & INT64_MAX);
}

GpuTelemetry Nvml::read(const Gpu& gpu) const {
  const Functions& f = *functions_;
  const auto asks = [&](const auto function, auto... arguments) {
    return function != nullptr && function(gpu.handle, arguments...) == kSuccess;
  };
  const auto number = [&](const auto function, double unit, auto... which) {
    unsigned value = 0;
    return asks(function, which..., &value) ? std::optional(value * unit) : std::nullopt;
  };
  GpuTelemetry told;
  char name[kNameBytes] = {};
  told.name =
      asks(f.name, name, kNameBytes) ? std::string(name, strnlen(name, kNameBytes)) : "NVIDIA GPU";
  PciInfo pci{};
  if (asks(f.pci, &pci)) {
    told.pci = fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
  }
  Utilization used{};
  if (asks(f.utilization, &used)) {
    told.busy = std::min(used.gpu, 100u) * kPercent;
    told.memory_busy = std::min(used.memory, 100u) * kPercent;
  }
  MemoryInfo memory{};
  if (asks(f.memory, &memory)) {
    told.memory_used = static_cast<int64_t>(memory.used);
    told.memory_total = static_cast<int64_t>(memory.total);
  }
  told.celsius = number(f.temperature, 1, kTemperatureOfGpu);
  told.watts = number(f.power, kMilli);
  told.watts_limit = number(f.power_limit, kMilli);
  told.core_mhz = number(f.clock, 1, kClockOfCores);
  told.memory_mhz = number(f.clock, 1, kClockOfMemory);
  if (const std::optional<int64_t> energy = millijoules(gpu)) {
    told.joules = static_cast<double>(*energy) * kMilli;
  }
  unsigned long long reasons = 0;
  if (asks(f.throttle, &reasons)) told.throttled = throttled_by(reasons);
  return told;
}

}  // namespace infer
