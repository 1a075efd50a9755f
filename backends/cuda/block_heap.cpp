#include "backends/cuda/block_heap.h"

namespace infer::cuda {
namespace {

/// A block of which only the size counts.
struct CountedBlock {
  int64_t bytes;
  int64_t size() const { return bytes; }
  uint64_t address() const { return 0; }
};

}  // namespace

Result<std::unique_ptr<DriverBlock>> DriverBlock::create(Context& context, int64_t bytes) {
  INFER_CHECK_R(context.enter());
  std::unique_ptr<DriverBlock> made(new DriverBlock(context, bytes));
  INFER_CHECK_R(context.check(context.cu().cuMemAlloc(&made->address_, static_cast<size_t>(bytes)),
                              "cannot allocate"));
  return made;
}

DriverBlock::~DriverBlock() {
  if (address_ != 0 && context_.enter().ok()) (void)context_.cu().cuMemFree(address_);
}

BlockHeap::BlockHeap(Context& context)
    : blocks_([&context](int64_t bytes) { return DriverBlock::create(context, bytes); }, kAlignment,
              kUsualGranule) {}

Result<uint64_t> BlockHeap::allocate(int64_t bytes) {
  INFER_TRY(const gpu::Part<DriverBlock> part, blocks_.allocate(bytes));
  const std::lock_guard lock(mutex_);
  parts_.emplace(part.address(), part);
  return part.address();
}

void BlockHeap::release(uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto it = parts_.find(address);
  blocks_.release(it->second);
  parts_.erase(it);
}

/// Of an empty heap: parts may also go where there is room already.
int64_t BlockHeap::taken_by(std::span<const int64_t> parts) const {
  gpu::Heap<CountedBlock> counted(
      [](int64_t bytes) -> Result<std::unique_ptr<CountedBlock>> {
        return std::make_unique<CountedBlock>(bytes);
      },
      kAlignment, kUsualGranule);
  for (const int64_t bytes : parts) (void)counted.allocate(bytes);
  return counted.held();
}

}  // namespace infer::cuda
