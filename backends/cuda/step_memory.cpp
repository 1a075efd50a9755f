#include "backends/cuda/step_memory.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

/// Bytes of the tables of pages that are copied at first. They grow by doubling, so that the graph
/// seldom has to change.
constexpr int64_t kLeastPages = 64;
/// Bytes allocated for them: 4 sequences of 128 Ki tokens, of two kinds. More is not planned for.
constexpr int64_t kPlannedPages = 64 << 10;
constexpr int64_t kCounterBytes = sizeof(uint32_t);

}  // namespace

int64_t StepMemory::planned_bytes(const Segment& segment, int64_t counters) {
  const gpu::StepContents contents(segment, 0);
  return round_up(contents.bytes() + counters * kCounterBytes, kAlignment) +
         (contents.paged() ? kPlannedPages : 0);
}

Result<std::unique_ptr<StepMemory>> StepMemory::create(Context& context, const Segment& segment,
                                                       int64_t counters, uint64_t tables) {
  std::unique_ptr<StepMemory> made(new StepMemory(context, segment, tables));
  const int64_t bytes = made->contents_.bytes();
  INFER_TRY(made->host_, PinnedBuffer::create(context, bytes));
  INFER_TRY(made->on_device_, RawBuffer::create(context, bytes + counters * kCounterBytes));
  if (counters > 0) {
    INFER_CHECK_R(context.enter());
    INFER_CHECK_R(
        context.check(context.cu().cuMemsetD32Async(
                          made->counters(), 0, static_cast<size_t>(counters), context.stream()),
                      "cannot clear memory"));
  }
  if (made->contents_.paged()) INFER_CHECK_R(made->grow(kLeastPages));
  return made;
}

StepMemory::Copy StepMemory::pages() const {
  if (host_pages_ == nullptr) return {};
  return {host_pages_->data(), device_pages_->address(), page_bytes_};
}

Status StepMemory::grow(int64_t needed) {
  const auto bytes = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(needed)));
  const int64_t size = std::max(bytes, kLeastPages);
  if (host_pages_ == nullptr || host_pages_->size() < size) {
    const int64_t allocated = std::max(size, kPlannedPages);
    INFER_TRY_S(auto host, PinnedBuffer::create(context_, allocated));
    INFER_TRY_S(device_pages_, RawBuffer::create(context_, allocated));
    host_pages_ = std::move(host);
  }
  page_bytes_ = size;
  return {};
}

Status StepMemory::write(const Bindings& bindings) {
  const int64_t needed = contents_.page_bytes(bindings);
  if (needed > 0) INFER_CHECK(grow(needed));
  if (host_pages_ == nullptr) {
    contents_.write(bindings, host_->data(), nullptr, 0);
  } else {
    contents_.write(bindings, host_->data(), host_pages_->data(), device_pages_->address());
  }
  return {};
}

}  // namespace infer::cuda
