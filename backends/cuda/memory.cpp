#include "backends/cuda/memory.h"

namespace infer::cuda {

Result<std::unique_ptr<RawBuffer>> RawBuffer::create(Context& context, int64_t bytes) {
  INFER_TRY(const uint64_t address, context.heap().allocate(bytes));
  return std::unique_ptr<RawBuffer>(new RawBuffer(context.heap(), address, bytes));
}

RawBuffer::~RawBuffer() { heap_.release(address_); }

Result<std::unique_ptr<PinnedBuffer>> PinnedBuffer::create(Context& context, int64_t bytes) {
  INFER_CHECK_R(context.enter());
  std::unique_ptr<PinnedBuffer> made(new PinnedBuffer(context, bytes));
  void* data = nullptr;
  INFER_CHECK_R(context.check(context.cu().cuMemHostAlloc(&data, static_cast<size_t>(bytes), 0),
                              "cannot allocate memory of the host"));
  made->data_ = static_cast<std::byte*>(data);
  return made;
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr && context_.enter().ok()) (void)context_.cu().cuMemFreeHost(data_);
}

}  // namespace infer::cuda
