#include <algorithm>
#include <chrono>
#include <cmath>

#include "engine/session/engine_impl.h"
#include "engine/session/evaluate_run.h"
#include "engine/session/generate_run.h"
#include "engine/session/sampling.h"
#include "engine/session/state.h"

namespace infer {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point deadline_after(double seconds) {
  // Clocks cannot count further.
  constexpr double kLongest = 1e9;
  if (!(seconds < kLongest)) return Clock::time_point::max();
  const std::chrono::duration<double> wait(std::max(seconds, 0.0));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
}

GenerateEvent event_of(GeneratedToken made) {
  GenerateEvent event;
  event.of_prompt = made.of_prompt;
  event.token = made.token;
  event.text = std::move(made.text);
  event.log_probabilities = std::move(made.log_probabilities);
  return event;
}

Status check(const GenerateOptions& options, int64_t vocabulary) {
  const std::pair<const char*, int32_t> counts[] = {{"max_tokens", options.max_tokens},
                                                    {"logprobs", options.logprobs},
                                                    {"prompt_logprobs", options.prompt_logprobs},
                                                    {"draft_tokens", options.draft_tokens}};
  for (const auto& [name, count] : counts) {
    if (count >= -1) continue;
    return error(StatusCode::invalid_argument, "{}: expected at least -1, found {}", name, count);
  }
  for (const auto& [token, bias] : options.sampling.logit_bias) {
    if (token >= 0 && token < vocabulary) continue;
    return error(StatusCode::invalid_argument,
                 "logit_bias: token {} is not in the vocabulary of 0 to {}", token, vocabulary - 1);
  }
  for (const int32_t token : options.stop_tokens) {
    if (token >= 0 && token < vocabulary) continue;
    return error(StatusCode::invalid_argument,
                 "stop_tokens: token {} is not in the vocabulary of 0 to {}", token,
                 vocabulary - 1);
  }
  if (options.min_tokens < 0) {
    return error(StatusCode::invalid_argument, "min_tokens: expected at least 0, found {}",
                 options.min_tokens);
  }
  if (options.keep < 0) {
    return error(StatusCode::invalid_argument, "keep: expected at least 0, found {}", options.keep);
  }
  if (!options.grammar.empty() && !options.json_schema.empty()) {
    return error(StatusCode::invalid_argument, "expected a grammar or a JSON schema, found both");
  }
  return {};
}

}  // namespace

struct Session::Impl {
  Engine::Impl& engine;
  Sequence sequence;                 ///< while something runs the engine alone uses it
  std::shared_ptr<GenerateRun> run;  ///< until its last event has been taken
  bool rest_told = false;
  int64_t told_length = 0;  ///< while it runs: tokens held after the reader's last event
  GenerateResult statistics;
  std::unique_ptr<EngineThread::Task> removal;  ///< of the sequence from the cache

