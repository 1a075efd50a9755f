#include "backends/cuda/launches.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

// Limits of every GPU since compute capability 3.0.
constexpr int64_t kMostBlocksX = INT32_MAX;
constexpr int64_t kMostBlocksYZ = 65535;
constexpr int kMostThreads = 1024;

}  // namespace

void Launches::begin_call(const gpu::Access& access) {
  Call call;
  call.access = access;
  call.first = launches_.size();
  call.ancestors.assign(calls_.size(), false);
  // From the latest on: what an earlier dependency waits for itself need not be named.
  for (size_t c = calls_.size(); c-- > 0;) {
    const Call& other = calls_[c];
    if (call.ancestors[c]) continue;
    gpu::Hazards hazards;
    hazards.add(other.access.reads, other.access.writes);
    if (!hazards.before(access.reads, access.writes)) continue;
    call.ancestors[c] = true;
    for (size_t a = 0; a < other.ancestors.size(); ++a) {
      if (other.ancestors[a]) call.ancestors[a] = true;
    }
    call.after.insert(call.after.end(), other.ends.begin(), other.ends.end());
  }
  std::ranges::sort(call.after);
  const auto repeated = std::ranges::unique(call.after);
  call.after.erase(repeated.begin(), repeated.end());
  call.ends = call.after;  // of a call that launches nothing
  section_ = launches_.size();
  section_after_ = call.after;
  calls_.push_back(std::move(call));
}

void Launches::barrier() {
  if (section_ == launches_.size()) return;
  section_after_ = calls_.back().ends;
  section_ = launches_.size();
}

uint64_t Launches::keep(std::span<const std::byte> data) {
  constexpr int64_t kBlock = 64 << 10;
  if (!status_.ok()) return 0;
  const int64_t bytes = round_up<int64_t>(static_cast<int64_t>(data.size()), 16);
  if (kept_.empty() || kept_used_ + bytes > kept_.back()->size()) {
    Result<std::unique_ptr<RawBuffer>> block = RawBuffer::create(context_, std::max(kBlock, bytes));
    if (!block) {
      status_ = block.error();
      return 0;
    }
    kept_.push_back(*std::move(block));
    kept_used_ = 0;
  }
  const uint64_t at = kept_.back()->address() + static_cast<uint64_t>(kept_used_);
  // What is copied from pageable memory has been taken from there when the call returns.
  status_ = context_.check(
      context_.cu().cuMemcpyHtoDAsync(at, data.data(), data.size(), context_.stream()),
      "cannot copy to the device");
  kept_used_ += bytes;
  return at;
}

Status Launches::check(const std::string& kernel, const Grid& grid, int threads) const {
  const bool fits = grid.x >= 1 && grid.x <= kMostBlocksX && grid.y >= 1 &&
                    grid.y <= kMostBlocksYZ && grid.z >= 1 && grid.z <= kMostBlocksYZ &&
                    threads >= 1 && threads <= kMostThreads;
  if (fits) return {};
  return error(StatusCode::unsupported, "{}: '{}' needs {} × {} × {} blocks of {} threads",
               context_.gpu().name, kernel, grid.x, grid.y, grid.z, threads);
}

void Launches::add(const std::string& kernel, std::span<const std::byte> params, const Grid& grid,
                   int threads, int64_t shared_bytes) {
  if (!status_.ok()) return;
  status_ = check(kernel, grid, threads);
  if (!status_.ok()) return;
  const Result<CUfunction> function = modules_.get(kernel, shared_bytes);
  if (!function) {
    status_ = function.error();
    return;
  }
  const Result<bool> waits = modules_.waits(*function);
  if (!waits) {
    status_ = waits.error();
    return;
  }
  const auto index = static_cast<int32_t>(launches_.size());
  std::vector<int32_t>& ends = calls_.back().ends;
  if (section_ == launches_.size()) ends.clear();
  ends.push_back(index);
  launches_.push_back({*function, kernel, grid, threads, shared_bytes,
                       std::vector<std::byte>(params.begin(), params.end()), section_after_,
                       *waits});
}

}  // namespace infer::cuda
