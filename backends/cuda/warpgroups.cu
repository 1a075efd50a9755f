// A kernel that a module has where weights/warpgroup_tile.cu has its: what was compiled for all
// functions of compute capability 9.0 (sm_90a). Others have weights/decoded_tile.cu.
#if defined(INFER_CUDA_EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "backends/cuda/device/block.h"
#include "backends/cuda/rate.h"

namespace infer::cuda {

INFER_KERNEL(warpgroups, RateParams, 32, 1) { static_cast<void>(p); }

}  // namespace infer::cuda
#endif
