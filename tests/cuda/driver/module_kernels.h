// Which kernels a module has: each emulated unit ends with a ModuleKernels of its name.
#pragma once

#include <string>
#include <vector>

#include "tests/cuda/emulator/emulator.h"

namespace infer::test {

/// Takes the kernels that were registered since the last one was made, which are those of the same
/// unit: a unit's static objects are made one after another.
struct ModuleKernels {
  explicit ModuleKernels(const char* module);
};

/// Null: the module has no such kernel.
const emulator::Kernel* kernel_of(const std::string& module, const std::string& kernel);

/// All kernels of a module.
std::vector<const emulator::Kernel*> kernels_of(const std::string& module);

}  // namespace infer::test
