// Blocks of kernels that compute each element of a result for itself.
#pragma once

namespace infer::cuda {

inline constexpr int kElementThreads = 128;

}  // namespace infer::cuda
