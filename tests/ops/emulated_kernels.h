// Kernels of products whose tiles plain code computes (emulated_tiles.h).
#pragma once

#include <span>

#include "backends/cpu/row_kernel.h"

namespace infer::cpu {

struct EmulatedKernel {
  const char* isa;  ///< of everything else in it
  const RowKernel* kernel;
};

std::span<const EmulatedKernel> all_emulated_kernels();

}  // namespace infer::cpu
