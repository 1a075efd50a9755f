// The kernels embedded in the program.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

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

}  // namespace infer::cuda