  Impl(Engine::Impl& e, const SessionOptions& options) : engine(e) {
    if (options.context > 0) sequence.context = options.context;
    sequence.adapters = engine.adapter_factors(options.adapters);
    sequence.kv = engine.new_sequence();
    removal = engine.removal(sequence.kv);
    engine.counters.session_opened(1);
  }
  /// A copy of another session.
  Impl(const Impl& other) : engine(other.engine) {
    sequence.tokens = other.sequence.tokens;
    sequence.generated = other.sequence.generated;
    sequence.computed = other.sequence.computed;
    sequence.shifted = other.sequence.shifted;
    sequence.images = other.sequence.images;
    sequence.context = other.sequence.context;
    sequence.adapters = other.sequence.adapters;
    statistics.seed = other.statistics.seed;
    sequence.kv = engine.fork_sequence(other.sequence.kv);
    removal = engine.removal(sequence.kv);
    engine.counters.session_opened(1);
  }
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    end_run();
    engine.thread->post(std::move(removal));
    engine.counters.session_opened(-1);
  }

  /// Tokens that are computed at most.
  int64_t context() const { return std::min(sequence.context, engine.cache_options.context); }

  Status idle() const {
    if (run == nullptr) return {};
    return {StatusCode::invalid_argument,
            "the session is still generating: take its events until it has finished, or cancel it"};
  }

  /// The first thing in every call that computes. A cancel() after this ends the call.
  Status enter(std::span<const int32_t> tokens, std::span<const ModelImage> images = {}) {
    INFER_CHECK(idle());
    sequence.cancelled.store(false);
    INFER_CHECK(engine.usable());
    const ModelInfo& info = engine.opened.model->info();
    for (const ModelImage& image : images) {
      if (image.rows != nullptr && image.rows->width == info.embedding &&
          image.rows->parts == std::ssize(info.takes_images)) {
        continue;
      }
      return error(StatusCode::invalid_argument,
                   "images: expected images that this engine has read (read_image); one was not");
    }
    const int64_t vocabulary = info.vocabulary;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (!images.empty() && images.front().rows->begins(tokens.subspan(i))) {
        i += images.front().rows->tokens.size() - 1;
        images = images.subspan(1);
        continue;
      }
      if (tokens[i] < 0 || tokens[i] >= vocabulary) {
        return error(StatusCode::invalid_argument, "token {} is not in the vocabulary of 0 to {}",
                     tokens[i], vocabulary - 1);
      }
    }
    if (images.empty()) return {};
    return {StatusCode::invalid_argument, "images: the prompt has the tokens of only some of them"};
  }

  Status start(std::span<const int32_t> prompt, const GenerateOptions& options, bool reader_decides,
               std::function<void()> on_event) {
    INFER_CHECK(idle());
    statistics = {};
    INFER_CHECK(enter(prompt, options.images));
    if (!options.images.empty() && options.prompt_logprobs >= 0) {
      return error(StatusCode::unsupported,
                   "prompt_logprobs: a prompt with images has tokens without a probability");
    }
    INFER_TRY_S(
        const SamplingParams params,
        resolve_sampling(options.sampling, engine.opened.source->metadata(), *engine.tokenizer));
    INFER_CHECK(check(options, engine.opened.model->info().vocabulary));
    const bool nothing = options.max_tokens == 0 && prompt.empty();
    // After the last token that there is room for comes one more, which is not computed.
    const bool full = prompt.empty() && options.overflow != ContextOverflow::shift &&
                      static_cast<int64_t>(sequence.tokens.size()) > context();
    if (prompt.empty() && sequence.tokens.empty() && !nothing) {
      return error(StatusCode::invalid_argument,
                   "the session and the prompt are empty: give at least one token");
    }
    INFER_TRY_S(CallCount call, engine.begin_call());
    auto made = std::make_shared<GenerateRun>(engine, std::move(call), sequence,
                                              std::vector<int32_t>(prompt.begin(), prompt.end()),
                                              options, params, reader_decides, std::move(on_event));
    statistics.seed = params.seed;
    statistics.prompt_tokens = static_cast<int64_t>(prompt.size());
    statistics.reason = FinishReason::length;
    told_length = static_cast<int64_t>(sequence.tokens.size() + prompt.size());
    rest_told = false;
    if (nothing || full) {
      made->finish_empty(full ? FinishReason::context : FinishReason::length);
    } else {
      made->launch();
    }
    run = std::move(made);
    return {};
  }

  /// Waits for the next event, and adds it to the statistics.
  GenerateRun::Next next(GenerateRun::Told& told, Clock::time_point deadline) {
    const GenerateRun::Next next = run->next(told, deadline);
    if (next == GenerateRun::Next::token && !told.made.of_prompt) {
      told_length = told.length;
      statistics.generated_tokens = told.made.generated_tokens;
      statistics.prompt_seconds = told.made.prompt_seconds;
      statistics.generate_seconds = told.made.generate_seconds;
      statistics.first_token_seconds = told.made.first_token_seconds;
    }
    return next;
  }

  /// Ends the run and waits for its end. Its last events are dropped.
  void end_run() {
    if (run == nullptr) return;
    sequence.cancelled.store(true);
    if (engine.thread) engine.thread->wake();
    GenerateRun::Told told;
    while (run->next(told, Clock::time_point::max()) != GenerateRun::Next::finished) {
    }
    run.reset();
  }

  void shorten(int64_t length) {
    length = std::min(length, static_cast<int64_t>(sequence.tokens.size()));
    engine.thread->call([&] {
      if (engine.cache->has_sequence(sequence.kv)) engine.cache->rollback(sequence.kv, length);
    });
    sequence.cut(static_cast<size_t>(length));
    sequence.computed = std::min(sequence.computed, length);
    if (length == 0) sequence.shifted = 0;  // random draws are numbered from the beginning
  }

  /// After the run has finished: takes over its statistics and tokens.
  Status conclude() {
    const std::shared_ptr<GenerateRun> done = std::move(run);
    statistics = done->result();
    if (!done->status().ok()) shorten(done->held());
    return done->status();
  }

  /// After the reader has ended the run at a token: brings the session back to that token.
  void conclude_at(const GenerateRun::Told& last) {
    const GenerateResult so_far = statistics;
    const std::shared_ptr<GenerateRun> done = std::move(run);
    statistics = done->result();
    statistics.reason = FinishReason::cancelled;
    statistics.stop_string.clear();
    statistics.generated_tokens = so_far.generated_tokens;
    statistics.prompt_seconds = so_far.prompt_seconds;
    statistics.generate_seconds = so_far.generate_seconds;
    statistics.first_token_seconds = so_far.first_token_seconds;
    shorten(last.length);
    // If the token is not computed yet, the next call computes it first.
    if (length() >= last.length) return;
    if (last.made.of_prompt) {
      sequence.tokens.push_back(last.made.token);
    } else {
      sequence.append_generated(last.made.token);
    }
  }

  Status evaluate(std::span<const int32_t> tokens, const LogitsFn& on_logits, bool in_place,
                  std::span<const ModelImage> images = {}) {
    INFER_CHECK(enter(tokens, images));
    if (tokens.empty()) return {};
    INFER_TRY_S(const CallCount call, engine.begin_call());
    const int64_t held = length();
    const auto evaluation = std::make_shared<EvaluateRun>(engine, sequence, on_logits, in_place);
    Status status = evaluation->run(tokens, images);
    if (!status.ok() && status.code() != StatusCode::cancelled) shorten(held);
    return status;
  }

  int64_t length() const {
    return run == nullptr ? static_cast<int64_t>(sequence.tokens.size()) : told_length;
  }
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Engine::open_session(const SessionOptions& options) {
  if (makes_embeddings()) {
    return fail(StatusCode::unsupported,
                "{}: the model makes vectors of texts and generates none; use embed or rerank",
                impl_->description.path);
  }
  return guarded([&]() -> Result<std::unique_ptr<Session>> {
    if (options.context < 0) {
      return fail(StatusCode::invalid_argument, "a context of at least 0 is expected, found {}",
                  options.context);
    }
    const size_t adapters = impl_->opened.adapter_scales.size();
    if (!options.adapters.empty() && options.adapters.size() != adapters) {
      return fail(StatusCode::invalid_argument, "adapters: expected {} factors, found {}", adapters,
                  options.adapters.size());
    }
    for (const float factor : options.adapters) {
      if (std::isfinite(factor)) continue;
      return fail(StatusCode::invalid_argument, "adapters: expected finite factors, found {}",
                  factor);
    }
    INFER_CHECK_R(impl_->usable());
    return std::unique_ptr<Session>(new Session(std::make_unique<Session::Impl>(*impl_, options)));
  });
}

