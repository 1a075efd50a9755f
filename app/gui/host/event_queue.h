// Events from any thread to the thread that draws.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace infer::gui {

/// Called from any thread when there is something to poll. It must return at once and must not call
/// the service that called it.
using WakeFn = std::function<void()>;

/// Whether an event has become a part of one that waits, may become one of an earlier one, or not.
enum class Merge { done, look_on, no };

template <typename Event>
class EventQueue {
 public:
  explicit EventQueue(WakeFn wake) : wake_(std::move(wake)) {}

  /// Adds an event, unless it becomes a part of one that waits: the latest ones are shown to
  /// `merge`, the last one first.
  template <typename MergeFn>
  void push(Event event, const MergeFn& merge) {
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      first = events_.empty();
      Merge merged = Merge::look_on;
      size_t looked = 0;
      for (auto it = events_.rbegin(); it != events_.rend() && looked < kMostLooked; ++it) {
        merged = merge(*it, event);
        if (merged != Merge::look_on) break;
        ++looked;
      }
      if (merged != Merge::done) events_.push_back(std::move(event));
    }
    if (first && wake_) wake_();
  }
  void push(Event event) {
    push(std::move(event), [](Event&, Event&) { return Merge::no; });
  }

  /// Adds an event; of more than `most` that wait the oldest is dropped.
  void push_bounded(Event event, size_t most) {
    push(std::move(event));
    const std::lock_guard lock(mutex_);
    if (events_.size() > most) events_.pop_front();
  }

  /// Drops the waiting events of one kind.
  template <typename Pred>
  void drop(const Pred& pred) {
    const std::lock_guard lock(mutex_);
    std::erase_if(events_, pred);
  }

  /// All events so far, in their order.
  std::deque<Event> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }

 private:
  static constexpr size_t kMostLooked = 64;

  const WakeFn wake_;
  std::mutex mutex_;
  std::deque<Event> events_;
};

}  // namespace infer::gui
