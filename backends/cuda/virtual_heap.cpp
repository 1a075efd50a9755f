#include "backends/cuda/virtual_heap.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

/// Addresses are reserved for as much more than the device has, since gaps may not fit.
constexpr int64_t kMoreAddresses = 4;

CUmemAllocationProp properties_of(const Gpu& gpu) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {gpu.index}};
  return properties;
}

int64_t round_down(int64_t value, int64_t unit) { return value / unit * unit; }

}  // namespace

Result<std::unique_ptr<Heap>> VirtualHeap::create(Context& context) {
  INFER_CHECK_R(context.enter());
  const DriverFunctions& cu = context.cu();
  std::unique_ptr<VirtualHeap> made(new VirtualHeap(context));
  const CUmemAllocationProp properties = properties_of(context.gpu());
  size_t granule = 0;
  INFER_CHECK_R(context.check(
      cu.cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
      "cannot use virtual memory"));
  made->granule_ = static_cast<int64_t>(std::max<size_t>(granule, kAlignment));
  made->range_ = round_up(kMoreAddresses * context.gpu().memory_total, made->granule_);
  INFER_CHECK_R(context.check(
      cu.cuMemAddressReserve(&made->base_, static_cast<size_t>(made->range_), 0, 0, 0),
      "cannot reserve addresses"));
  made->gaps_.emplace(0, made->range_);
  // A trial: a driver may say that it can, and refuse.
  INFER_TRY(const uint64_t trial, made->allocate(1));
  made->release(trial);
  return made;
}

VirtualHeap::~VirtualHeap() {
  if (base_ == 0 || !context_.enter().ok()) return;
  while (!chunks_.empty()) unmap(chunks_.begin());
  (void)context_.cu().cuMemAddressFree(base_, static_cast<size_t>(range_));
}

VirtualHeap::Chunks::iterator VirtualHeap::chunk_at(int64_t offset) {
  auto it = chunks_.upper_bound(offset);
  if (it == chunks_.begin()) return chunks_.end();
  --it;
  return offset < it->first + it->second.bytes ? it : chunks_.end();
}

template <typename Use>
void VirtualHeap::for_chunks(int64_t begin, int64_t end, const Use& use) {
  for (auto it = chunk_at(begin); it != chunks_.end() && it->first < end;) {
    const auto next = std::next(it);
    use(it);
    it = next;
  }
}

Status VirtualHeap::set_access(int64_t begin, int64_t bytes) {
  std::vector<CUmemAccessDesc> access;
  const auto add = [&](int32_t device) {
    access.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, {device}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  };
  add(context_.gpu().index);
  for (const int32_t peer : context_.peers()) add(peer);
  const auto set = [&](size_t count) {
    return context_.cu().cuMemSetAccess(base_ + static_cast<uint64_t>(begin),
                                        static_cast<size_t>(bytes), access.data(), count);
  };
  CUresult result = set(access.size());
  // Some systems say that GPUs reach each other and refuse it here, such as machines under a
  // hypervisor. The device itself works.
  if (result != CUDA_SUCCESS && access.size() > 1) {
    result = set(1);
    if (result == CUDA_SUCCESS) context_.refuse_peers();
  }
  return context_.check(result, "cannot map memory");
}

Status VirtualHeap::map_chunk(int64_t begin, int64_t bytes) {
  const DriverFunctions& cu = context_.cu();
  const CUmemAllocationProp properties = properties_of(context_.gpu());
  Chunk chunk;
  chunk.bytes = bytes;
  INFER_CHECK(
      context_.check(cu.cuMemCreate(&chunk.handle, static_cast<size_t>(bytes), &properties, 0),
                     "cannot allocate"));
  Status status = context_.check(cu.cuMemMap(base_ + static_cast<uint64_t>(begin),
                                             static_cast<size_t>(bytes), 0, chunk.handle, 0),
                                 "cannot map memory");
  if (!status.ok()) {
    (void)cu.cuMemRelease(chunk.handle);
    return status;
  }
  const auto it = chunks_.emplace(begin, chunk).first;
  status = set_access(begin, bytes);
  if (!status.ok()) unmap(it);
  return status;
}

