// Measured limits of a GPU.
#pragma once

#include "backends/cuda/modules.h"

namespace infer::cuda {

/// 10⁹ bytes a second, read and written together, of copies within the device; 0 on failure.
double measure_copy_bandwidth(Context& context);

/// 10⁹ multiply-accumulates of int8 a second by instructions for four of them; 0 on failure.
double measure_integer_rate(Context& context, Modules& modules);

/// 10⁹ multiply-accumulates of float16 a second by tensor cores; 0 on failure. By warpgroups where
/// there are kernels for them.
double measure_matrix_rate(Context& context, Modules& modules);

}  // namespace infer::cuda
