#include "backends/cuda/transfer.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace infer::cuda {

Result<std::unique_ptr<Transfer>> Transfer::create(Context& context) {
  std::unique_ptr<Transfer> made(new Transfer(context));
  for (Slot& slot : made->slots_) {
    INFER_TRY(slot.staging, PinnedBuffer::create(context, gpu::kStagingBytes));
    slot.done = std::make_unique<Event>(context);
    INFER_CHECK_R(slot.done->create(false));
  }
  return made;
}

Status Transfer::upload(uint64_t to, const gpu::StagingFill& fill) {
  const std::lock_guard lock(mutex_);
  INFER_CHECK(context_.enter());
  std::vector<gpu::StagedCopy> parts;
  const auto step = [&](Slot& slot, bool& more) -> Status {
    INFER_CHECK(slot.done->wait());
    parts.clear();
    INFER_CHECK(fill({slot.staging->data(), static_cast<size_t>(gpu::kStagingBytes)}, parts));
    more = !parts.empty();
    if (!more) return {};
    for (const gpu::StagedCopy& part : parts) {
      INFER_CHECK(context_.check(
          context_.cu().cuMemcpyHtoDAsync(to + static_cast<uint64_t>(part.to),
                                          slot.staging->data() + part.staged,
                                          static_cast<size_t>(part.bytes), context_.stream()),
          "cannot copy to the device"));
    }
    return slot.done->record();
  };
  Status status;
  bool more = true;
  for (size_t i = 0; more && status.ok(); i ^= 1) status = step(slots_[i], more);
  for (Slot& slot : slots_) {
    if (Status last = slot.done->wait(); status.ok()) status = std::move(last);
  }
  // Copies that no event stands behind may still read the staging buffers.
  if (!status.ok()) (void)context_.cu().cuStreamSynchronize(context_.stream());
  return status;
}

Status Transfer::write(std::span<const std::byte> from, uint64_t to) {
  int64_t done = 0;
  const auto total = static_cast<int64_t>(from.size());
  return upload(to, [&](std::span<std::byte> out, std::vector<gpu::StagedCopy>& parts) {
    const int64_t bytes = std::min(total - done, gpu::kStagingBytes);
    if (bytes == 0) return Status();
    std::memcpy(out.data(), from.data() + done, static_cast<size_t>(bytes));
    parts.push_back({0, done, bytes});
    done += bytes;
    return Status();
  });
}

Status Transfer::read(uint64_t from, std::span<std::byte> to) {
  const std::lock_guard lock(mutex_);
  INFER_CHECK(context_.enter());
  Slot& slot = slots_[0];
  const auto total = static_cast<int64_t>(to.size());
  for (int64_t done = 0; done < total;) {
    const int64_t bytes = std::min(total - done, gpu::kStagingBytes);
    INFER_CHECK(context_.check(
        context_.cu().cuMemcpyDtoHAsync(slot.staging->data(), from + static_cast<uint64_t>(done),
                                        static_cast<size_t>(bytes), context_.stream()),
        "cannot copy from the device"));
    INFER_CHECK(slot.done->record());
    INFER_CHECK(slot.done->wait());
    std::memcpy(to.data() + done, slot.staging->data(), static_cast<size_t>(bytes));
    done += bytes;
  }
  return {};
}

Status Transfer::copy(uint64_t from, uint64_t to, int64_t bytes) {
  if (bytes == 0) return {};
  const std::lock_guard lock(mutex_);
  INFER_CHECK(context_.enter());
  INFER_CHECK(context_.check(
      context_.cu().cuMemcpyDtoDAsync(to, from, static_cast<size_t>(bytes), context_.stream()),
      "cannot copy within the device"));
  INFER_CHECK(slots_[0].done->record());
  return slots_[0].done->wait();
}

Status Transfer::copy_from(const Context& other, uint64_t from, uint64_t to, int64_t bytes) {
  if (bytes == 0) return {};
  const std::lock_guard lock(mutex_);
  INFER_CHECK(context_.enter());
  INFER_CHECK(
      context_.check(context_.cu().cuMemcpyPeerAsync(to, context_.handle(), from, other.handle(),
                                                     static_cast<size_t>(bytes), context_.stream()),
                     "cannot copy from " + other.gpu().name));
  INFER_CHECK(slots_[0].done->record());
  return slots_[0].done->wait();
}

}  // namespace infer::cuda
