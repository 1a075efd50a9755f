#include "gui/host/nvml.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "platform/library.h"

namespace infer::gui {
namespace {

using Code = int;      // nvmlReturn_t
using Device = void*;  // nvmlDevice_t

constexpr Code kSuccess = 0;
constexpr unsigned kMostDevices = 64;
constexpr unsigned kNameBytes = 96;   // NVML_DEVICE_NAME_V2_BUFFER_SIZE
constexpr int kTemperatureOfGpu = 0;  // NVML_TEMPERATURE_GPU
constexpr int kClockOfCores = 0;      // NVML_CLOCK_GRAPHICS
constexpr int kClockOfMemory = 2;     // NVML_CLOCK_MEM

// nvmlClocksThrottleReason…
constexpr unsigned long long kPowerCap = 0x4, kSlowdown = 0x8, kThermal = 0x20, kHardThermal = 0x40,
                             kPowerBrake = 0x80;

struct Utilization {  // nvmlUtilization_t, percent
  unsigned gpu, memory;
};
struct MemoryInfo {  // nvmlMemory_t, bytes
  unsigned long long total, free, used;
};

}  // namespace

struct Nvml::Functions {
  Code (*init)() = nullptr;
  Code (*shutdown)() = nullptr;
  Code (*count)(unsigned*) = nullptr;
  Code (*device)(unsigned, Device*) = nullptr;
  // Those that may be absent.
  Code (*name)(Device, char*, unsigned) = nullptr;
  Code (*utilization)(Device, Utilization*) = nullptr;
  Code (*memory)(Device, MemoryInfo*) = nullptr;
  Code (*temperature)(Device, int, unsigned*) = nullptr;
  Code (*power)(Device, unsigned*) = nullptr;
  Code (*energy)(Device, unsigned long long*) = nullptr;
  Code (*clock)(Device, int, unsigned*) = nullptr;
  Code (*throttle)(Device, unsigned long long*) = nullptr;
};

std::unique_ptr<Nvml> Nvml::open(const char* library) {
  void* const opened = platform::open_library({library});
  if (opened == nullptr) return nullptr;
  std::unique_ptr<Nvml> nvml(new Nvml());
  nvml->functions_ = std::make_unique<Functions>();
  Functions& f = *nvml->functions_;
  const auto find = [&](auto& function, const char* name) {
    using Function = std::remove_reference_t<decltype(function)>;
    function = reinterpret_cast<Function>(platform::find_function(opened, name));
  };
  find(f.init, "nvmlInit_v2");
  find(f.shutdown, "nvmlShutdown");
  find(f.count, "nvmlDeviceGetCount_v2");
  find(f.device, "nvmlDeviceGetHandleByIndex_v2");
  find(f.name, "nvmlDeviceGetName");
  find(f.utilization, "nvmlDeviceGetUtilizationRates");
  find(f.memory, "nvmlDeviceGetMemoryInfo");
  find(f.temperature, "nvmlDeviceGetTemperature");
  find(f.power, "nvmlDeviceGetPowerUsage");
  find(f.energy, "nvmlDeviceGetTotalEnergyConsumption");
  find(f.clock, "nvmlDeviceGetClockInfo");
  // Later drivers call the same function so.
  find(f.throttle, "nvmlDeviceGetCurrentClocksEventReasons");
  if (f.throttle == nullptr) find(f.throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
  const bool whole = f.init && f.shutdown && f.count && f.device;
  if (!whole || f.init() != kSuccess) {
    nvml->functions_.reset();
    return nullptr;
  }
  return nvml;
}

Nvml::~Nvml() {
  if (functions_ != nullptr) (void)functions_->shutdown();
}

void Nvml::read(std::vector<GpuSample>& gpus) const {
  const Functions& f = *functions_;
  unsigned count = 0;
  if (f.count(&count) != kSuccess) return;
  for (unsigned i = 0; i < std::min(count, kMostDevices); ++i) {
    Device device = nullptr;
    if (f.device(i, &device) != kSuccess) continue;
    GpuSample gpu;
    const auto number = [](const auto function, Device of, auto... which) -> std::optional<double> {
      unsigned value = 0;
      if (function == nullptr || function(of, which..., &value) != kSuccess) return std::nullopt;
      return value;
    };
    const auto scaled = [](std::optional<double> value, double unit) {
      if (value) *value *= unit;
      return value;
    };
    char name[kNameBytes] = {};
    const bool named = f.name != nullptr && f.name(device, name, kNameBytes) == kSuccess;
    gpu.name = named ? std::string(name, strnlen(name, kNameBytes)) : "NVIDIA GPU";
    Utilization used{};
    if (f.utilization != nullptr && f.utilization(device, &used) == kSuccess) {
      gpu.busy = std::min(used.gpu, 100u) * 0.01;
    }
    MemoryInfo memory{};
    if (f.memory != nullptr && f.memory(device, &memory) == kSuccess) {
      gpu.memory_used = static_cast<int64_t>(memory.used);
      gpu.memory_total = static_cast<int64_t>(memory.total);
    }
    gpu.celsius = number(f.temperature, device, kTemperatureOfGpu);
    gpu.watts = scaled(number(f.power, device), 1e-3);
    gpu.core_mhz = number(f.clock, device, kClockOfCores);
    gpu.memory_mhz = number(f.clock, device, kClockOfMemory);
    unsigned long long whole = 0;
    if (f.energy != nullptr && f.energy(device, &whole) == kSuccess) {
      gpu.joules = static_cast<double>(whole) * 1e-3;
    }
    if (f.throttle != nullptr && f.throttle(device, &whole) == kSuccess) {
      gpu.throttled = (whole & (kThermal | kHardThermal)) != 0               ? "too hot"
                      : (whole & (kPowerCap | kPowerBrake | kSlowdown)) != 0 ? "power limit"
                                                                             : "";
    }
    gpus.push_back(std::move(gpu));
  }
}

}  // namespace infer::gui
