// The slots that a row attends to ("lightning indexer": DeepSeek-V3.2, DeepSeek-AI 2025).
//
// Scores are made page by page, and the best are kept in a buffer of twice their number: when it is
// full, the worse half goes. Among the best of some slots and the best of others are the best of
// all: so a step of few rows cuts the slots of each into a part for each thread. No cut changes
// what is chosen. Of blocks the last slots stand for the others until the best are found. Where
// heads choose for themselves, what is shared out is blocks in place of pages.
#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <span>

#include "backends/cpu/parallel.h"

namespace infer::cpu {
namespace {

constexpr int64_t kHeads = 64;     ///< that are multiplied at once
constexpr int64_t kSplitRows = 4;  ///< steps of so few rows are cut along the slots

/// A slot and its score in one number: the higher, the better.
uint64_t ranked(float score, int64_t slot) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // −0 is 0
  const uint32_t ordered = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{ordered} << 32 | ~static_cast<uint32_t>(slot);
}
int32_t slot_of(uint64_t ranked) { return static_cast<int32_t>(~static_cast<uint32_t>(ranked)); }

/// The `count` best of what was added, in any order.
class Best {
 public:
  /// `at`: room(count) numbers.
  Best(uint64_t* at, int64_t count) : at_(at), count_(count) {}
  static int64_t room(int64_t count) { return 2 * count; }

  void add(uint64_t ranked) {
    if (ranked <= least_) return;
    at_[size_++] = ranked;
    if (size_ == room(count_)) trim();
  }
  std::span<const uint64_t> get() {
    trim();
    return {at_, static_cast<size_t>(size_)};
  }

 private:
  void trim() {
    if (size_ <= count_) return;
    std::nth_element(at_, at_ + count_ - 1, at_ + size_, std::greater<>());
    least_ = at_[count_ - 1];
    size_ = count_;
  }

  uint64_t* at_;
  int64_t count_;
  int64_t size_ = 0;
  uint64_t least_ = 0;
};

/// The sizes of scratch. A thread has floats and a buffer of slots for each list; parts of rows
/// share the rest.
struct Sizes {
  int64_t heads, dim;
  int64_t lists;  ///< of a row
  int64_t best;   ///< blocks of a list that are chosen by their scores

  Sizes(const op::SelectSlots& p, const TensorDesc& q)
      : heads(q.shape[1]), dim(q.shape[0]), lists(p.by_head ? heads : 1), best(p.best()) {}
  int64_t floats() const {
    return kHeads * (dim + kPageTokens) + (kAttentionSlice + 1) * kPageTokens + lists;
  }
  int64_t float_bytes() const { return round_up<int64_t>(floats() * int64_t{sizeof(float)}, 64); }
  int64_t buffer_bytes() const {
    return round_up<int64_t>(lists * Best::room(best) * int64_t{sizeof(uint64_t)}, 64);
  }
  int64_t thread_bytes() const {
    return float_bytes() + buffer_bytes() + round_up<int64_t>(lists * int64_t{sizeof(Best)}, 64);
  }
  /// The best of each part of a list.
  int64_t list_bytes(int64_t threads) const {
    return round_up<int64_t>(threads * (best + 1) * int64_t{sizeof(uint64_t)}, 64);
  }
};

class Selection {
 public:
  explicit Selection(const CpuCall& call)
      : call_(call),
        p_(std::get<op::SelectSlots>(call.params)),
        at_(call.kv_layout.layers[static_cast<size_t>(p_.kv_layer)]),
        pages_(call.pages[static_cast<size_t>(at_.kind)]),
        ops_(*call.vec().attention),
        q_(call.inputs[0]),
        sizes_(p_, q_.desc) {
    std::byte* own = call.scratch + call.thread * sizes_.thread_bytes();
    queries_ = reinterpret_cast<float*>(own);
    scores_ = queries_ + kHeads * sizes_.dim;
    slice_ = scores_ + kHeads * kPageTokens;
    totals_ = slice_ + kAttentionSlice * kPageTokens;
    highest_ = totals_ + kPageTokens;
    buffers_ = reinterpret_cast<uint64_t*>(own + sizes_.float_bytes());
    best_ = reinterpret_cast<Best*>(own + sizes_.float_bytes() + sizes_.buffer_bytes());
    shared_ = call.scratch + call.threads() * sizes_.thread_bytes();
  }

