// NVIDIA's driver and its GPUs. Its library is opened at run time. If there is none, there are no
// devices, and the failure says why.
#pragma once

#include <cuda.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/gpu.h"
#include "engine/backend/device.h"
#include "engine/core/status.h"

namespace infer::cuda {

/// The driver's functions that are used. cuda.h gives some of them the names of newer versions.
#define INFER_CUDA_FUNCTIONS(F)     \
  F(cuInit)                         \
  F(cuDriverGetVersion)             \
  F(cuGetErrorName)                 \
  F(cuDeviceGetCount)               \
  F(cuDeviceGet)                    \
  F(cuDeviceGetName)                \
  F(cuDeviceGetAttribute)           \
  F(cuDeviceTotalMem)               \
  F(cuDeviceCanAccessPeer)          \
  F(cuDevicePrimaryCtxRetain)       \
  F(cuDevicePrimaryCtxRelease)      \
  F(cuCtxSetCurrent)                \
  F(cuMemGetInfo)                   \
  F(cuMemAlloc)                     \
  F(cuMemFree)                      \
  F(cuMemGetAllocationGranularity)  \
  F(cuMemAddressReserve)            \
  F(cuMemAddressFree)               \
  F(cuMemCreate)                    \
  F(cuMemRelease)                   \
  F(cuMemMap)                       \
  F(cuMemUnmap)                     \
  F(cuMemSetAccess)                 \
  F(cuMemHostAlloc)                 \
  F(cuMemFreeHost)                  \
  F(cuMemHostRegister)              \
  F(cuMemHostUnregister)            \
  F(cuMemcpyHtoDAsync)              \
  F(cuMemcpyDtoHAsync)              \
  F(cuMemcpyDtoDAsync)              \
  F(cuMemcpyPeerAsync)              \
  F(cuMemsetD32Async)               \
  F(cuStreamCreate)                 \
  F(cuStreamDestroy)                \
  F(cuStreamSynchronize)            \
  F(cuStreamWaitEvent)              \
  F(cuEventCreate)                  \
  F(cuEventDestroy)                 \
  F(cuEventRecord)                  \
  F(cuEventSynchronize)             \
  F(cuEventElapsedTime)             \
  F(cuModuleLoadData)               \
  F(cuModuleUnload)                 \
  F(cuModuleGetFunction)            \
  F(cuModuleGetFunctionCount)       \
  F(cuModuleEnumerateFunctions)     \
  F(cuFuncLoad)                     \
  F(cuFuncGetAttribute)             \
  F(cuFuncSetAttribute)             \
  F(cuLaunchKernel)                 \
  F(cuGraphCreate)                  \
  F(cuGraphDestroy)                 \
  F(cuGraphAddKernelNode)           \
  F(cuGraphAddMemcpyNode)           \
  F(cuGraphAddDependencies)         \
  F(cuGraphInstantiate)             \
  F(cuGraphExecMemcpyNodeSetParams) \
  F(cuGraphExecDestroy)             \
  F(cuGraphUpload)                  \
  F(cuGraphLaunch)

struct DriverFunctions {
#define INFER_MEMBER(name) decltype(&::name) name = nullptr;
  INFER_CUDA_FUNCTIONS(INFER_MEMBER)
#undef INFER_MEMBER
};

/// The oldest compute capability that kernels are made for, times ten.
inline constexpr int32_t kOldestCapability = 75;
/// The oldest driver, by the version of CUDA that it supports, that takes this build's machine
/// code. A GPU for which there is none needs a driver of CUDA_VERSION, which makes it from PTX.
inline constexpr int kOldestDriver = CUDA_VERSION / 1000 * 1000;

class Driver {
 public:
  /// The driver of this process, opened at the first call. Errors: device if there is no library,
  /// it is too old, or it does not work.
  static Result<std::shared_ptr<const Driver>> get();
  /// Of this library.
  static Result<std::shared_ptr<const Driver>> open(const std::string& library);

  const DriverFunctions& cu() const { return cu_; }
  /// All GPUs, usable or not, by the driver's ordinal.
  std::span<const Gpu> gpus() const { return gpus_; }

 private:
  Driver() = default;
  Status find_functions(const std::string& library);
  Status start();
  Status find_gpus();
  void find_peers();

  DriverFunctions cu_;
  std::vector<Gpu> gpus_;
};

/// For tests: get() opens this library from the next call on. Call it while no device is open.
void use_driver_library(const std::string& library);

/// What users see of a GPU. The caller sets memory_free.
DeviceInfo info_of(const Gpu& gpu);

/// The index of the usable GPU that is likely the fastest; −1: none is usable.
int32_t best_gpu(std::span<const Gpu> gpus);

/// The Status of a call of the driver that failed: out_of_memory or device.
Status failure(const DriverFunctions& cu, CUresult result, const std::string& device,
               const std::string& what);

}  // namespace infer::cuda
