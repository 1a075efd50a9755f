// The kernels embedded in the program, and the functions that the driver makes of them.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "backends/cuda/context.h"

namespace infer::cuda {

struct Module {
  const char* name;                 ///< "attention", "product_q4_0"
  std::span<const std::byte> code;  ///< a fatbin
};

/// Generated from the kernels in this folder.
std::span<const Module> all_cuda_modules();

/// The module that a kernel is in; null: none. The kernel's name is the module's, or goes on behind
/// it with an underscore.
const Module* module_of(std::string_view kernel);

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

 private:
  struct Kernel {
    CUfunction function = nullptr;
    int64_t shared_bytes = 0;  ///< what its attribute allows
  };
  Result<CUmodule> load(const Module& module);

  Context& context_;
  std::mutex mutex_;
  std::map<const Module*, CUmodule> loaded_;
  std::map<std::string, Kernel> kernels_;
};

}  // namespace infer::cuda