  void run() const {
    if (rows() > kSplitRows || call_.threads() == 1) {
      call_.context.pool->work().share(call_.thread, rows(), false,
                                       [&](int64_t begin, int64_t end) {
                                         for (int64_t r = begin; r < end; ++r) {
                                           choose(r, 0, units_of(r));
                                           for (int64_t list = 0; list < sizes_.lists; ++list)
                                             finish(r, list, best_[list].get());
                                         }
                                       });
      return;
    }
    for (int64_t r = 0; r < rows(); ++r) {
      if (sees_all(r)) continue;
      const Range part = split_range(units_of(r), call_.thread, call_.threads());
      choose(r, part.begin, part.end);
      for (int64_t list = 0; list < sizes_.lists; ++list) {
        const std::span<const uint64_t> best = best_[list].get();
        uint64_t* to = part_of(r, list, call_.thread);
        to[0] = best.size();
        std::ranges::copy(best, to + 1);
      }
    }
    call_.context.pool->barrier();
    for (int64_t i = call_.thread; i < rows() * sizes_.lists; i += call_.threads()) {
      const int64_t r = i / sizes_.lists;
      const int64_t list = i % sizes_.lists;
      Best all(buffers_, sizes_.best);
      for (int64_t t = 0; t < call_.threads() && !sees_all(r); ++t) {
        const uint64_t* from = part_of(r, list, t);
        std::for_each_n(from + 1, from[0], [&](uint64_t one) { all.add(one); });
      }
      finish(r, list, all.get());
    }
  }

 private:
  int64_t rows() const { return q_.desc.shape[2]; }
  int64_t slot(int64_t r) const { return *call_.inputs[2].row<int32_t>(0, r); }
  /// What is shared out of a row: pages, or blocks.
  int64_t units_of(int64_t r) const {
    return p_.by_head ? p_.blocks(slot(r)) : slot(r) / kPageTokens + 1;
  }
  bool sees_all(int64_t r) const { return p_.sees_all(slot(r)); }
  uint64_t* part_of(int64_t r, int64_t list, int64_t thread) const {
    return reinterpret_cast<uint64_t*>(shared_ + (r * sizes_.lists + list) *
                                                     sizes_.list_bytes(call_.threads())) +
           thread * (sizes_.best + 1);
  }

  /// Takes the best slots of units [begin, end) of a row; nothing where it sees all.
  void choose(int64_t r, int64_t begin, int64_t end) const {
    for (int64_t list = 0; list < sizes_.lists; ++list) {
      std::construct_at(best_ + list, buffers_ + list * Best::room(sizes_.best), sizes_.best);
    }
    bool load = true;
    for (int64_t unit = begin; unit < end && !sees_all(r); ++unit) {
      p_.by_head ? add_block(r, unit, load) : add_page(r, unit, load);
    }
  }

  void add_page(int64_t r, int64_t page, bool& load) const {
    const int64_t start = page * kPageTokens;
    const int64_t count = std::min<int64_t>(slot(r) - start + 1, kPageTokens);
    // The first last slot of a block.
    const int64_t first = (start + p_.block) / p_.block * p_.block - 1 - start;
    if (first >= count) return;
    const bool across = at_.k_element > 0;  // keys then lie side by side, wanted or not
    const int64_t begin_at = across ? 0 : first;
    const int64_t step = across ? 1 : p_.block;
    const int64_t keys = (count - 1 - begin_at) / step + 1;
    std::fill_n(totals_, kPageTokens, 0.0f);
    const TensorRef& weights = call_.inputs[1];
    score(r, page, at_.row(start + begin_at), div_ceil<int64_t>(step, at_.tokens),
          {0, static_cast<int32_t>(keys)}, load, [&](int64_t head, const float* scores) {
            const float weight = weights.data == nullptr ? 1.0f : weights.row<float>(0, r)[head];
            for (int64_t j = 0; j < keys; ++j) totals_[j] += weight * std::max(scores[j], 0.0f);
          });
    for (int64_t j = first; j < count; j += p_.block) {
      best_[0].add(ranked(totals_[(j - begin_at) / step], start + j));
    }
  }

