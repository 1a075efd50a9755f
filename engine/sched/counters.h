// What an engine does and has done, for EngineStatistics.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "engine/kv/kv_cache.h"
#include "infer/infer.hpp"

namespace infer {

/// What one step computed.
struct StepCounts {
  int64_t rows = 0;
  int64_t prompt_tokens = 0;      ///< rows of tokens that were given, for the first time
  int64_t recomputed_tokens = 0;  ///< rows of tokens that had been computed before
  int64_t prefix_tokens = 0;      ///< looked up in the cache since the step before
  int64_t prefix_found = 0;
  int64_t drafted = 0;  ///< rows of proposed tokens
  int64_t accepted = 0;
  int64_t running = 0;  ///< sequences that hold pages
};

/// Written by the engine's threads, a few times a step, and read by any thread. The lock is never
/// held while anything is computed. Only read() allocates.
class Counters {
 public:
  /// The model has been loaded. Before any other thread uses it.
  void start() { start_ = Clock::now(); }
  void session_opened(int64_t change);
  /// A call begins: false if so many are running or waiting already.
  bool begin_call(int64_t most);
  void end_call();

  void step(const StepCounts& counts);
  void set_pages(int64_t running, const PageCounts& pages);
  /// Pages of the kind of layers that has most, recurrent ones left out.
  int64_t most_pages() const;
  /// Whether the pages were last told so long ago that it is worth telling them in a step.
  bool pages_are_old() const;
  /// A token was generated, so long after the call (the first one) or the token before.
  void token(bool first, double seconds);

  EngineStatistics read() const;

 private:
  using Clock = std::chrono::steady_clock;

  /// How often values were at most a bound. Not summed up: the last one counts those above all.
  template <size_t N>
  struct Distribution {
    std::array<int64_t, N + 1> counts{};
    double sum = 0;
  };
  /// Tokens of a short time.
  struct Slot {
    int64_t time = -1;  ///< in slots since the beginning
    int64_t prompt_tokens = 0;
    int64_t generated_tokens = 0;
  };
  static constexpr size_t kRowBounds = 17;
  static constexpr size_t kTimeBounds = 19;
  static constexpr size_t kSlots = 20;
  static constexpr std::chrono::milliseconds kSlotTime{250};
  static const std::array<double, kRowBounds> kRows;
  static const std::array<double, kTimeBounds> kTimes;

  template <size_t N>
  static void add(Distribution<N>& to, const std::array<double, N>& bounds, double value);
  template <size_t N>
  static Histogram histogram(const Distribution<N>& from, const std::array<double, N>& bounds);
  Slot& slot();

  Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;
  int64_t sessions_ = 0;
  int64_t calls_ = 0;
  int64_t running_ = 0;
  int64_t refused_ = 0;
  int64_t steps_ = 0;
  int64_t generated_tokens_ = 0;
  int64_t last_rows_ = 0;
  StepCounts total_;
  PageCounts pages_;
  Clock::time_point pages_told_;
  Distribution<kRowBounds> rows_;
  Distribution<kTimeBounds> first_token_;
  Distribution<kTimeBounds> next_token_;
  std::array<Slot, kSlots> slots_;
};

}  // namespace infer
