// The launches of a program, in their order, with what each of them waits for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/memory.h"
#include "backends/cuda/modules.h"
#include "backends/cuda/op.h"
#include "backends/gpu/phases.h"

namespace infer::cuda {

struct Launch {
  CUfunction function = nullptr;
  std::string kernel;
  Grid grid;
  int threads = 0;
  int64_t shared_bytes = 0;
  std::vector<std::byte> params;
  std::vector<int32_t> after;  ///< launches that have to be done before
  bool waits = false;          ///< Modules::waits()
};

/// Records launches. A call of nodes waits for the earlier calls whose memory it touches.
class Launches final : public Recorder {
 public:
  Launches(Context& context, Modules& modules) : context_(context), modules_(modules) {}

  /// The launches that follow belong to a new call.
  void begin_call(const gpu::Access& access);
  /// Ok, or the first failure of all that was recorded.
  const Status& status() const { return status_; }

  const std::vector<Launch>& all() const { return launches_; }
  /// The launches of a call are [first_of(call), first_of(call + 1)).
  size_t first_of(size_t call) const {
    return call < calls_.size() ? calls_[call].first : launches_.size();
  }
  /// Whether a call waits for another of this program.
  bool waits(size_t call) const { return !calls_[call].after.empty(); }

  void barrier() override;
  uint64_t keep(std::span<const std::byte> data) override;

 private:
  void add(const std::string& kernel, std::span<const std::byte> params, const Grid& grid,
           int threads, int64_t shared_bytes) override;
  Status check(const std::string& kernel, const Grid& grid, int threads) const;

  struct Call {
    gpu::Access access;
    size_t first = 0;             ///< launch
    std::vector<int32_t> after;   ///< launches that its first launches wait for
    std::vector<int32_t> ends;    ///< launches that stand for its end
    std::vector<bool> ancestors;  ///< calls that are done before it
  };

  Context& context_;
  Modules& modules_;
  std::vector<Launch> launches_;
  std::vector<Call> calls_;
  size_t section_ = 0;                  ///< first launch since the call's last barrier
  std::vector<int32_t> section_after_;  ///< what launches of the section wait for
  std::vector<std::unique_ptr<RawBuffer>> kept_;
  int64_t kept_used_ = 0;  ///< bytes of the last one
  Status status_;
};

}  // namespace infer::cuda
