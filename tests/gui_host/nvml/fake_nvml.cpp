// Stands for the library of NVIDIA's driver. It has two GPUs: one that tells everything, and one
// that tells its name alone. The variable FAKE_NVML_BROKEN makes the driver fail.
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kSuccess = 0, kNotSupported = 3, kDriverNotLoaded = 9;
int gpus[2] = {0, 1};

int which(void* device) { return *static_cast<int*>(device); }

template <typename T>
int tell(void* device, T* to, T value) {
  if (which(device) != 0) return kNotSupported;
  *to = value;
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return std::getenv("FAKE_NVML_BROKEN") == nullptr ? kSuccess : kDriverNotLoaded;
}
int nvmlShutdown() { return kSuccess; }
int nvmlDeviceGetCount_v2(unsigned* count) {
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
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* to) {
  return tell(device, to, 5'000'500ull);
}
int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* to) {
  return tell(device, to, clock == 0 ? 2520u : clock == 2 ? 10501u : 0u);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* to) {
  return tell(device, to, 0x24ull);  // power cap and heat
}
}
