// How the back end uses a GPU. Tests open devices with other values (CudaOptions). No value makes
// the results of a row depend on its batch or chunk.
#pragma once

#include <cstdint>

namespace infer::cuda {

struct Tuning {
  bool fuse = true;     ///< several nodes become one call where kernels compute them together
  bool integer = true;  ///< activations of products are rounded to int8 if the type has a kernel
  /// Tokens of prompts have a numeric class of their own (Roles): what tensor cores compute in
  /// float16 or bfloat16. Others than attention and products of such weights are alike in both.
  bool matrices = true;
  /// Products of decoded weights by warpgroups (weights/warpgroup_tile.cu) where the GPU has
  /// kernels for them: all of them, or none, since sums within tensor cores may differ.
  bool warpgroups = true;
  /// A kernel that follows one other may begin before that one has ended, where GPUs can do that.
  bool early = true;
  bool near_largest = true;  ///< the device finds the logits that matter (Device::near_largest)
  /// Products of at least so many columns share the weights that they read (weights/tile.cu). More
  /// than 1: a norm may be fused with one.
  int64_t tile_columns = 64;
  /// In steps of at most this many rows, several blocks share the keys of a row. More rows have
  /// blocks enough without.
  int64_t split_rows = 32;
};

}  // namespace infer::cuda