Status Session::start(std::span<const int32_t> prompt, const GenerateOptions& options,
                      std::function<void()> on_event) {
  return guarded([&] { return impl_->start(prompt, options, false, std::move(on_event)); });
}

Result<std::optional<GenerateEvent>> Session::next(double timeout_seconds) {
  return guarded([&]() -> Result<std::optional<GenerateEvent>> {
    if (impl_->run == nullptr) {
      return fail(StatusCode::invalid_argument, "no generation is running: start one first");
    }
    GenerateRun::Told told;
    const GenerateRun::Next next = impl_->next(told, deadline_after(timeout_seconds));
    if (next == GenerateRun::Next::nothing) return std::optional<GenerateEvent>();
    if (next == GenerateRun::Next::token) return std::optional(event_of(std::move(told.made)));
    GenerateRun& run = *impl_->run;
    if (run.status().ok() && run.result().generated_tokens > 0 && !impl_->rest_told) {
      impl_->rest_told = true;
      if (std::string rest = run.rest(); !rest.empty()) {
        GenerateEvent event;
        event.text = std::move(rest);
        return std::optional(std::move(event));
      }
    }
    GenerateEvent event;
    event.finished = true;
    event.status = impl_->conclude();
    event.result = impl_->statistics;
    return std::optional(std::move(event));
  });
}

