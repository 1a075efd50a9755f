// Measured limits of a GPU.
#pragma once

#include "backends/cuda/modules.h"

namespace infer::cuda {

/// 10⁹ bytes a second, read and written together, of copies within the device; 0 on failure.
double measure_copy_bandwidth(Context& context);

/// 10⁹ multiply-accumulates of int8 a second by instructions for four of them; 0 on failure.
double measure_integer_rate(Context& context, Modules& modules);

/// 10⁹ multiply-accumulates of float16 a second by tensor cores (PTX mma.sync; from compute
/// capability 9.0 on there are faster ones); 0 on failure.
double measure_matrix_rate(Context& context, Modules& modules);

}  // namespace infer::cuda
