#include "backends/cuda/context.h"

#include <utility>

#include "engine/core/log.h"

namespace infer::cuda {

Result<std::unique_ptr<Context>> Context::create(std::shared_ptr<const Driver> driver,
                                                 const Gpu& gpu) {
  INFER_CHECK_R(gpu.usable);
  std::unique_ptr<Context> made(new Context(std::move(driver), gpu));
  const DriverFunctions& cu = made->cu();
  INFER_CHECK_R(made->check(cu.cuDeviceGet(&made->device_, gpu.index), "cannot open the device"));
  INFER_CHECK_R(made->check(cu.cuDevicePrimaryCtxRetain(&made->handle_, made->device_),
                            "cannot open the device"));
  INFER_CHECK_R(made->enter());
  INFER_CHECK_R(made->check(cu.cuStreamCreate(&made->stream_, CU_STREAM_NON_BLOCKING),
                            "cannot make a stream"));
  INFER_TRY(made->heap_, Heap::create(*made));
  return made;
}

Context::~Context() {
  if (handle_ == nullptr) return;
  heap_.reset();
  if (stream_ != nullptr && enter().ok()) {
    (void)cu().cuStreamSynchronize(stream_);
    (void)cu().cuStreamDestroy(stream_);
  }
  (void)cu().cuCtxSetCurrent(nullptr);
  (void)cu().cuDevicePrimaryCtxRelease(device_);
}

void Context::refuse_peers() {
  if (peers_refused_.exchange(true)) return;
  log(LogLevel::warning,
      "{}: the driver maps no memory for other GPUs: copies to other GPUs go through the host",
      gpu_.name);
}

int64_t Context::memory_free() const {
  size_t free = 0;
  size_t total = 0;
  if (!enter().ok() || cu().cuMemGetInfo(&free, &total) != CUDA_SUCCESS) return 0;
  return static_cast<int64_t>(free);
}

Event::~Event() {
  if (handle_ == nullptr || !context_.enter().ok()) return;
  (void)wait();
  (void)context_.cu().cuEventDestroy(handle_);
}

Status Event::create(bool timed) {
  INFER_CHECK(context_.enter());
  return context_.check(
      context_.cu().cuEventCreate(&handle_, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING),
      "cannot make an event");
}

Status Event::record(CUstream stream) {
  INFER_CHECK(
      context_.check(context_.cu().cuEventRecord(handle_, stream), "cannot record an event"));
  recorded_ = true;
  return {};
}

Status Event::hold(CUstream stream) const {
  return context_.check(context_.cu().cuStreamWaitEvent(stream, handle_, CU_EVENT_WAIT_DEFAULT),
                        "cannot wait for an event");
}

Status Event::wait() {
  if (!recorded_) return {};
  INFER_CHECK(context_.enter());
  INFER_CHECK(context_.check(context_.cu().cuEventSynchronize(handle_), "waiting for work"));
  recorded_ = false;
  return {};
}

Result<double> Event::milliseconds_since(const Event& other) const {
  float milliseconds = 0;
  INFER_CHECK_R(
      context_.check(context_.cu().cuEventElapsedTime(&milliseconds, other.handle_, handle_),
                     "cannot read times"));
  return static_cast<double>(milliseconds);
}

}  // namespace infer::cuda
