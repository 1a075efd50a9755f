// An evaluation of a session: logits after each token, from the engine's threads to the reader.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/generate/outcome.h"
#include "engine/session/engine_impl.h"

namespace infer {

/// Rows are copied, as many as a step returns at most, so that a slow reader delays its own session
/// alone. In place, for the library's own jobs, they go to the callback on the engine's thread.
class EvaluateRun final : public Consumer, public std::enable_shared_from_this<EvaluateRun> {
 public:
  EvaluateRun(Engine::Impl& engine, Sequence& sequence, const LogitsFn& on_logits, bool in_place);

  /// Appends the tokens, computes them and gives the logits after each. Ok also where the callback
  /// ended it. Throws std::bad_alloc.
  Status run(std::span<const int32_t> tokens, std::span<const ModelImage> images);

  Status begin() override;
  bool ready(bool alone) override;
  bool lags() const override;
  int64_t room() const override;
  Outcome step(const LogitRow& row) override;
  void done(Status status) override;

 private:
  bool tell(int64_t position, std::span<const float> logits);
  void read();

  Engine::Impl& engine_;
  Sequence& sequence_;
  const LogitsFn& on_logits_;
  bool in_place_;
  size_t held_;
  int64_t vocabulary_;
  Status callback_failure_;
  bool ended_ = false;  ///< by the callback

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<float> rows_;  ///< a ring of rows [vocabulary]
  std::vector<int64_t> positions_;
  size_t first_ = 0;
  size_t count_ = 0;
  bool starved_ = false;  ///< the engine waits for the reader
  std::chrono::steady_clock::time_point starved_at_;
  bool finished_ = false;
  Status status_;
};

}  // namespace infer
