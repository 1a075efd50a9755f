#include "engine/spec/step_costs.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace infer {
namespace {

using Clock = std::chrono::steady_clock;

/// Rows of the first tokens of one sequence, each with its result.
Status run_rows(Executor& executor, KvCache& cache, KvCache::SequenceId id, int64_t rows,
                double& seconds) {
  INFER_CHECK(cache.reserve(id, rows));
  StepBatch batch;
  batch.begin_sequence({});
  for (int32_t r = 0; r < rows; ++r) {
    batch.tokens.push_back(0);
    batch.positions.push_back(r);
    batch.slots.push_back(r);
    batch.sequences.push_back(0);
    batch.output_rows.push_back(r);
  }
  batch.hidden.assign(static_cast<size_t>(rows * executor.info().takes_hidden), 1.0f);
  batch.own_hidden.assign(static_cast<size_t>(rows * executor.info().takes_own), 0.0f);
  if (executor.info().block) batch.last_seen = batch.slots;
  batch.generated = rows;  // as tokens that are verified
  batch.pages = cache.pages(std::span(&id, 1));
  const Clock::time_point start = Clock::now();
  const auto logits = executor.run(batch);
  seconds = std::chrono::duration<double>(Clock::now() - start).count();
  cache.rollback(id, 0);
  return logits ? Status() : logits.error();
}

}  // namespace

StepCosts::StepCosts(double first, double further) {
  for (int64_t n = 1; n <= kRows; ++n) {
    seconds_[static_cast<size_t>(n)] = first + further * static_cast<double>(n - 1);
  }
}

Result<StepCosts> StepCosts::measure(Executor& executor, KvCache& cache, int64_t rows,
                                     double seconds) {
  constexpr int kRepeats = 3;  // the first one compiles the program
  StepCosts costs;
  const KvCache::SequenceId id = cache.add_sequence();
  Status status;
  double spent = 0;
  int64_t done = 0;
  for (int64_t n = 1; n <= std::min({rows, kRows, cache.context()}); n *= 2) {
    if (done >= 2 && spent > seconds) break;
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kRepeats && status.ok(); ++i) {
      double taken = 0;
      status = run_rows(executor, cache, id, n, taken);
      least = std::min(least, taken);
      spent += taken;
    }
    if (!status.ok()) break;
    costs.seconds_[static_cast<size_t>(n)] = least;
    if (done > 0) costs.fill(done, n);
    done = n;
  }
  cache.remove_sequence(id);
  if (!status.ok()) return tl::unexpected(status);
  const int64_t before = done / 2;
  const double last = costs.seconds_[static_cast<size_t>(done)];
  const double slope =
      done < 2 ? 0 : (last - costs.seconds_[static_cast<size_t>(before)]) / double(done - before);
  for (int64_t n = done + 1; n <= kRows; ++n) {
    costs.seconds_[static_cast<size_t>(n)] = last + slope * static_cast<double>(n - done);
  }
  costs.smooth();
  return costs;
}

/// Straight between two that were measured.
void StepCosts::fill(int64_t from, int64_t to) {
  const double first = seconds_[static_cast<size_t>(from)];
  const double last = seconds_[static_cast<size_t>(to)];
  for (int64_t n = from + 1; n < to; ++n) {
    const double share = static_cast<double>(n - from) / static_cast<double>(to - from);
    seconds_[static_cast<size_t>(n)] = first + share * (last - first);
  }
}

void StepCosts::smooth() {
  for (size_t n = 2; n <= kRows; ++n) seconds_[n] = std::max(seconds_[n], seconds_[n - 1]);
}

double StepCosts::seconds(int64_t rows) const {
  if (rows <= kRows) return seconds_[static_cast<size_t>(rows)];
  constexpr int64_t kHalf = kRows / 2;
  const double slope = (seconds_[kRows] - seconds_[kHalf]) / double(kRows - kHalf);
  return seconds_[kRows] + slope * static_cast<double>(rows - kRows);
}

void StepCosts::update(int64_t rows, double seconds) {
  // A step during which the process did not run says nothing.
  constexpr double kMost = 1.5;
  constexpr double kOwn = 0.2;
  constexpr double kCommon = 0.02;
  if (rows < 1 || rows > kRows || seconds <= 0) return;
  const double value = seconds_[static_cast<size_t>(rows)];
  const double change = std::clamp(seconds / value, 1 / kMost, kMost) - 1;
  for (int64_t n = 1; n <= kRows; ++n) {
    // Steps of nearly as many rows are alike; those of twice as many hardly.
    const double distance = std::log2(static_cast<double>(n) / static_cast<double>(rows));
    const double alike = 1 / (1 + 16 * distance * distance);
    seconds_[static_cast<size_t>(n)] *= 1 + (kOwn * alike + kCommon) * change;
  }
  // From this one on in both directions.
  for (int64_t n = rows + 1; n <= kRows; ++n) {
    const auto i = static_cast<size_t>(n);
    seconds_[i] = std::max(seconds_[i], seconds_[i - 1]);
  }
  for (int64_t n = rows - 1; n >= 1; --n) {
    const auto i = static_cast<size_t>(n);
    seconds_[i] = std::min(seconds_[i], seconds_[i + 1]);
  }
}

}  // namespace infer
