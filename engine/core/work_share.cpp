#include "engine/core/work_share.h"

#include <cstddef>
#include <iterator>

#include "engine/core/checked.h"

namespace infer {

Range split_range(int64_t count, int thread, int threads, int64_t grain) {
  const int64_t grains = div_ceil(count, grain);
  const int64_t begin = grains * thread / threads * grain;
  const int64_t end = grains * (thread + 1) / threads * grain;
  return {std::min(begin, count), std::min(end, count)};
}

WorkShare::WorkShare(int threads, std::span<const int> nodes)
    : threads_(threads),
      cursors_(static_cast<size_t>(threads) + 1),
      numbers_(static_cast<size_t>(threads)) {
  const auto node = [&](int thread) {
    return nodes.empty() ? 0 : nodes[static_cast<size_t>(thread)];
  };
  for (int thread = 0; thread < threads; ++thread) {
    const std::ptrdiff_t first = std::ssize(owners_);
    for (int i = 0; i < threads; ++i) owners_.push_back((thread + i) % threads);
    std::stable_partition(owners_.begin() + first, owners_.end(),
                          [&](int owner) { return node(owner) == node(thread); });
  }
}

void WorkShare::begin_job() {
  // A job that failed leaves threads in different calls. Of two numbers the later one is that which
  // is less than 2^31 ahead.
  uint32_t last = numbers_[0].value;
  for (const Number& number : numbers_) {
    if (static_cast<int32_t>(number.value - last) > 0) last = number.value;
  }
  for (Number& number : numbers_) number.value = last;
  // A cursor that was not used for 2^31 calls would seem to be ahead.
  if (last - renewed_ < 1u << 30) return;
  for (Cursor& cursor : cursors_) cursor.at.store(uint64_t{last} << 32 | 0xffffffffu);
  renewed_ = last;
}

int64_t WorkShare::take(int owner, uint32_t number, int64_t all, int64_t step) {
  // Items are handed over by the pool's barriers; here only one of the threads has to get each.
  std::atomic<uint64_t>& cursor = cursors_[static_cast<size_t>(owner)].at;
  uint64_t seen = cursor.load(std::memory_order_relaxed);
  for (;;) {
    const auto ahead = static_cast<int32_t>(static_cast<uint32_t>(seen >> 32) - number);
    if (ahead > 0) return -1;  // all threads of that call have seen this one's end
    const int64_t begin = ahead < 0 ? 0 : static_cast<int64_t>(seen & 0xffffffffu);
    if (begin >= all) return -1;
    const auto next = static_cast<uint64_t>(std::min(begin + step, all));
    if (cursor.compare_exchange_weak(seen, uint64_t{number} << 32 | next,
                                     std::memory_order_relaxed)) {
      return begin;
    }
  }
}

}  // namespace infer
