// An open GPU: its primary context and the stream that all its work runs on, in order.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "backends/cuda/driver.h"
#include "backends/cuda/heap.h"

namespace infer::cuda {

/// Thread-safe. Every thread that calls the driver calls enter() first.
class Context {
 public:
  static Result<std::unique_ptr<Context>> create(std::shared_ptr<const Driver> driver,
                                                 const Gpu& gpu);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Gpu& gpu() const { return gpu_; }
  /// Ordinals of the GPUs that may read and write this one's memory.
  std::span<const int32_t> peers() const {
    return peers_refused_ ? std::span<const int32_t>() : gpu_.peers;
  }
  /// The driver has refused them: from now on copies between GPUs go through the host.
  void refuse_peers();
  const DriverFunctions& cu() const { return driver_->cu(); }
  CUstream stream() const { return stream_; }
  CUcontext handle() const { return handle_; }
  /// All memory of the device comes from there.
  Heap& heap() const { return *heap_; }

  /// Makes this the context of the calling thread.
  Status enter() const { return check(cu().cuCtxSetCurrent(handle_), "cannot use the device"); }
  /// The Status of a call of the driver.
  Status check(CUresult result, const std::string& what) const {
    return result == CUDA_SUCCESS ? Status() : failure(cu(), result, gpu_.name, what);
  }
  /// Bytes that can be allocated now; 0 if the driver does not say.
  int64_t memory_free() const;

 private:
  Context(std::shared_ptr<const Driver> driver, const Gpu& gpu)
      : driver_(std::move(driver)), gpu_(gpu) {}

  std::shared_ptr<const Driver> driver_;
  Gpu gpu_;
  CUdevice device_ = 0;
  CUcontext handle_ = nullptr;
  CUstream stream_ = nullptr;
  std::unique_ptr<Heap> heap_;
  std::atomic<bool> peers_refused_ = false;
};

/// An event on a stream of the context.
class Event {
 public:
  explicit Event(Context& context) : context_(context) {}
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// `timed`: it is for milliseconds_since().
  Status create(bool timed);
  /// Records it behind the work that the context's stream has.
  Status record() { return record(context_.stream()); }
  /// The same of another stream of the context.
  Status record(CUstream stream);
  /// What is given to the stream from now on waits until the work before the event is done.
  Status hold(CUstream stream) const;
  /// Waits until the work before it is done. Returns at once if it was not recorded since.
  Status wait();
  /// Milliseconds from another to this one. Both are done.
  Result<double> milliseconds_since(const Event& other) const;

 private:
  Context& context_;
  CUevent handle_ = nullptr;
  bool recorded_ = false;
};

}  // namespace infer::cuda
