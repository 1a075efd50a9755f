// The functions that the driver makes of the embedded kernels.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "backends/cuda/context.h"
#include "backends/cuda/module.h"

namespace infer::cuda {

/// Modules are loaded at the first request for one of their kernels, and kept. Thread-safe.
class Modules {
 public:
  explicit Modules(Context& context) : context_(context) {}
  ~Modules();
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  /// `shared_bytes`: of dynamic shared memory that a launch may ask for. Errors: device,
  /// out_of_memory, unsupported.
  Result<CUfunction> get(const std::string& kernel, int64_t shared_bytes);
  /// Whether the module of this name has kernels for this GPU. Errors: device, out_of_memory.
  Result<bool> has_kernels(std::string_view module);
  /// Whether a kernel waits by itself for the one that it follows (device/block.h): not if its code
  /// was made for older GPUs. Errors: device.
  Result<bool> waits(CUfunction function) const;
  /// Loads all kernels that models with weights of these types may use, so that the memory they
  /// take is known before anything is planned. Errors: device, out_of_memory.
  Status load_for(std::span<const DType> weights);

 private:
  struct Kernel {
    CUfunction function = nullptr;
    int64_t shared_bytes = 0;  ///< what its attribute allows
  };
  Result<CUmodule> load(const Module& module);
  Result<unsigned> count_kernels(CUmodule module) const;
  /// The driver may load kernels with their first launch only.
  Status load_kernels(CUmodule module);

  Context& context_;
  std::mutex mutex_;
  std::map<const Module*, CUmodule> loaded_;
  std::map<std::string, Kernel> kernels_;
};

}  // namespace infer::cuda
