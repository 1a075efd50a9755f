#include "backends/cuda/driver.h"

#include <algorithm>
#include <mutex>
#include <tuple>

#include "engine/core/platform/library.h"

namespace infer::cuda {
namespace {

struct State {
  std::mutex mutex;
  std::string path = "libcuda.so.1";
  std::shared_ptr<const Driver> driver;
};

State& state() {
  static State s;
  return s;
}

/// 12040 → "12.4"
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// What a context does not survive.
bool is_fault(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC: return true;
    default: return false;
  }
}

bool is_lost(CUresult result) {
  switch (result) {
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_SYSTEM_NOT_READY: return true;
    default: return false;
  }
}

}  // namespace

void use_driver_library(const std::string& library) {
  const std::lock_guard lock(state().mutex);
  state().path = library;
  state().driver.reset();
}

Result<std::shared_ptr<const Driver>> Driver::get() {
  const std::lock_guard lock(state().mutex);
  if (state().driver == nullptr) {
    INFER_TRY(state().driver, open(state().path));
  }
  return state().driver;
}

Result<std::shared_ptr<const Driver>> Driver::open(const std::string& library) {
  std::shared_ptr<Driver> made(new Driver());
  INFER_CHECK_R(made->find_functions(library));
  INFER_CHECK_R(made->start());
  return made;
}

Status Driver::find_functions(const std::string& library) {
  void* const opened = os::open_library(library.c_str());
  if (opened == nullptr) {
    return error(StatusCode::device,
                 "cuda: the library of NVIDIA's driver, {}, was not found; is a driver installed?",
                 library);
  }
  const auto find = [&](auto& function, const char* name) {
    using Function = std::remove_reference_t<decltype(function)>;
    function = reinterpret_cast<Function>(os::find_function(opened, name));
    return function != nullptr;
  };
  const char* missing = nullptr;
#define INFER_NAME_(name) #name
#define INFER_NAME(name) INFER_NAME_(name)
#define INFER_FIND(name) \
  if (!find(cu_.name, INFER_NAME(name)) && missing == nullptr) missing = INFER_NAME(name);
  INFER_CUDA_FUNCTIONS(INFER_FIND)
#undef INFER_FIND
#undef INFER_NAME
#undef INFER_NAME_
  // A driver that lacks a function is too old: its version says more than the function's name.
  int version = 0;
  const bool known =
      cu_.cuDriverGetVersion != nullptr && cu_.cuDriverGetVersion(&version) == CUDA_SUCCESS;
  if (known && version < kOldestDriver) {
    return error(StatusCode::device,
                 "cuda: the driver is too old: it supports CUDA {}; this build needs {} or later",
                 version_text(version), version_text(kOldestDriver));
  }
  if (missing == nullptr) return {};
  return error(StatusCode::device, "cuda: the driver has no function '{}': it is too old", missing);
}

Status Driver::start() {
  const CUresult started = cu_.cuInit(0);
  if (started == CUDA_ERROR_NO_DEVICE) return {};
  if (started != CUDA_SUCCESS) return failure(cu_, started, "cuda", "the driver does not start");
  return find_gpus();
}

