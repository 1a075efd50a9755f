#include "backends/cuda/op.h"

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

CacheUse Target::cache_use(const Node& node) const {
  const CudaOp* op = ops.find(node.op());
  return op == nullptr ? CacheUse::none : op->cache;
}

}  // namespace infer::cuda
