// The objects of the driver for tests, and what is known of them.
#pragma once

#include <cuda.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/call_failures.h"
#include "tests/cuda/driver/control.h"
#include "tests/cuda/emulator/emulator.h"

struct CUctx_st {
  int device = 0;
  int retained = 0;
  CUresult fault = CUDA_SUCCESS;  ///< what all calls return from then on
  int64_t allocated = 0;          ///< bytes of the device, without modules
  int64_t module_bytes = 0;       ///< of modules whose kernels were loaded
  infer::emulator::Memory memory;
};

struct CUstream_st {
  CUcontext context = nullptr;
  std::deque<std::function<CUresult()>> work;  ///< that was not done yet
};

struct CUevent_st {
  CUcontext context = nullptr;
  bool timed = false;
  CUstream stream = nullptr;  ///< on which it was recorded last
  bool pending = false;
  std::shared_ptr<bool> reached;  ///< whether the stream has come to where it was recorded last
  int64_t time_ns = 0;
};

struct CUmod_st {
  CUcontext context = nullptr;
  std::string name;
  std::vector<CUfunction> functions;
  int64_t bytes = 0;    ///< of its code
  bool loaded = false;  ///< its kernels were
};

struct CUfunc_st {
  CUmodule module = nullptr;
  const infer::emulator::Kernel* kernel = nullptr;
  unsigned dynamic_shared = 48 << 10;  ///< bytes that a launch may ask for
  bool chosen = false;  ///< dynamic_shared was: then it does not count the kernel's own arrays
};

namespace infer::test {

struct KernelLaunch {
  CUfunction function = nullptr;
  emulator::Launch shape;
  std::vector<std::byte> params;
};

}  // namespace infer::test

struct CUgraphNode_st {
  CUgraph graph = nullptr;
  size_t index = 0;
  std::vector<size_t> after;  ///< indices in the graph
  bool is_copy = false;
  bool early = false;  ///< it may begin before the one before it has ended
  CUDA_MEMCPY3D copy{};
  infer::test::KernelLaunch launch;
};

struct CUgraph_st {
  CUcontext context = nullptr;
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};

struct CUgraphExec_st {
  CUcontext context = nullptr;
  /// As they are now; a launch keeps those of its time.
  std::shared_ptr<const std::vector<CUgraphNode_st>> nodes;
  CUgraph made_from = nullptr;
};

namespace infer::test {

/// What the driver takes from a device at a time.
inline constexpr int64_t kGranule = int64_t{2} << 20;

/// Physical memory of a device.
struct Physical {
  CUcontext context = nullptr;
  int64_t bytes = 0;
  bool mapped = false;
};

struct Allocation {
  CUcontext context = nullptr;
  int64_t bytes = 0;
  bool pinned = false;
  Physical* mapped = nullptr;  ///< what is mapped there; null: it is no reserved address
};

class State final : public DriverControl {
 public:
  static State& get();

  void set_gpus(std::vector<TestGpu> gpus) override;
  void set_version(int version) override { version_ = version; }
  void set_seed(uint64_t seed) override { seed_ = seed; }
  void leave_out(const std::string& kernels, int line) override {
    without_barrier_ = kernels;
    barrier_line_ = line;
  }
  void fail_after(int64_t before) override;
  void lose() override { lost_ = true; }
  int64_t calls() const override { return failures_.calls(); }
  std::vector<int64_t> places(bool last) const override { return failures_.places(last); }
  std::string failed() const override { return failures_.failed(); }
  int64_t live() const override;
  int64_t pinned_bytes() const override;
  /// Of the host's own memory: some of these bytes are pinned, but not all together.
  bool pinned_in_part(const void* address, int64_t bytes) const;
  int64_t launches() const override { return launches_; }
  int64_t peer_copies() const override { return peer_copies_; }
  int64_t refusals() const override { return refusals_; }
  GraphCounts last_graph() const override { return last_graph_; }
  int64_t free_bytes(int gpu) const override;
  void set_listener(std::function<void(const std::string&)> listener) override;

  /// What a call of the function comes to before it does anything. `fails_with`: how it may fail.
  [[gnu::always_inline]] CUresult begin(const char* function, CUresult fails_with) {
    if (failures_.fails(function)) {
      if (fails_with == CUDA_ERROR_LAUNCH_FAILED) lost_ = true;
      return fails_with;
    }
    return lost_ ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
  }

  /// Notes a mistake in the use of a function and returns the code for it.
  CUresult mistake(const std::string& what, CUresult code = CUDA_ERROR_INVALID_VALUE);

  // Objects by kind: a handle that is not live is a mistake.
  template <typename T, typename... Args>
  T* make(Args&&... args) {
    auto made = std::make_unique<T>(T{std::forward<Args>(args)...});
    T* const handle = made.get();
    objects_.emplace(handle, std::shared_ptr<T>(std::move(made)));
    return handle;
  }
  bool is_live(const void* handle) const { return objects_.contains(handle); }
  void destroy(const void* handle) { objects_.erase(handle); }

  /// The context of the calling thread; null, and a mistake, if it has none or that is not live.
  CUcontext current(const char* function);
  /// The allocation that holds [address, address + bytes); null: there is none.
  const Allocation* find(const void* address, int64_t bytes) const;

  /// Whether the device copies from there by itself.
  bool is_pinned(const void* address, int64_t bytes) const;

  /// Runs what a stream, or all streams of a context, have to do. The context's fault if it has
  /// one.
  CUresult run(CUstream stream);
  CUresult run_all(CUcontext context);
  /// The next thing that a stream has to do.
  CUresult run_one(CUstream stream);
  CUresult run_kernel(CUcontext context, const KernelLaunch& launch);
  CUresult run_graph(CUcontext context, const std::vector<CUgraphNode_st>& nodes);
  /// Whether no stream of a context has anything to do.
  bool is_idle(CUcontext context) const;
  /// Copies now. A mistake if a side is not what it should be.
  CUresult copy(const char* function, void* to, const void* from, int64_t bytes);

  std::recursive_mutex mutex;
  bool started = false;
  std::vector<TestGpu> gpus{TestGpu()};
  std::map<int, CUcontext> contexts;              ///< by device
  std::map<const void*, Allocation> allocations;  ///< by address
  std::map<const void*, Allocation> registered;   ///< the host's own memory, by address
  std::set<CUstream> streams;
  int version() const { return version_; }
  void count_launch() { ++launches_; }
  void count_graph(const std::vector<CUgraphNode_st>& nodes);
  void count_peer_copy() { ++peer_copies_; }
  /// What a call comes to that the GPU is made to refuse.
  CUresult refuse(CUresult with) {
    ++refusals_;
    return with;
  }
  std::map<const void*, int64_t> reserved;  ///< addresses: bytes by their beginning

 private:
  CallFailures failures_;
  bool lost_ = false;
  int64_t refusals_ = 0;
  int version_ = CUDA_VERSION;
  uint64_t seed_ = 1;
  std::string without_barrier_;  ///< kernels
  int barrier_line_ = 0;
  uint64_t drawn_ = 0;  ///< seeds of launches and graphs so far
  int64_t launches_ = 0;
  int64_t peer_copies_ = 0;
  GraphCounts last_graph_;
  std::map<const void*, std::shared_ptr<void>> objects_;
  std::function<void(const std::string&)> listener_;
};

/// The context that a thread made current.
CUcontext& current_of_thread();

}  // namespace infer::test