Status Driver::find_gpus() {
  int count = 0;
  if (const CUresult found = cu_.cuDeviceGetCount(&count); found != CUDA_SUCCESS) {
    return failure(cu_, found, "cuda", "cannot list devices");
  }
  for (int32_t i = 0; i < count; ++i) {
    Gpu gpu;
    gpu.index = i;
    gpu.name = fmt::format("cuda:{}", i);
    CUdevice device = 0;
    CUresult result = cu_.cuDeviceGet(&device, i);
    const auto ask = [&](CUdevice_attribute attribute) {
      int value = 0;
      const CUresult asked = cu_.cuDeviceGetAttribute(&value, attribute, device);
      if (result == CUDA_SUCCESS) result = asked;
      return value;
    };
    gpu.capability = 10 * ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                     ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    gpu.multiprocessors = ask(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    gpu.shared_bytes = ask(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    gpu.multiprocessor_shared = ask(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    gpu.integrated = ask(CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0;
    gpu.pci =
        fmt::format("{:04x}:{:02x}:{:02x}.0", ask(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
                    ask(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID), ask(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
    gpu.cooperative = ask(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) != 0;
    gpu.virtual_memory = ask(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0;
    size_t bytes = 0;
    if (result == CUDA_SUCCESS) result = cu_.cuDeviceTotalMem(&bytes, device);
    gpu.memory_total = static_cast<int64_t>(bytes);
    char name[256] = {};
    if (result == CUDA_SUCCESS) result = cu_.cuDeviceGetName(name, sizeof(name) - 1, device);
    if (result != CUDA_SUCCESS) return failure(cu_, result, gpu.name, "cannot describe the device");
    const std::string capability =
        fmt::format("compute capability {}.{}", gpu.capability / 10, gpu.capability % 10);
    gpu.description = fmt::format("{}, {}", name, capability);
    if (gpu.capability < kOldestCapability) {
      gpu.usable = error(StatusCode::unsupported, "{}: {} has {}; 7.5 or later is needed", gpu.name,
                         name, capability);
    }
    gpus_.push_back(std::move(gpu));
  }
  find_peers();
  return {};
}

/// A pair that the driver does not tell about has no direct way.
void Driver::find_peers() {
  for (Gpu& gpu : gpus_) {
    for (const Gpu& other : gpus_) {
      int reaches = 0;
      if (&gpu == &other || !gpu.usable.ok() || !other.usable.ok()) continue;
      const CUresult asked = cu_.cuDeviceCanAccessPeer(&reaches, other.index, gpu.index);
      if (asked == CUDA_SUCCESS && reaches != 0) gpu.peers.push_back(other.index);
    }
  }
}

DeviceInfo info_of(const Gpu& gpu) {
  DeviceInfo info;
  info.name = gpu.name;
  info.description = gpu.description;
  info.pci = gpu.pci;
  info.memory_total = gpu.memory_total;
  info.memory_free = gpu.memory_total;
  if (gpu.integrated) info.memory = MemoryKind::shared;
  info.usable = gpu.usable;
  if (!gpu.usable.ok()) return info;
  info.limits = {{"compute_capability", gpu.capability},
                 {"multiprocessors", gpu.multiprocessors},
                 {"shared_memory_bytes", gpu.shared_bytes}};
  return info;
}

int32_t best_gpu(std::span<const Gpu> gpus) {
  const Gpu* best = nullptr;
  const auto key = [](const Gpu& gpu) {
    return std::tuple(!gpu.integrated, gpu.multiprocessors * int64_t{gpu.capability},
                      gpu.memory_total);
  };
  for (const Gpu& gpu : gpus) {
    if (gpu.usable.ok() && (best == nullptr || key(gpu) > key(*best))) best = &gpu;
  }
  return best == nullptr ? -1 : best->index;
}

Status failure(const DriverFunctions& cu, CUresult result, const std::string& device,
               const std::string& what) {
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    return error(StatusCode::out_of_memory, "{}: {}: out of memory", device, what);
  }
  if (result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
    return error(
        StatusCode::device,
        "{}: {}: this build has no machine code for this GPU, and the driver is too old to "
        "make it; update the driver to one that supports CUDA {}",
        device, what, version_text(CUDA_VERSION));
  }
  const char* name = nullptr;
  if (cu.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown";
  if (is_lost(result)) {
    return error(StatusCode::device, "{}: {}: the device was lost ({}); its driver may say why",
                 device, what, name);
  }
  if (is_fault(result)) {
    return error(StatusCode::device, "{}: {}: a kernel faulted ({})", device, what, name);
  }
  return error(StatusCode::device, "{}: {} ({})", device, what, name);
}

}  // namespace infer::cuda
