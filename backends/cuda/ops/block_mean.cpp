#include "backends/cuda/ops/block_mean.h"

#include <algorithm>

#include "backends/cuda/op.h"
#include "backends/cuda/scan.h"
#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const auto& p = call.params<op::BlockMean>();
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(p.kv_layer)];
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  const int64_t sharing = std::min(x.dim(2), kSequencesAtOnce);
  call.recorder.launch("block_mean",
                       BlockMeanParams{.step = call.step,
                                       .x = x.address,
                                       .y = y.address,
                                       .slots = call.inputs[1].address,
                                       .sequences = call.inputs[2].address,
                                       .width = x.size(0),
                                       .x_stride = x.stride(2),
                                       .y_stride = y.stride(2),
                                       .kind = static_cast<uint32_t>(at.kind),
                                       .offset = static_cast<uint32_t>(at.k_offset),
                                       .block = static_cast<uint32_t>(p.block),
                                       .sharing = static_cast<uint32_t>(sharing),
                                       .unused = 0},
                       {div_ceil<int64_t>(x.dim(0), kBlockMeanThreads), 1, sharing},
                       kBlockMeanThreads);
}

}  // namespace

const CudaOp& block_mean_cuda() {
  static const CudaOp op{OpId::BlockMean, always_supported, record, nullptr, CacheUse::writes};
  return op;
}

}  // namespace infer::cuda
