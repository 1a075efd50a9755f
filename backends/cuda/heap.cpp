#include "backends/cuda/heap.h"

#include "backends/cuda/block_heap.h"
#include "backends/cuda/context.h"
#include "backends/cuda/virtual_heap.h"

namespace infer::cuda {

Result<std::unique_ptr<Heap>> Heap::create(Context& context) {
  if (context.gpu().virtual_memory) return VirtualHeap::create(context);
  return std::make_unique<BlockHeap>(context);
}

}  // namespace infer::cuda
