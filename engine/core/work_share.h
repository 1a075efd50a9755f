// Work that the threads of a pool share as they get to it: a slower thread does less of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace infer {

/// The part of `count` items that belongs to `thread` of `threads`, in whole multiples of `grain`.
struct Range {
  int64_t begin;
  int64_t end;
};
Range split_range(int64_t count, int thread, int threads, int64_t grain = 1);

/// All threads of a pool call share() or queue() equally often and in the same order within a job,
/// each time with the same count. None of them waits for another.
///
/// A thread has a cursor in its own part of the items. It takes what it needs there, and then what
/// others have not yet begun of theirs, first of those at its memory node. Cursors have the number
/// of the call that they are in: so threads may be in different calls, and nothing has to be put
/// back between them.
class WorkShare {
 public:
  /// `nodes`: of each thread; empty: all are at one.
  explicit WorkShare(int threads, std::span<const int> nodes = {});

  /// Before a job, while no thread is in one.
  void begin_job();

  /// Calls fn(begin, end) for parts of [0, count), 0 ≤ count < 2^31, until none is left. Every item
  /// is in one part of one thread. `small`: the work takes microseconds; a thread does its own part
  /// alone, since looking for others' would take as long.
  template <typename Fn>
  void share(int thread, int64_t count, bool small, Fn&& fn) {
    share_runs(thread, 1, count, small,
               [&](int64_t, int64_t begin, int64_t end) { fn(begin, end); });
  }

  /// The same for `runs` runs of [0, count): calls fn(run, begin, end). What belongs to a thread is
  /// its part of each run. runs·count < 2^31.
  template <typename Fn>
  void share_runs(int thread, int64_t runs, int64_t count, bool small, Fn&& fn) {
    if (threads_ == 1 || small) {
      const Range own = split_range(count, thread, threads_);
      for (int64_t r = 0; r < runs && own.begin < own.end; ++r) fn(r, own.begin, own.end);
      return;
    }
    const uint32_t number = ++numbers_[static_cast<size_t>(thread)].value;
    for (int i = 0; i < threads_; ++i) {
      const int owner = owners_[static_cast<size_t>(thread * threads_ + i)];
      const Range part = split_range(count, owner, threads_);
      const int64_t width = part.end - part.begin;
      const int64_t all = runs * width;
      const int64_t step = std::max<int64_t>(all / kParts, 1);
      for (;;) {
        int64_t at = take(owner, number, all, step);
        if (at < 0) break;
        for (const int64_t end = std::min(at + step, all); at < end;) {
          const int64_t first = at % width;
          const int64_t taken = std::min(end - at, width - first);
          fn(at / width, part.begin + first, part.begin + first + taken);
          at += taken;
        }
      }
    }
  }

  /// Items that are taken one by one, in their order. A thread goes on until it has one that is
  /// not there.
  class Queue {
   public:
    /// The next item; −1: others have gone through all of them.
    int64_t next() {
      return work_.take(work_.threads_, number_, std::numeric_limits<int32_t>::max(), 1);
    }

   private:
    friend class WorkShare;
    Queue(WorkShare& work, uint32_t number) : work_(work), number_(number) {}
    WorkShare& work_;
    uint32_t number_;
  };
  Queue queue(int thread) { return {*this, ++numbers_[static_cast<size_t>(thread)].value}; }

 private:
  static constexpr int64_t kParts = 8;  ///< of what belongs to a thread

  /// Takes `step` of an owner's `all` items, or those that are left, at its cursor, and returns the
  /// first. −1: none is left.
  int64_t take(int owner, uint32_t number, int64_t all, int64_t step);

  /// The number of a call, and the first item of its part that nobody has.
  struct alignas(64) Cursor {
    std::atomic<uint64_t> at{0};
  };
  struct alignas(64) Number {
    uint32_t value = 0;
  };

  int threads_;
  std::vector<int> owners_;      ///< [threads, threads]: whose items a thread takes, in this order
  std::vector<Cursor> cursors_;  ///< by thread, then that of queues
  std::vector<Number> numbers_;  ///< by thread: of the last call
  uint32_t renewed_ = 0;         ///< the number up to which cursors were renewed
};

}  // namespace infer
