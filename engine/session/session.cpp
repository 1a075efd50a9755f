#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>

#include "engine/sample/logprobs.h"
#include "engine/sample/sampler.h"
#include "engine/session/engine_impl.h"
#include "engine/session/sampling.h"
#include "engine/session/state.h"
#include "engine/text/stop_strings.h"
#include "engine/text/stream_decoder.h"

namespace infer {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// How long the scheduler's thread waits for a mask before other sequences go on without this one.
/// Most masks are computed within it.
constexpr std::chrono::milliseconds kMaskWait(2);

/// The thread that called generate() or evaluate(). While the scheduler's thread computes steps, it
/// computes the masks that its own sequence needs, so that a slow one holds up nobody else.
class Caller {
 public:
  /// `constraint` may be null.
  explicit Caller(Constraint* constraint) : constraint_(constraint) {}

  /// On the scheduler's thread: Sequence::ready.
  bool ready(bool alone) {
    std::unique_lock lock(mutex_);
    if (wanted_) return false;
    // A failure comes again where the mask is used.
    if (alone || failed_ || constraint_->mask_is_known()) return true;
    constraint_->announce_mask();
    wanted_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kMaskWait, [&] { return !wanted_; });
    return !wanted_ && (failed_ || constraint_->mask_is_known());
  }
  /// On the scheduler's thread.
  void end(Status status) {
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    ended_ = true;
    changed_.notify_all();
  }
  /// Returns what end() is told.
  Status wait(Engine::Impl& engine) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return wanted_ || ended_; });
      if (ended_) return std::move(status_);
      lock.unlock();
      const bool made = compute(engine.mask_mutex);
      lock.lock();
      failed_ = !made;
      wanted_ = false;
      changed_.notify_all();
      lock.unlock();
      engine.wake();
      lock.lock();
    }
  }

 private:
  bool compute(std::mutex& one_at_a_time) const {
    try {
      const std::lock_guard lock(one_at_a_time);
      constraint_->mask();
    } catch (const std::exception&) {  // no memory
      return false;
    }
    return true;
  }

  Constraint* constraint_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool wanted_ = false;  ///< a mask
  bool failed_ = false;  ///< to compute it
  bool ended_ = false;
  Status status_;
};

}  // namespace

/// While it lives a full context drops all but the first `keep` tokens and the later half.
struct ShiftsContext {
  Sequence& sequence;
  ShiftsContext(Sequence& s, int64_t keep) : sequence(s) { sequence.keep = keep; }
  ~ShiftsContext() { sequence.keep = -1; }
  ShiftsContext(const ShiftsContext&) = delete;
  ShiftsContext& operator=(const ShiftsContext&) = delete;
};

/// While it lives tokens may be proposed for the sequence.
struct Drafts {
  Sequence& sequence;
  Drafts(Sequence& s, Drafting* drafting) : sequence(s) { sequence.drafting = drafting; }
  ~Drafts() { sequence.drafting = nullptr; }
  Drafts(const Drafts&) = delete;
  Drafts& operator=(const Drafts&) = delete;
};

struct Session::Impl {
  Engine::Impl& engine;
  Sequence sequence;
  GenerateResult statistics;

  explicit Impl(Engine::Impl& e) : engine(e) { sequence.kv = engine.add_sequence(); }
  ~Impl() { engine.remove_sequence(sequence.kv); }

  /// First of all in a call that computes: from here on a cancel counts.
  Status enter() {
    sequence.cancelled.store(false);
    return engine.usable();
  }

  /// Appends tokens, computes until done and waits. Of tokens that were not computed only those
  /// held before remain. `masks`: whose masks are needed; may be null.
  Status run(std::span<const int32_t> tokens, bool every_logit, Constraint* masks,
             std::function<bool(int64_t, std::span<const float>)> on_logits) {
    sequence.reused = 0;
    const int64_t vocabulary = engine.opened.model->info().vocabulary;
    for (const int32_t token : tokens) {
      if (token < 0 || token >= vocabulary) {
        return error(StatusCode::invalid_argument, "token {} is not in the vocabulary of 0 to {}",
                     token, vocabulary - 1);
      }
    }
    const size_t held = sequence.tokens.size();
    if (tokens.empty() && held == 0) {
      return error(StatusCode::invalid_argument, "there is no token to start from");
    }
    // Shared: this thread may be gone before end() has quite returned.
    const auto caller = std::make_shared<Caller>(masks);
    try {
      sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
      Status room;
      engine.call([&] { room = make_room(); });
      if (!room.ok()) {
        sequence.cut(held);
        return room;
      }
      sequence.every_logit = every_logit;
      sequence.results_from = static_cast<int64_t>(held);
      sequence.on_logits = std::move(on_logits);
      sequence.ready = nullptr;
      if (masks != nullptr) sequence.ready = [caller](bool alone) { return caller->ready(alone); };
      sequence.on_done = [this, caller, held](Status status) {
        const auto computed = static_cast<size_t>(sequence.computed);
        const size_t kept = std::min(held, sequence.tokens.size());  // a shift leaves fewer
        sequence.cut(std::max(computed, kept));
        caller->end(std::move(status));
      };
      engine.submit(&sequence);
    } catch (...) {
      sequence.cut(held);
      throw;
    }
    return caller->wait(engine);
  }

