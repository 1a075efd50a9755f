#include "backends/cuda/heap.h"

#include "backends/cuda/block_heap.h"
#include "backends/cuda/context.h"
#include "backends/cuda/virtual_heap.h"
#include "engine/core/log.h"

namespace infer::cuda {

Result<std::unique_ptr<Heap>> Heap::create(Context& context) {
  if (context.gpu().virtual_memory) {
    Result<std::unique_ptr<Heap>> made = VirtualHeap::create(context);
    if (made || made.error().code() == StatusCode::out_of_memory) return made;
    // Sandboxes and hypervisors pass a GPU on and refuse this.
    log(LogLevel::warning, "{}; the cache grows by copying", made.error().message());
  }
  return std::make_unique<BlockHeap>(context);
}

}  // namespace infer::cuda
