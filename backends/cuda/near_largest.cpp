#include "backends/cuda/near_largest.h"

#include <bit>
#include <utility>

#include "backends/cuda/ops/near_largest.h"
#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

/// Values that a block looks at.
constexpr int64_t kPart = 4096;
/// Values of a list. More than this are seldom of use, and all are read then.
constexpr int64_t kCapacity = 1024;
constexpr int64_t kListWords = 1 + 2 * kCapacity;
constexpr int64_t kWord = sizeof(uint32_t);

}  // namespace

Status NearLargest::allocate(int64_t rows, int64_t parts) {
  if (done_ == nullptr) {
    auto made = std::make_unique<Event>(context_);
    INFER_CHECK(made->create(false));
    done_ = std::move(made);
  }
  if (largest_ == nullptr || largest_->size() < rows * parts * kWord) {
    INFER_TRY_S(largest_, RawBuffer::create(context_, rows * parts * kWord));
  }
  const int64_t bytes = rows * kListWords * kWord;
  if (lists_ == nullptr || lists_->size() < bytes) {
    INFER_TRY_S(lists_, RawBuffer::create(context_, bytes));
  }
  if (on_host_ == nullptr || on_host_->size() < bytes) {
    INFER_TRY_S(on_host_, PinnedBuffer::create(context_, bytes));
  }
  return {};
}

Status NearLargest::find(uint64_t values, int64_t columns, int64_t rows, float reach,
                         std::vector<std::vector<IndexedValue>>& found) {
  INFER_CHECK(context_.enter());
  const int64_t parts = div_ceil(columns, kPart);
  INFER_CHECK(allocate(rows, parts));
  const DriverFunctions& cu = context_.cu();
  const CUstream stream = context_.stream();
  const auto bytes = static_cast<size_t>(rows * kListWords * kWord);
  INFER_CHECK(context_.check(cu.cuMemsetD32Async(lists_->address(), 0, bytes / kWord, stream),
                             "cannot clear memory"));
  INFER_TRY_S(const CUfunction kernel, modules_.get("near_largest", 0));
  NearLargestParams params{.values = values,
                           .largest = largest_->address(),
                           .lists = lists_->address(),
                           .columns = static_cast<uint32_t>(columns),
                           .part_columns = static_cast<uint32_t>(kPart),
                           .parts = static_cast<uint32_t>(parts),
                           .capacity = static_cast<uint32_t>(kCapacity),
                           .reach = reach,
                           .listed = 0};
  for (; params.listed <= 1; ++params.listed) {
    void* all[] = {&params};
    INFER_CHECK(context_.check(
        cu.cuLaunchKernel(kernel, static_cast<unsigned>(parts), static_cast<unsigned>(rows), 1,
                          kNearThreads, 1, 1, 0, stream, all, nullptr),
        "cannot launch 'near_largest'"));
  }
  INFER_CHECK(
      context_.check(cu.cuMemcpyDtoHAsync(on_host_->data(), lists_->address(), bytes, stream),
                     "cannot copy from the device"));
  INFER_CHECK(done_->record());
  INFER_CHECK(done_->wait());

  found.resize(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<IndexedValue>& row = found[static_cast<size_t>(r)];
    row.clear();
    const auto* words = reinterpret_cast<const uint32_t*>(on_host_->data()) + r * kListWords;
    if (*words > kCapacity) continue;
    for (uint32_t i = 0; i < *words; ++i) {
      row.push_back(
          {static_cast<int32_t>(words[1 + 2 * i]), std::bit_cast<float>(words[2 + 2 * i])});
    }
  }
  return {};
}

}  // namespace infer::cuda