  void shorten(int64_t length) {
    length = std::min(length, static_cast<int64_t>(sequence.tokens.size()));
    engine.call([&] { engine.cache->rollback(sequence.kv, length); });
    sequence.cut(static_cast<size_t>(length));
    sequence.computed = std::min(sequence.computed, length);
    if (length == 0) sequence.shifted = 0;  // draws count from the beginning again
  }

  /// What the last `count` tokens are may serve other sequences' drafts.
  void teach(int64_t count) {
    if (!engine.drafts || count == 0) return;
    const auto from = std::max<int64_t>(0, static_cast<int64_t>(sequence.tokens.size()) - count);
    engine.call([&] {
      if (!engine.speculator) return;
      // A generation that is done does not fail for it.
      const Status learnt = guarded([&]() -> Status {
        engine.speculator->learn(sequence.kv, sequence.tokens, from);
        return {};
      });
      (void)learnt;
    });
  }

 private:
  /// On the scheduler's thread: checks that the tokens fit the context; with nothing to compute,
  /// the last token is computed once more for its logits.
  Status make_room() {
    INFER_CHECK(engine.usable());
    const auto size = static_cast<int64_t>(sequence.tokens.size());
    const int64_t context = engine.cache->context();
    if (size > context && sequence.keep < 0) {
      return error(StatusCode::does_not_fit, "{} tokens do not fit: the context holds {}", size,
                   context);
    }
    if (size == engine.cache->length(sequence.kv)) engine.cache->rollback(sequence.kv, size - 1);
    return {};
  }
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Engine::open_session() {
  return guarded([&]() -> Result<std::unique_ptr<Session>> {
    INFER_CHECK_R(impl_->usable());
    return std::unique_ptr<Session>(new Session(std::make_unique<Session::Impl>(*impl_)));
  });
}

namespace {

SpeculationStatistics statistics_of(const DraftStatistics& from) {
  SpeculationStatistics to{from.drafted,       from.accepted,      from.tokens, from.seconds,
                           from.draft_seconds, from.plain_seconds, {},          {}};
  for (size_t i = 0; i < from.reached.size() && from.reached[i] > 0; ++i) {
    to.places.push_back({from.reached[i], from.held[i]});
  }
  size_t lengths = from.lengths.size();
  while (lengths > 0 && from.lengths[lengths - 1].steps == 0) --lengths;
  for (const DraftStatistics::Length& length : std::span(from.lengths).first(lengths)) {
    to.lengths.push_back({length.steps, length.accepted, length.refused});
  }
  return to;
}

/// What one generate() does with the logits of each step.
struct Generation {
  const GenerateOptions& options;
  const TokenFn& on_token;
  const Tokenizer& tokenizer;
  Grammars& grammars;
  Sequence& sequence;
  GenerateResult& result;
  SamplerChain chain;
  std::unique_ptr<Constraint> constraint;  ///< may be null
  StreamDecoder decoder;
  StopStrings stops;
  std::optional<Drafting> drafting;
  Status failure;  ///< of the callback
  int32_t last = -1;
  Clock::time_point start = Clock::now();
  Clock::time_point generating = start;

  Generation(const GenerateOptions& o, const TokenFn& callback, Engine::Impl& engine, Sequence& s,
             const SamplingParams& params, std::unique_ptr<Constraint> c, GenerateResult& r)
      : options(o),
        on_token(callback),
        tokenizer(*engine.tokenizer),
        grammars(*engine.grammars),
        sequence(s),
        result(r),
        chain(params),
        constraint(std::move(c)),
        decoder(*engine.tokenizer, {o.special_text}),
        stops(o.stop) {}

  bool tell(int32_t token, const std::string& text) {
    return !on_token || call_back(failure, [&] { return on_token(token, text); });
  }

