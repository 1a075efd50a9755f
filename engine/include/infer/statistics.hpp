// What an engine tells of itself while it runs.
#pragma once

#include <cstdint>
#include <vector>

#include "infer/telemetry.hpp"

namespace infer {

/// The distribution of some values. The bounds are the same at all times, so that counts of
/// different times can be subtracted.
struct Histogram {
  std::vector<double> bounds;  ///< ascending
  /// [bounds.size() + 1] Number of values that are at most bounds[i]; last the number of all
  /// values.
  std::vector<int64_t> counts;
  double sum = 0;  ///< of all values
};

/// Pages of the cache by who holds them, for all kinds of layers together: total = running + idle +
/// kept + free.
struct CachePages {
  int64_t total = 0;
  int64_t running = 0;  ///< held by sessions with a running call, perhaps by others too
  int64_t idle = 0;     ///< held only by sessions without a running call; given up if needed
  int64_t kept = 0;     ///< held by no session; kept for sessions that begin with the same tokens
  int64_t free = 0;
};

/// Pages of the cache that a session holds.
struct SessionPages {
  int64_t session = 0;  ///< Session::number()
  int64_t held = 0;
  int64_t shared = 0;  ///< of these, held by other sessions as well
};

/// What an engine does now and what it has done since it was loaded. A call is a generate(),
/// start() or evaluate() that has not finished computing.
struct EngineStatistics {
  double seconds = 0;         ///< since the engine was loaded
  int64_t sessions = 0;       ///< open sessions
  int64_t calls_running = 0;  ///< calls whose tokens are in the cache
  int64_t calls_waiting = 0;  ///< calls that wait for a grammar, for their first step or for pages
  CachePages pages;           ///< while a step runs, up to 0.1 s old
  std::vector<SessionPages> session_pages;  ///< of sessions that hold pages, at most 64
  double prompt_tokens_per_s = 0;           ///< mean of the last 5 seconds
  double generated_tokens_per_s = 0;        ///< likewise
  int64_t last_step_rows = 0;               ///< rows of the latest step

  // Totals. They never fall.
  int64_t calls_refused = 0;  ///< with StatusCode::busy
  int64_t steps = 0;
  int64_t prompt_tokens = 0;      ///< given tokens that were computed
  int64_t recomputed_tokens = 0;  ///< tokens computed again, because their pages had been given up
  int64_t generated_tokens = 0;   ///< also those that a caller did not take any more
  int64_t prefix_tokens = 0;      ///< tokens that calls looked up in the cache
  int64_t prefix_tokens_found = 0;
  int64_t drafted_tokens = 0;   ///< proposed by drafters and verified
  int64_t accepted_tokens = 0;  ///< proposed tokens that were right
  Histogram step_rows;
  Histogram first_token_seconds;  ///< from the call to its first token
  Histogram next_token_seconds;   ///< from one token of a call to the next
  /// What the GPUs that the engine uses do, all programs counted, at most a second old. Those that
  /// tell nothing are left out.
  std::vector<GpuTelemetry> gpus;
};

}  // namespace infer
