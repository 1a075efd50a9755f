#include "backends/cuda/op.h"

#include <algorithm>

namespace infer::cuda {

const OpTable<CudaOp>& cuda_ops() {
  static const OpTable<CudaOp> table(all_cuda_ops());
  return table;
}

int64_t Target::scratch_bytes(const Graph& graph, const Node& node, Roles roles) const {
  const CudaOp* op = ops.find(node.op());
  if (op == nullptr || op->scratch == nullptr) return 0;
  return op->scratch({graph, node, gpu}, tuning, roles);
}

int64_t Target::counters(const Segment& segment) const {
  int64_t most = 0;
  for (const Node& node : segment.nodes()) {
    const CudaOp* op = ops.find(node.op());
    if (op == nullptr || op->counters == nullptr) continue;
    most = std::max(most, op->counters({*segment.graph, node, gpu}, tuning));
  }
  return most;
}

CacheUse Target::cache_use(const Node& node) const {
  const CudaOp* op = ops.find(node.op());
  return op == nullptr ? CacheUse::none : op->cache;
}

}  // namespace infer::cuda