  void add_block(int64_t r, int64_t block, bool& load) const {
    const int64_t end = (block + 1) * p_.block;
    std::fill_n(highest_, sizes_.lists, -std::numeric_limits<float>::infinity());
    for (int64_t slot = block * p_.block; slot < end;) {
      const int64_t page = slot / kPageTokens;
      const Visible seen{
          static_cast<int32_t>(slot % kPageTokens),
          static_cast<int32_t>(std::min(end - page * kPageTokens, int64_t{kPageTokens}))};
      score(r, page, 0, 1, seen, load, [&](int64_t head, const float* scores) {
        for (int32_t j = seen.begin; j < seen.end; ++j) {
          highest_[head] = std::max(highest_[head], scores[j]);
        }
      });
      slot = page * kPageTokens + seen.end;
    }
    for (int64_t head = 0; head < sizes_.lists; ++head) {
      best_[head].add(ranked(highest_[head], end - 1));
    }
  }

  /// take(head, scores) of the `seen` keys of a page, from row `first` on in steps of `step`.
  /// `load`: the queries are another row's so far.
  template <typename Take>
  void score(int64_t r, int64_t page, int64_t first, int64_t step, Visible seen, bool& load,
             const Take& take) const {
    const int32_t sequence = *call_.inputs[3].row<int32_t>(0, r);
    const CacheRows keys{
        call_.kv.k_type,
        at_.k_element > 0,
        pages_.page(sequence, page * kPageTokens) + at_.k_offset + first * at_.k_row,
        step * at_.k_row,
        sizes_.dim,
        nullptr};
    Visible visible[kHeads];
    std::fill_n(visible, kHeads, seen);
    for (int64_t head = 0; head < sizes_.heads; head += kHeads) {
      const int64_t heads = std::min(kHeads, sizes_.heads - head);
      if (load || sizes_.heads > kHeads) {
        for (int64_t h = 0; h < heads; ++h) {
          std::copy_n(q_.row<float>(head + h, r), sizes_.dim, queries_ + h * sizes_.dim);
        }
      }
      ops_.scores(queries_, heads, keys, visible, seen, slice_, scores_);
      for (int64_t h = 0; h < heads; ++h) take(head + h, scores_ + h * kPageTokens);
    }
    load = false;
  }

  void finish(int64_t r, int64_t list, std::span<const uint64_t> best) const {
    int32_t* const to = call_.outputs[0].row<int32_t>(list, r);
    if (p_.numbers) return finish_numbers(r, best, to);
    int32_t* end = to;
    int64_t behind = 0;
    if (!sees_all(r)) {
      // The last slots of blocks, then in their places from behind all slots of each.
      std::ranges::transform(best, to, slot_of);
      std::sort(to, to + best.size());
      end = to + std::ssize(best) * p_.block;
      for (int64_t i = std::ssize(best) - 1; i >= 0; --i) {
        const int32_t last = to[i];
        std::iota(to + i * p_.block, to + (i + 1) * p_.block, last - p_.block + 1);
      }
      behind = p_.blocks(slot(r)) * p_.block;
    }
    const int64_t count = slot(r) + 1 - behind;
    std::iota(end, end + count, static_cast<int32_t>(behind));
    std::fill(end + count, to + p_.most(), -1);
  }

  void finish_numbers(int64_t r, std::span<const uint64_t> best, int32_t* to) const {
    int64_t count = std::ssize(best);
    if (sees_all(r)) {
      count = p_.blocks(slot(r));
      std::iota(to, to + count, 0);
    } else {
      std::ranges::transform(best, to, [&](uint64_t one) { return slot_of(one) / p_.block; });
      std::sort(to, to + count);
    }
    std::fill(to + count, to + p_.most(), -1);
  }

  const CpuCall& call_;
  const op::SelectSlots& p_;
  const KvLayerLayout& at_;
  const KvPages& pages_;
  const AttentionOps& ops_;
  const TensorRef& q_;
  const Sizes sizes_;
  float *queries_, *scores_, *slice_, *totals_;
  float* highest_;     ///< by head
  uint64_t* buffers_;  ///< by list
  Best* best_;         ///< by list
  std::byte* shared_;
};

int64_t scratch(const NodeView& node, const CpuContext& context) {
  const TensorDesc& q = node.input(0)->desc;
  const Sizes sizes(std::get<op::SelectSlots>(node.node.params), q);
  const int64_t split = context.threads() > 1 ? std::min(q.shape[2], kSplitRows) : 0;
  return sizes.thread_bytes() * context.threads() +
         split * sizes.lists * sizes.list_bytes(context.threads());
}

void run(const CpuCall& call) { Selection(call).run(); }

}  // namespace

const CpuOp& select_slots_cpu() {
  static const CpuOp op{OpId::SelectSlots, Sharing::whole, always_supported, scratch, run};
  return op;
}

}  // namespace infer::cpu