void VirtualHeap::unmap(Chunks::iterator chunk) {
  const DriverFunctions& cu = context_.cu();
  (void)cu.cuMemUnmap(base_ + static_cast<uint64_t>(chunk->first),
                      static_cast<size_t>(chunk->second.bytes));
  (void)cu.cuMemRelease(chunk->second.handle);
  chunks_.erase(chunk);
}

Status VirtualHeap::map(int64_t begin, int64_t end) {
  Status status;
  int64_t at = round_down(begin, granule_);
  const int64_t last = round_up(end, granule_);
  while (at < last && status.ok()) {
    if (const auto mapped = chunk_at(at); mapped != chunks_.end()) {
      at = mapped->first + mapped->second.bytes;
      continue;
    }
    const auto next = chunks_.lower_bound(at);
    const int64_t until = next == chunks_.end() ? last : std::min(next->first, last);
    status = map_chunk(at, until - at);
    at = until;
  }
  if (!status.ok()) {
    for_chunks(round_down(begin, granule_), end, [&](Chunks::iterator chunk) {
      if (chunk->second.users == 0) unmap(chunk);
    });
  }
  return status;
}

Result<uint64_t> VirtualHeap::allocate(int64_t bytes) {
  bytes = round_up(std::max<int64_t>(bytes, 1), kAlignment);
  INFER_CHECK_R(context_.enter());
  const std::lock_guard lock(mutex_);
  // The lowest one: so what is in use stays together.
  const auto gap = std::ranges::find_if(gaps_, [&](const auto& g) { return g.second >= bytes; });
  if (gap == gaps_.end()) {
    return fail(StatusCode::out_of_memory, "{}: no addresses are left", context_.gpu().name);
  }
  const auto [offset, size] = *gap;
  INFER_CHECK_R(map(offset, offset + bytes));
  for_chunks(offset, offset + bytes, [](Chunks::iterator chunk) { ++chunk->second.users; });
  gaps_.erase(gap);
  if (size > bytes) gaps_.emplace(offset + bytes, size - bytes);
  parts_.emplace(offset, bytes);
  return base_ + static_cast<uint64_t>(offset);
}

void VirtualHeap::release(uint64_t address) {
  const bool entered = context_.enter().ok();
  const std::lock_guard lock(mutex_);
  const auto part = parts_.find(static_cast<int64_t>(address - base_));
  const auto [offset, bytes] = *part;
  parts_.erase(part);
  bool waited = false;
  for_chunks(offset, offset + bytes, [&](Chunks::iterator chunk) {
    if (--chunk->second.users > 0 || !entered) return;
    // Work that comes before may use it still.
    if (!std::exchange(waited, true)) (void)context_.cu().cuStreamSynchronize(context_.stream());
    unmap(chunk);
  });
  auto it = gaps_.emplace(offset, bytes).first;
  if (const auto next = std::next(it); next != gaps_.end() && next->first == offset + bytes) {
    it->second += next->second;
    gaps_.erase(next);
  }
  if (it == gaps_.begin()) return;
  const auto before = std::prev(it);
  if (before->first + before->second != it->first) return;
  before->second += it->second;
  gaps_.erase(it);
}

int64_t VirtualHeap::held() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [offset, chunk] : chunks_) sum += chunk.bytes;
  return sum;
}

int64_t VirtualHeap::taken_by(std::span<const int64_t> parts) const {
  int64_t all = 0;
  for (const int64_t bytes : parts) all += round_up(std::max<int64_t>(bytes, 1), kAlignment);
  return round_up(all, granule_);
}

int64_t VirtualHeap::unused() const {
  const std::lock_guard lock(mutex_);
  const int64_t end = parts_.empty() ? 0 : parts_.rbegin()->first + parts_.rbegin()->second;
  return round_up(end, granule_) - end;
}

}  // namespace infer::cuda
