// A compiled segment: a graph of the driver that is made once and launched for every step. Its
// first nodes copy what changes from step to step (counts, tokens, slots, tables, where pages lie)
// from pinned memory. Kernels that do not depend on each other may run at once.
#pragma once

#include <memory>

#include "backends/cuda/memory.h"
#include "backends/cuda/modules.h"
#include "backends/cuda/op.h"

namespace infer::cuda {

/// What `target` refers to outlives the program. `tables`: gpu/tables.h. Errors: device,
/// out_of_memory, unsupported.
Result<std::unique_ptr<Program>> compile_program(Context& context, Modules& modules,
                                                 const Target& target, uint64_t tables,
                                                 const CompileSpec& spec);

}  // namespace infer::cuda
