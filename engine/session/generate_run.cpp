#include "engine/session/generate_run.h"

#include <algorithm>
#include <utility>

namespace infer {
namespace {

using Clock = std::chrono::steady_clock;

/// How long the engine's thread waits for a mask before other sequences go on without this one.
/// Most masks take less.
constexpr std::chrono::milliseconds kMaskWait(2);
/// How often a reader checks for cancel() while a grammar is compiled. cancel() cannot wake it,
/// since it may be called in a signal handler.
constexpr std::chrono::milliseconds kCancelPoll(10);

}  // namespace

GenerateRun::GenerateRun(Engine::Impl& engine, CallCount call, Sequence& sequence,
                         std::vector<int32_t> prompt, GenerateOptions options,
                         const SamplingParams& params, bool reader_decides,
                         std::function<void()> on_event)
    : engine_(engine),
      call_(std::move(call)),
      sequence_(sequence),
      options_(std::move(options)),
      prompt_(std::move(prompt)),
      reader_decides_(reader_decides),
      on_event_(std::move(on_event)),
      generation_(options_, *engine.tokenizer, *engine.grammars, params),
      held_(sequence.tokens.size()),
      shifted_(sequence.shifted) {
  result_.seed = params.seed;
  result_.prompt_tokens = static_cast<int64_t>(prompt_.size());
  result_.reason = FinishReason::length;
}

void GenerateRun::launch() {
  if (options_.grammar.empty() && options_.json_schema.empty()) return submit();
  preparing_ = true;
  engine_.compilers.run([self = shared_from_this()] { self->prepare(); });
}

/// Compiles the grammar. Runs on a thread of its own.
void GenerateRun::prepare() {
  Status status = guarded([&]() -> Status {
    INFER_CHECK(engine_.plan_grammars());
    INFER_TRY_S(std::unique_ptr<Constraint> constraint, engine_.grammars->constraint(options_));
    generation_.set_constraint(std::move(constraint));
    return {};
  });
  if (options_.grammar_start.optional) status = {};
  {
    const std::lock_guard lock(mutex_);
    preparing_ = false;
    if (abandoned_) return;
  }
  if (status.ok()) {
    status = guarded([&]() -> Status {
      submit();
      return {};
    });
  }
  if (!status.ok()) {
    status_ = std::move(status);
    finish();
  }
}

/// If there is no memory, restores the sequence and throws.
void GenerateRun::submit() {
  try {
    sequence_.append_given(prompt_, engine_.is_few(prompt_.size()), options_.images);
    sequence_.reused = 0;
    sequence_.every_logit = options_.prompt_logprobs >= 0 && !prompt_.empty();
    sequence_.results_from = static_cast<int64_t>(held_);
    sequence_.priority = options_.priority;
    sequence_.keep = overflow();
    if (sequence_.every_logit) {
      // The last token held predicts the first of the prompt. Nothing is shifted until the prompt
      // has been told.
      sequence_.results_from = std::max<int64_t>(0, sequence_.results_from - 1);
      prompt_left_ = static_cast<int64_t>(prompt_.size()) - (held_ == 0 ? 1 : 0);
      sequence_.keep = -1;
    }
    if (engine_.drafts && options_.draft_tokens != 0 && sequence_.images.empty()) {
      sequence_.drafting = generation_.allow_drafts(sequence_.kv);
    }
    sequence_.consumer = this;
    engine_.thread->submit(&sequence_);
  } catch (...) {
    settle({});
    sequence_.cut(held_);
    throw;
  }
}

void GenerateRun::finish_empty(FinishReason reason) {
  result_.reason = reason;
  call_.end();
  finished_ = true;
}

/// Sequence::keep while tokens are generated.
int64_t GenerateRun::overflow() const {
  return options_.overflow == ContextOverflow::shift && sequence_.images.empty() ? options_.keep
                                                                                 : -1;
}

Status GenerateRun::begin() {
  INFER_CHECK(engine_.prepare_sequence(sequence_));
  if (!sequence_.every_logit) return {};
  // What predicts the prompt's first token is computed again, if it was computed before.
  const int64_t first = sequence_.results_from;
  if (engine_.cache->length(sequence_.kv) > first) engine_.cache->rollback(sequence_.kv, first);
  sequence_.computed = std::min(sequence_.computed, first);
  return {};
}

void GenerateRun::computing() {
  result_.queue_seconds = std::chrono::duration<double>(Clock::now() - called_).count();
}

int64_t GenerateRun::room() const {
  if (prompt_left_ == 0) return Consumer::room();
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(told_.size() - count_);
}

bool GenerateRun::lags() const {
  const std::lock_guard lock(mutex_);
  return starved_ && Clock::now() - starved_at_ >= kLag;
}

/// Makes the sequence wait until the reader has taken something.
bool GenerateRun::starve() {
  if (!std::exchange(starved_, true)) starved_at_ = Clock::now();
  return false;
}

bool GenerateRun::ready(bool alone) {
  std::unique_lock lock(mutex_);
  // Of a prompt, a step computes as many rows as there is room for: with few of them each step
  // would read all weights for little.
  if (count_ > (prompt_left_ > 0 ? kMostWaiting / 2 : kMostWaiting - 1)) return starve();
  // If the reader ends the generation at a token, the session is as it was at that token. So a
  // shift waits until the reader has taken all tokens.
  const bool shifts = sequence_.keep >= 0 && static_cast<int64_t>(sequence_.tokens.size()) >
                                                 engine_.scheduler->context(sequence_);
  if (shifts && sequence_.cancelled.load(std::memory_order_relaxed)) {
    engine_.thread->wake();  // the next step ends the sequence
    return false;
  }
  if (shifts && (count_ > 0 || deciding_)) return starve();
  if (!generation_.wants_mask()) return true;
  if (computing_mask_) return false;
  Constraint& constraint = *generation_.constraint();
  // A failed mask fails again when it is used.
  if (alone || mask_failed_ || constraint.mask_is_known()) return true;
  constraint.announce_mask();
  computing_mask_ = true;
  const Status begun = guarded([&]() -> Status {
    engine_.masks.run([self = shared_from_this()] { self->compute_mask(); });
    return {};
  });
  if (!begun.ok()) {
    computing_mask_ = false;
    mask_failed_ = true;
    return true;
  }
  changed_.wait_for(lock, kMaskWait, [&] { return !computing_mask_; });
  return !computing_mask_ && (mask_failed_ || constraint.mask_is_known());
}

void GenerateRun::compute_mask() {
  const Status made = guarded([&]() -> Status {
    generation_.constraint()->mask();
    return {};
  });
  {
    const std::lock_guard lock(mutex_);
    mask_failed_ = !made.ok();
    computing_mask_ = false;
    changed_.notify_all();
  }
  engine_.thread->wake();
}

/// A row after which comes a token of the prompt.
void GenerateRun::tell_prompt(const LogitRow& row) {
  GeneratedToken told;
  told.token = row.tokens[static_cast<size_t>(row.position) + 1];
  told.of_prompt = true;
  told.log_probabilities = log_probabilities(row.logits, told.token, options_.prompt_logprobs);
  put(std::move(told), row.position + 2);
  --prompt_left_;
}

Outcome GenerateRun::step(const LogitRow& row) {
  if (prompt_left_ > 0) {
    tell_prompt(row);
    return {-1, failure_.ok()};
  }
  sequence_.every_logit = false;
  sequence_.keep = overflow();
  GenerationStep made = generation_.step(row);
  const int32_t token = made.made.token;
  if (made.failure.code() == StatusCode::bad_file) {
    failure_ =
        error(StatusCode::bad_file, "{}: {}", engine_.description.path, made.failure.message());
  } else if (!made.failure.ok()) {
    failure_ = std::move(made.failure);
  }
  if (made.has_token) {
    const bool first = made.made.generated_tokens == 1;
    engine_.counters.token(
        first, first ? made.made.first_token_seconds : made.made.generate_seconds - made_at_);
    made_at_ = made.made.generate_seconds;
    put(std::move(made.made), static_cast<int64_t>(row.tokens.size()) + 1);
  }
  return {token, made.goes_on && failure_.ok()};
}

void GenerateRun::put(GeneratedToken made, int64_t length) {
  const std::lock_guard lock(mutex_);
  const bool first = count_ == 0;
  told_[(first_ + count_++) % told_.size()] = {std::move(made), length};
  changed_.notify_all();
  if (first) call_event(failure_);
}

/// What it throws ends this generation and no other. The first failure is kept.
void GenerateRun::call_event(Status& failure) {
  Status thrown;
  const auto event = [&] {
    on_event_();
    return true;
  };
  if (on_event_ && !call_back(thrown, event) && failure.ok()) failure = std::move(thrown);
}

/// Detaches the sequence from the run, and sets the run's result.
void GenerateRun::settle(Status status) {
  sequence_.drafting = nullptr;
  sequence_.keep = -1;
  sequence_.consumer = nullptr;
  if (!failure_.ok()) status = std::move(failure_);
  if (status.code() == StatusCode::cancelled) {
    result_.reason = FinishReason::cancelled;
  } else if (status.code() == StatusCode::does_not_fit && result_.generated_tokens > 0) {
    result_.reason = FinishReason::context;
  } else {
    status_ = std::move(status);
  }
}

void GenerateRun::done(Status status) {
  const std::shared_ptr<GenerateRun> self = shared_from_this();  // the reader may release it
  const auto computed = static_cast<size_t>(sequence_.computed);
  const size_t kept = std::min(held_, sequence_.tokens.size());  // a shift leaves fewer
  sequence_.cut(std::max(computed, kept));
  const Status reported = guarded([&]() -> Status {
    generation_.report(result_);
    return {};
  });
  if (!reported.ok() && status.ok()) status = out_of_memory();
  result_.reused_tokens = sequence_.reused;
  result_.shifted_tokens = sequence_.shifted - shifted_;
  settle(std::move(status));
  if (status_.ok() && result_.generated_tokens > 0) {
    // The reader has the last token, but it is not computed: the next call computes it first.
    const int64_t expected = static_cast<int64_t>(held_) + result_.prompt_tokens +
                             result_.generated_tokens - result_.shifted_tokens;
    if (static_cast<int64_t>(sequence_.tokens.size()) < expected) {
      sequence_.append_generated(generation_.last());
    }
    engine_.teach(sequence_, result_.generated_tokens);
  }
  finish();
}

void GenerateRun::finish() {
  const std::lock_guard lock(mutex_);
  call_.end();
  finished_ = true;
  changed_.notify_all();
  // Inside the lock, so that the reader cannot learn of the end before this call.
  if (count_ == 0) call_event(status_);
}

GenerateRun::Next GenerateRun::next(Told& told, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (std::exchange(deciding_, false) && std::exchange(starved_, false)) engine_.thread->wake();
  const auto has_news = [&] { return count_ > 0 || finished_; };
  while (preparing_ && !has_news()) {
    if (sequence_.cancelled.load(std::memory_order_relaxed)) {
      abandoned_ = finished_ = true;
      call_.end();
      result_.reason = FinishReason::cancelled;
      break;
    }
    if (Clock::now() >= deadline) break;
    changed_.wait_until(lock, std::min(deadline, Clock::now() + kCancelPoll));
  }
  if (deadline == Clock::time_point::max()) {
    changed_.wait(lock, has_news);
  } else if (!changed_.wait_until(lock, deadline, has_news)) {
    return Next::nothing;
  }
  if (count_ == 0) return Next::finished;
  told = std::move(told_[first_]);
  first_ = (first_ + 1) % told_.size();
  --count_;
  deciding_ = reader_decides_;
  const bool wakes = starved_ && count_ <= kMostWaiting / 2;
  if (wakes) starved_ = false;
  starved_at_ = Clock::now();
  lock.unlock();
  if (wakes) engine_.thread->wake();
  return Next::token;
}

}  // namespace infer
