// How the back end uses a GPU. Tests open devices with other values (CudaOptions). No value makes
// the results of a row depend on its batch or chunk.
#pragma once

#include <cstdint>

namespace infer::cuda {

struct Tuning {
  bool fuse = true;     ///< several nodes become one call where kernels compute them together
  bool integer = true;  ///< activations of products are rounded to int8 if the type has a kernel
  bool near_largest = true;  ///< the device finds the logits that matter (Device::near_largest)
  /// In steps of at most this many rows, several blocks share the keys of a row.
  int64_t split_rows = 16;
};

}  // namespace infer::cuda
