// Counts the calls to a driver that can fail, remembers from where they came, and chooses one of
// them to fail.
#pragma once

#include <execinfo.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace infer::test {

/// Thread-safe.
class CallFailures {
 public:
  /// Counts a call of this function; true if it is to fail. Inlined, so that the stack says where
  /// the function stands.
  [[gnu::always_inline]] bool fails(const char* name) {
    Place place{};
    (void)backtrace(place.data(), static_cast<int>(place.size()));
    const std::lock_guard lock(mutex_);
    places_.try_emplace(place, calls_, calls_).first->second.second = calls_;
    const bool now = calls_++ == fail_after_;
    if (now) failed_ = name;
    return now;
  }

  /// The call after `before` others fails. -1: none. Counts from 0 again.
  void fail_after(int64_t before) {
    const std::lock_guard lock(mutex_);
    calls_ = 0;
    places_.clear();
    fail_after_ = before;
    failed_.clear();
  }
  int64_t calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  /// Numbers, from 0 in ascending order, of the first of these calls from each place, and of the
  /// last if `last`. A place is a function and the innermost calls on the stack.
  std::vector<int64_t> places(bool last) const {
    const std::lock_guard lock(mutex_);
    std::set<int64_t> numbers;
    for (const auto& [place, calls] : places_) {
      numbers.insert(calls.first);
      if (last) numbers.insert(calls.second);
    }
    return {numbers.begin(), numbers.end()};
  }
  /// The function that failed; empty if none did.
  std::string failed() const {
    const std::lock_guard lock(mutex_);
    return failed_;
  }

 private:
  /// The innermost calls on the stack.
  using Place = std::array<void*, 7>;

  mutable std::mutex mutex_;
  std::map<Place, std::pair<int64_t, int64_t>> places_;  ///< their first and last call
  int64_t calls_ = 0;
  int64_t fail_after_ = -1;
  std::string failed_;
};

}  // namespace infer::test