Result<GenerateResult> Session::generate(std::span<const int32_t> prompt,
                                         const GenerateOptions& options, const TokenFn& on_token) {
  return guarded([&]() -> Result<GenerateResult> {
    Impl& session = *impl_;
    INFER_CHECK_R(session.start(prompt, options, true, {}));
    struct Ends {
      Impl& session;
      ~Ends() { session.end_run(); }
    } ends{session};
    const bool tells_logprobs = options.logprobs >= 0 && options.on_logprobs;
    const bool tells_prompt = options.prompt_logprobs >= 0 && options.on_prompt_logprobs;
    Status failure;  // what a callback has thrown
    const auto tell_logprobs = [&](const LogprobsFn& on_logprobs, const GeneratedToken& made) {
      return call_back(failure, [&] { return on_logprobs(made.log_probabilities); });
    };
    const auto tell = [&](int32_t token, const std::string& text) {
      return !on_token || call_back(failure, [&] { return on_token(token, text); });
    };
    GenerateRun::Told told;
    while (session.next(told, Clock::time_point::max()) == GenerateRun::Next::token) {
      const bool wanted =
          told.made.of_prompt
              ? !tells_prompt || tell_logprobs(options.on_prompt_logprobs, told.made)
              : (!tells_logprobs || tell_logprobs(options.on_logprobs, told.made)) &&
                    tell(told.made.token, told.made.text);
      if (wanted) continue;
      session.sequence.cancelled.store(true);
      GenerateRun::Told after;
      while (session.run->next(after, Clock::time_point::max()) == GenerateRun::Next::token) {
      }
      const int64_t held = session.run->held();
      session.conclude_at(told);
      if (failure.ok()) return session.statistics;
      session.shorten(held);
      return tl::unexpected(std::move(failure));
    }
    GenerateRun& run = *session.run;
    if (run.status().ok() && run.result().generated_tokens > 0) {
      const std::string rest = run.rest();
      if (!rest.empty()) tell(-1, rest);
    }
    INFER_CHECK_R(session.conclude());
    INFER_CHECK_R(failure);
    return session.statistics;
  });
}

Status Session::evaluate(std::span<const int32_t> tokens, const LogitsFn& on_logits,
                         std::span<const ModelImage> images) {
  return guarded([&] { return impl_->evaluate(tokens, on_logits, false, images); });
}

Status SessionAccess::evaluate_in_place(Session& session, std::span<const int32_t> tokens,
                                        const LogitsFn& on_logits) {
  return guarded([&] { return session.impl_->evaluate(tokens, on_logits, true); });
}

Status Session::save(const std::string& path) {
  return guarded([&]() -> Status {
    INFER_CHECK(impl_->idle());
    const Sequence& sequence = impl_->sequence;
    if (!sequence.images.empty()) {
      return error(StatusCode::unsupported, "{}: a session with images cannot be saved", path);
    }
    const SessionState state{sequence.tokens,  sequence.generated,     0,
                             sequence.shifted, impl_->statistics.seed, sequence.adapters};
    return save_state(impl_->engine, path, state, sequence.kv);
  });
}

Status Session::restore(const std::string& path) {
  return guarded([&]() -> Status {
    INFER_CHECK(impl_->idle());
    Sequence& sequence = impl_->sequence;
    CacheSequence fresh(impl_->engine);
    INFER_TRY_S(SessionState state,
                restore_state(impl_->engine, path, fresh.id, sequence.adapters));
    // One more: see restore_state().
    if (static_cast<int64_t>(state.tokens.size()) - 1 > sequence.context) {
      return error(StatusCode::does_not_fit, "{}: {} tokens do not fit: the session may have {}",
                   path, state.tokens.size(), sequence.context);
    }
    std::swap(fresh.id, sequence.kv);
    std::swap(fresh.removal, impl_->removal);
    sequence.tokens = std::move(state.tokens);
    sequence.generated = std::move(state.generated);
    sequence.computed = state.cached;
    sequence.shifted = state.shifted;
    sequence.images.clear();
    impl_->statistics = {};
    impl_->statistics.seed = state.seed;
    impl_->statistics.reused_tokens = state.cached;
    return {};
  });
}

Result<std::unique_ptr<Session>> Session::fork() {
  return guarded([&]() -> Result<std::unique_ptr<Session>> {
    INFER_CHECK_R(impl_->idle());
    INFER_CHECK_R(impl_->engine.usable());
    return std::unique_ptr<Session>(new Session(std::make_unique<Impl>(*impl_)));
  });
}

Status Session::truncate(int64_t length) {
  return guarded([&]() -> Status {
    INFER_CHECK(impl_->idle());
    if (length < 0 || length > this->length()) {
      return error(StatusCode::invalid_argument, "length: expected 0 to {}, found {}",
                   this->length(), length);
    }
    INFER_CHECK(impl_->engine.usable());
    impl_->shorten(length);
    return {};
  });
}

int64_t Session::room() const { return std::max<int64_t>(impl_->context() - length(), 0); }

int64_t Session::number() const { return impl_->sequence.kv; }

const GenerateResult& Session::statistics() const { return impl_->statistics; }

int64_t Session::length() const { return impl_->length(); }

void Session::cancel() { impl_->sequence.cancelled.store(true); }

}  // namespace infer
