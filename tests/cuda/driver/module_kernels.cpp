#include "tests/cuda/driver/module_kernels.h"

#include <map>

namespace infer::test {
namespace {

struct Registered {
  std::map<std::string, std::map<std::string, const emulator::Kernel*>> modules;
  const emulator::Kernel* last = nullptr;
};

Registered& registered() {
  static Registered r;
  return r;
}

}  // namespace

ModuleKernels::ModuleKernels(const char* module) {
  Registered& all = registered();
  for (const emulator::Kernel* k = emulator::first_kernel(); k != all.last; k = k->next) {
    all.modules[module][k->name] = k;
  }
  all.last = emulator::first_kernel();
}

const emulator::Kernel* kernel_of(const std::string& module, const std::string& kernel) {
  const auto& kernels = registered().modules[module];
  const auto it = kernels.find(kernel);
  return it == kernels.end() ? nullptr : it->second;
}

std::vector<const emulator::Kernel*> kernels_of(const std::string& module) {
  std::vector<const emulator::Kernel*> kernels;
  for (const auto& [name, kernel] : registered().modules[module]) kernels.push_back(kernel);
  return kernels;
}

}  // namespace infer::test
