#include "backends/cuda/ops/block_pool.h"

#include <algorithm>

#include "backends/cuda/op.h"
#include "backends/cuda/scan.h"
#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const auto& p = call.params<op::BlockPool>();
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(p.kv_layer)];
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  const int64_t sharing = std::min(x.dim(2), kSequencesAtOnce);
  const int64_t offset = at.k_offset + p.at * int64_t{sizeof(float)};
  call.recorder.launch("block_pool",
                       BlockPoolParams{.step = call.step,
                                       .x = x.address,
                                       .gate = call.inputs[1].address,
                                       .y = y.address,
                                       .slots = call.inputs[2].address,
                                       .sequences = call.inputs[3].address,
                                       .width = y.size(0),
                                       .x_stride = x.stride(2),
                                       .gate_stride = call.inputs[1].stride(2),
                                       .y_stride = y.stride(2),
                                       .kind = static_cast<uint32_t>(at.kind),
                                       .offset = static_cast<uint32_t>(offset),
                                       .block = static_cast<uint32_t>(p.block),
                                       .overlaps = p.overlaps ? 1u : 0u,
                                       .sharing = static_cast<uint32_t>(sharing),
                                       .unused = 0},
                       {div_ceil<int64_t>(y.dim(0), kBlockPoolThreads), 1, sharing},
                       kBlockPoolThreads);
}

}  // namespace

const CudaOp& block_pool_cuda() {
  static const CudaOp op{OpId::BlockPool, always_supported, record, nullptr, CacheUse::writes};
  return op;
}

}  // namespace infer::cuda