  bool tell_logprobs(std::span<const float> logits, int32_t token) {
    if (options.logprobs < 0 || !options.on_logprobs) return true;
    return call_back(failure, [&] {
      return options.on_logprobs(log_probabilities(logits, token, options.logprobs));
    });
  }

  /// The text that is held back, at the end.
  std::string rest() {
    std::string text = stops.push(decoder.finish());
    return text += stops.finish();
  }

  /// Whether to go on.
  bool step(std::span<const float> logits) {
    if (result.generated_tokens == 0) {
      result.prompt_seconds = seconds_since(start);
      generating = Clock::now();
    }
    result.reason = FinishReason::length;
    if (options.max_tokens == 0) return false;
    // Draws count on where a shift drops tokens: none is used twice.
    const auto place = static_cast<int64_t>(sequence.tokens.size()) + sequence.shifted;
    const int32_t token =
        chain.sample(logits, {std::span(sequence.tokens), place}, constraint.get());
    const bool allowed = constraint == nullptr || constraint->accept(token);
    if (constraint != nullptr) grammars.trim();
    const auto is_number = [](float x) { return std::isfinite(x); };
    if (token < 0 && std::ranges::any_of(logits, is_number)) {
      failure =
          error(StatusCode::invalid_argument, "no token may come next: logit_bias forbids all{}",
                constraint == nullptr ? "" : " that the grammar allows");
      return false;
    }
    if (token < 0 || !allowed) {
      failure = error(StatusCode::bad_file,
                      "the model's logits are not numbers: its weights are damaged, or hold values "
                      "beyond what float32 can compute with");
      return false;
    }
    if ((!options.ignore_end || constraint != nullptr) && tokenizer.is_eog(token)) {
      result.reason = FinishReason::stop;
      return false;
    }
    last = token;
    ++result.generated_tokens;
    if (result.generated_tokens == 1) result.first_token_seconds = seconds_since(start);
    const bool is_last = result.generated_tokens == options.max_tokens;
    sequence.reserve_one();  // first: no token that was told is lost
    std::string text = stops.push(decoder.push(token));
    const bool complete = constraint != nullptr && constraint->must_end();
    if (is_last || complete) text += rest();
    const bool wanted = tell_logprobs(logits, token) && tell(token, text);
    result.generate_seconds = seconds_since(generating);
    const bool stopped = complete || stops.found();
    if (stopped) result.reason = FinishReason::stop;
    if (!wanted) result.reason = FinishReason::cancelled;
    if (!wanted || is_last || stopped) return false;
    sequence.append_generated(token);
    if (drafting) {
      drafting->position = place + 1;
      drafting->wanted = options.max_tokens < 0 ? std::numeric_limits<int64_t>::max()
                                                : options.max_tokens - result.generated_tokens;
    }
    return true;
  }

