// A generation of a session: what the engine's threads and the session's reader share of it.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/generate/generation.h"
#include "engine/generate/outcome.h"
#include "engine/session/engine_impl.h"

namespace infer {

/// From start to the end. The engine's threads put tokens into a queue, from which the session's
/// reader takes them; a reader that lags behind delays this generation alone.
class GenerateRun final : public Consumer, public std::enable_shared_from_this<GenerateRun> {
 public:
  /// Steps are computed while fewer tokens than this wait for the reader.
  static constexpr size_t kMostWaiting = 32;

  /// A token that the reader takes.
  struct Told {
    GeneratedToken made;
    int64_t length = 0;  ///< of the session, with it
  };
  enum class Next { token, finished, nothing };

  /// `sequence` has the tokens held before. `reader_decides`: the reader, who comes back at once,
  /// may end the generation with each token that it takes. `on_event` is called when something
  /// waits after nothing did; may be empty.
  GenerateRun(Engine::Impl& engine, CallCount call, Sequence& sequence, std::vector<int32_t> prompt,
              GenerateOptions options, const SamplingParams& params, bool reader_decides,
              std::function<void()> on_event);

  /// Gives the sequence to the engine, at once or when the grammar has been compiled. Failures that
  /// come later are the result's. Throws std::bad_alloc: nothing has begun then.
  void launch();
  /// Ends without anything to compute.
  void finish_empty(FinishReason reason);

  // The reader's.

  /// Takes what comes next, or waits for it up to the deadline. A cancel ends the preparation here.
  Next next(Told& told, std::chrono::steady_clock::time_point deadline);
  /// Once finished: why it failed; ok if it did not.
  const Status& status() const { return status_; }
  const GenerateResult& result() const { return result_; }
  /// Once finished: text that was held back.
  std::string rest() { return generation_.rest(); }
  const GenerateOptions& options() const { return options_; }
  int64_t held() const { return static_cast<int64_t>(held_); }
  uint64_t seed() const { return result_.seed; }

  // The engine's.

  Status begin() override;
  void computing() override;
  bool ready(bool alone) override;
  bool lags() const override;
  int64_t room() const override;
  LogitsNeeded needed() const override {
    return prompt_left_ > 0 ? LogitsNeeded() : generation_.needed();
  }
  Outcome step(const LogitRow& row) override;
  void done(Status status) override;

 private:
  void prepare();
  void submit();
  void settle(Status status);
  void finish();
  void put(GeneratedToken made, int64_t length);
  void tell_prompt(const LogitRow& row);
  void call_event(Status& failure);
  int64_t overflow() const;
  bool starve();
  void compute_mask();

  Engine::Impl& engine_;
  CallCount call_;
  Sequence& sequence_;
  GenerateOptions options_;
  std::vector<int32_t> prompt_;
  bool reader_decides_;
  std::function<void()> on_event_;
  Generation generation_;
  size_t held_;      ///< tokens before the prompt
  int64_t shifted_;  ///< tokens dropped before
  /// Tokens of the prompt whose log-probabilities are still to be told.
  int64_t prompt_left_ = 0;
  std::chrono::steady_clock::time_point called_ = std::chrono::steady_clock::now();
  Status failure_;      ///< of a step, or of on_event
  double made_at_ = 0;  ///< when the last token was made, in seconds since generating began

  // Until finished_ these are the engine's, then the reader's.
  Status status_;
  GenerateResult result_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  /// A ring: a step may add as many as are drafted at most, and one. Of a prompt, as many as there
  /// is room for.
  std::array<Told, kMostWaiting + kMostDrafted + 1> told_;
  size_t first_ = 0;
  size_t count_ = 0;
  bool finished_ = false;
  bool preparing_ = false;
  bool abandoned_ = false;  ///< while it was prepared: the sequence is the session's again
  bool starved_ = false;    ///< the engine waits for the reader
  std::chrono::steady_clock::time_point starved_at_;
  bool deciding_ = false;        ///< the reader has a token and may end the generation with it
  bool computing_mask_ = false;  ///< beside the engine's thread
  bool mask_failed_ = false;
};

}  // namespace infer
