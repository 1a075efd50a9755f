// Stands for the library of NVIDIA's driver. It has two GPUs: one that tells everything, and one
// that tells its name and its place alone. Of the variable FAKE_NVML "broken" makes the driver
// fail, "uncounted" the number of GPUs, and a number says why the first one is slowed down.
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kSuccess = 0, kNotSupported = 3, kDriverNotLoaded = 9, kGpuIsLost = 15;
int gpus[2] = {0, 1};

int which(void* device) { return *static_cast<int*>(device); }

bool set_to(const char* value) {
  const char* const set = std::getenv("FAKE_NVML");
  return set != nullptr && std::strcmp(set, value) == 0;
}

template <typename T>
int tell(void* device, T* to, T value) {
  if (set_to("lost")) return kGpuIsLost;
  if (which(device) != 0) return kNotSupported;
  *to = value;
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return set_to("broken") ? kDriverNotLoaded : kSuccess; }
int nvmlShutdown() { return kSuccess; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  if (set_to("uncounted")) return kDriverNotLoaded;
  *count = 3;  // the third one cannot be reached
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index > 1) return kNotSupported;
  *device = &gpus[index];
  return kSuccess;
}
int nvmlDeviceGetName(void* device, char* name, unsigned size) {
  // No zero at the end where there is no room for one.
  std::memset(name, 'N', size);
  if (which(device) == 0) std::strncpy(name, "NVIDIA Fake 9000", size);
  return kSuccess;
}
struct Pci {
  char legacy_id[16];
  unsigned domain, bus, device, ids, subsystem_ids;
  char id[32];
};
int nvmlDeviceGetPciInfo_v3(void* device, Pci* to) {
  *to = {};
  to->bus = which(device) == 0 ? 1 : 0xc3;
  std::strncpy(to->id, which(device) == 0 ? "00000000:01:00.0" : "00000000:C3:00.0", 32);
  return kSuccess;
}
struct Utilization {
  unsigned gpu, memory;
};
int nvmlDeviceGetUtilizationRates(void* device, Utilization* to) {
  return tell(device, to, Utilization{42, 7});
}
struct Memory {
  unsigned long long total, free, used;
};
int nvmlDeviceGetMemoryInfo(void* device, Memory* to) {
  return tell(device, to, Memory{24ull << 30, 4ull << 30, 20ull << 30});
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* to) {
  return sensor == 0 ? tell(device, to, 61u) : kNotSupported;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* to) { return tell(device, to, 215'500u); }
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* to) {
  return tell(device, to, 450'000u);
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* to) {
  return tell(device, to, 5'000'500ull);
}
int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* to) {
  return tell(device, to, clock == 0 ? 2520u : clock == 2 ? 10501u : 0u);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* to) {
  const char* const set = std::getenv("FAKE_NVML");
  char* end = nullptr;
  const unsigned long long bits = set == nullptr ? 0 : std::strtoull(set, &end, 16);
  // Unless told otherwise, power cap and heat.
  return tell(device, to, end != set && set != nullptr ? bits : 0x24ull);
}
}