  void allow_drafts(const SamplingParams& params) {
    drafting.emplace(params);
    drafting->id = sequence.kv;
    drafting->fixed = options.draft_tokens;
    drafting->constraint = constraint.get();
  }
};

}  // namespace

Result<GenerateResult> Session::generate(std::span<const int32_t> prompt,
                                         const GenerateOptions& options, const TokenFn& on_token) {
  return guarded([&]() -> Result<GenerateResult> {
    Engine::Impl& engine = impl_->engine;
    GenerateResult& result = impl_->statistics;
    result = {};
    INFER_CHECK_R(impl_->enter());
    INFER_TRY(
        const SamplingParams params,
        resolve_sampling(options.sampling, engine.opened.source->metadata(), *engine.tokenizer));
    if (!options.grammar.empty() || !options.json_schema.empty()) {
      INFER_CHECK_R(engine.plan_grammars());
    }
    INFER_TRY(std::unique_ptr<Constraint> constraint, engine.grammars->constraint(options));
    result.seed = params.seed;
    result.prompt_tokens = static_cast<int64_t>(prompt.size());
    result.reason = FinishReason::length;
    if (options.max_tokens == 0 && prompt.empty()) return result;
    Sequence& sequence = impl_->sequence;
    std::vector<int32_t>& tokens = sequence.tokens;
    const size_t held = tokens.size();
    const int64_t shifted = sequence.shifted;
    if (options.draft_tokens < -1) {
      return fail(StatusCode::invalid_argument, "draft_tokens: expected at least -1, found {}",
                  options.draft_tokens);
    }
    if (options.keep < 0) {
      return fail(StatusCode::invalid_argument, "keep: expected at least 0, found {}",
                  options.keep);
    }
    const ShiftsContext shifts(sequence,
                               options.overflow == ContextOverflow::shift ? options.keep : -1);
    Generation g(options, on_token, engine, sequence, params, std::move(constraint), result);
    if (engine.drafts && options.draft_tokens != 0) g.allow_drafts(params);
    const Drafts drafts(sequence, g.drafting ? &*g.drafting : nullptr);
    // Without sampling a mask is needed only where the most likely token is not allowed.
    const bool greedy = params.temperature.value <= 0 && params.temperature.range <= 0;
    const Status status = impl_->run(prompt, false, greedy ? nullptr : g.constraint.get(),
                                     [&](int64_t, std::span<const float> x) { return g.step(x); });
    result.reused_tokens = sequence.reused;
    result.shifted_tokens = sequence.shifted - shifted;
    if (g.drafting) result.speculation = statistics_of(g.drafting->statistics);
    // The last token has been told but not computed: it is the first of the next call.
    const auto expected = static_cast<int64_t>(held + prompt.size()) + result.generated_tokens -
                          result.shifted_tokens;
    if (result.generated_tokens > 0 && static_cast<int64_t>(tokens.size()) < expected) {
      sequence.append_generated(g.last);
    }
    const bool ended_by_callback = result.reason == FinishReason::cancelled;
    bool failed = !g.failure.ok();
    if (status.code() == StatusCode::cancelled) {
      result.reason = FinishReason::cancelled;
    } else if (status.code() == StatusCode::does_not_fit && result.generated_tokens > 0) {
      result.reason = FinishReason::context;
    } else if (!status.ok()) {
      failed = true;
    }
    if (failed) {
      impl_->shorten(static_cast<int64_t>(held));
      return tl::unexpected(g.failure.ok() ? status : g.failure);
    }
    impl_->teach(result.generated_tokens);
    if (result.generated_tokens > 0 && !ended_by_callback) {
      if (const std::string rest = g.rest(); !rest.empty()) g.tell(-1, rest);
      INFER_CHECK_R(g.failure);
    }
    return result;
  });
}

Status Session::evaluate(std::span<const int32_t> tokens, const LogitsFn& on_logits) {
  return guarded([&]() -> Status {
    INFER_CHECK(impl_->enter());
    if (tokens.empty()) return {};
    const int64_t held = length();
    Status failure;
    const auto tell = [&](int64_t position, std::span<const float> logits) {
      // The last token of a generation may still have to be computed; nobody asked for its logits.
      if (position < held || !on_logits) return true;
      return call_back(failure, [&] { return on_logits(position, logits); });
    };
    Status status = impl_->run(tokens, true, nullptr, tell);
    if (!failure.ok()) status = failure;
    if (!status.ok() && status.code() != StatusCode::cancelled) impl_->shorten(held);
    return status;
  });
}

Status Session::save(const std::string& path) {
  return guarded([&]() -> Status {
    const Sequence& sequence = impl_->sequence;
    const SessionState state{sequence.tokens, sequence.generated, 0, sequence.shifted,
                             impl_->statistics.seed};
    return save_state(impl_->engine, path, state, sequence.kv);
  });
}

Status Session::restore(const std::string& path) {
  return guarded([&]() -> Status {
    Sequence& sequence = impl_->sequence;
    CacheSequence fresh(impl_->engine);
    INFER_TRY_S(SessionState state, restore_state(impl_->engine, path, fresh.id));
    std::swap(fresh.id, sequence.kv);
    sequence.tokens = std::move(state.tokens);
    sequence.generated = std::move(state.generated);
    sequence.computed = state.cached;
    sequence.shifted = state.shifted;
    impl_->statistics = {};
    impl_->statistics.seed = state.seed;
    impl_->statistics.reused_tokens = state.cached;
    return {};
  });
}

Status Session::truncate(int64_t length) {
  return guarded([&]() -> Status {
    if (length < 0 || length > this->length()) {
      return error(StatusCode::invalid_argument, "a length of 0 to {} is expected, found {}",
                   this->length(), length);
    }
    INFER_CHECK(impl_->engine.usable());
    impl_->shorten(length);
    return {};
  });
}

int64_t Session::room() const {
  return std::max<int64_t>(impl_->engine.cache_options.context - length(), 0);
}

const GenerateResult& Session::statistics() const { return impl_->statistics; }

int64_t Session::length() const { return static_cast<int64_t>(impl_->sequence.tokens.size()); }

void Session::cancel() { impl_->sequence.cancelled.store(true); }

}  // namespace infer
