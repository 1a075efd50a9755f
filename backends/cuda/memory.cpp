#include "backends/cuda/memory.h"

namespace infer::cuda {

Result<std::unique_ptr<RawBuffer>> RawBuffer::create(Context& context, int64_t bytes) {
  INFER_CHECK_R(context.enter());
  std::unique_ptr<RawBuffer> made(new RawBuffer(context, bytes));
  INFER_CHECK_R(context.check(context.cu().cuMemAlloc(&made->address_, static_cast<size_t>(bytes)),
                              "cannot allocate"));
  return made;
}

RawBuffer::~RawBuffer() {
  if (address_ != 0 && context_.enter().ok()) (void)context_.cu().cuMemFree(address_);
}

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
