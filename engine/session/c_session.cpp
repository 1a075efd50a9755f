// The C API of sessions: options of a generation, and its events.
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "engine/session/c_api.h"

using namespace infer::c;

static_assert(INFER_FINISH_CANCELLED == static_cast<int>(infer::FinishReason::cancelled));

struct infer_session {
  std::shared_ptr<infer::Engine> engine;
  std::unique_ptr<infer::Session> session;
  int32_t prompt_logprobs = -1;
  infer::LogprobsFn on_prompt_logprobs;
  int32_t min_tokens = 0;
  std::vector<int32_t> stop_tokens;
  std::vector<infer::ModelImage> images;  ///< of the next call that generates
  // The last event points into this.
  infer::GenerateEvent event;
  std::vector<infer_logprob> log_probabilities;
};

namespace {

/// What a field holds that is unset: −1 if its range has no negative numbers. Otherwise a number
/// below its range if the model may have a value, and else the preset.
template <typename T>
constexpr T unset(T preset, double low, std::string_view key) {
  if (low >= 0) return -1;
  return key.empty() ? preset : static_cast<T>(low - 1);
}

/// Written so that a NaN is passed on, to be refused.
template <typename T>
void set(std::optional<T>& to, T value, T unset, double low) {
  const bool is_unset = low >= 0 ? value < 0 : value == unset;
  if (!is_unset) to = value;
}

infer::LogprobsFn logprobs_function(infer_logprobs_fn tell, void* user) {
  if (tell == nullptr) return {};
  return [tell, user](const auto& logprobs) {
    std::vector<infer_logprob> all;
    for (const auto& [token, value] : logprobs) all.push_back({token, value});
    return tell(user, all.data(), all.size()) != 0;
  };
}

Result<infer::GenerateOptions> generate_options(const infer_generate_options* given) {
  infer_generate_options o;
  infer_generate_options_init(&o, sizeof(o));
  INFER_CHECK_R(read_options(given, o));
  infer::GenerateOptions to;
  to.max_tokens = o.max_tokens;
  to.ignore_end = o.ignore_end != 0;
#define INFER_SAMPLING(type, name, preset, low, high, key, ...) \
  set<type>(to.sampling.name, o.name, unset<type>(preset, low, key), low);
#include "infer/samplers.def"
  if (o.has_seed != 0) to.sampling.seed = o.seed;
  if (o.logit_bias_count > 0 && o.logit_bias == nullptr)
    return tl::unexpected(null_argument("logit_bias"));
  for (size_t i = 0; i < o.logit_bias_count; ++i) {
    to.sampling.logit_bias.emplace_back(o.logit_bias[i].token, o.logit_bias[i].bias);
  }
  if (o.shift_context != 0) to.overflow = infer::ContextOverflow::shift;
  to.keep = o.keep;
  to.draft_tokens = o.draft_tokens;
  if (o.stop_count > 0 && o.stop == nullptr) return tl::unexpected(null_argument("stop"));
  for (size_t i = 0; i < o.stop_count; ++i) {
    if (o.stop[i] == nullptr) return tl::unexpected(null_argument("a stop string"));
    to.stop.emplace_back(o.stop[i]);
  }
  to.logprobs = o.logprobs;
  to.on_logprobs = logprobs_function(o.on_logprobs, o.logprobs_user);
  to.special_text = o.special_text != 0;
  to.priority = o.priority;
  if (o.grammar != nullptr) to.grammar = o.grammar;
  if (o.json_schema != nullptr) to.json_schema = o.json_schema;
  if (o.samplers != nullptr) to.sampling.samplers = parts_of(o.samplers, ';');
  return to;
}

/// Reads the arguments of a generation and makes the call with them.
template <typename Call>
infer_status with_arguments(infer_session* session, const int32_t* prompt, size_t prompt_count,
                            const infer_generate_options* options, Call call) {
  return checked([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    INFER_TRY_S(const std::span<const int32_t> tokens, token_span(prompt, prompt_count));
    INFER_TRY_S(infer::GenerateOptions generate, generate_options(options));
    generate.prompt_logprobs = session->prompt_logprobs;
    generate.on_prompt_logprobs = session->on_prompt_logprobs;
    generate.min_tokens = session->min_tokens;
    generate.stop_tokens = session->stop_tokens;
    generate.images = session->images;
    INFER_CHECK(call(*session->session, tokens, generate));
    session->images.clear();
    return {};
  });
}

}  // namespace

void infer_generate_options_init(infer_generate_options* options, size_t struct_size) {
  infer_generate_options o = {};
  o.struct_size = struct_size;
  o.max_tokens = -1;
  o.logprobs = -1;
  o.draft_tokens = -1;
#define INFER_SAMPLING(type, name, preset, low, high, key, ...) \
  o.name = unset<type>(preset, low, key);
#include "infer/samplers.def"
  write_struct(o, options, struct_size);
}

infer_status infer_session_open(infer_engine* engine, infer_session** session) {
  return infer_session_open_with(engine, nullptr, session);
}

void infer_session_options_init(infer_session_options* options, size_t struct_size) {
  write_struct(infer_session_options{struct_size, 0, nullptr, 0}, options, struct_size);
}

infer_status infer_session_open_with(infer_engine* engine, const infer_session_options* options,
                                     infer_session** session) {
  return checked([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (session == nullptr) return null_argument("session");
    infer_session_options o;
    infer_session_options_init(&o, sizeof(o));
    INFER_CHECK(read_options(options, o));
    if (o.adapter_count > 0 && o.adapters == nullptr) return null_argument("adapters");
    auto made = std::make_unique<infer_session>();
    made->engine = engine->engine;
    INFER_TRY_S(made->session, engine->engine->open_session(
                                   {o.context, {o.adapters, o.adapters + o.adapter_count}}));
    *session = made.release();
    return {};
  });
}

void infer_session_free(infer_session* session) { delete session; }

infer_status infer_generate(infer_session* session, const int32_t* prompt, size_t prompt_count,
                            const infer_generate_options* options, infer_token_fn on_token,
                            void* user) {
  infer::TokenFn tell;
  if (on_token != nullptr) {
    tell = [=](int32_t token, std::string_view text) {
      return on_token(user, token, text.data(), text.size()) != 0;
    };
  }
  return with_arguments(session, prompt, prompt_count, options,
                        [&](infer::Session& s, auto tokens, const auto& generate) -> Status {
                          const auto result = s.generate(tokens, generate, tell);
                          return result ? Status() : result.error();
                        });
}

infer_status infer_session_set_images(infer_session* session, const infer_image* const* images,
                                      size_t count) {
  return checked([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    INFER_TRY_S(session->images, images_of(images, count));
    return {};
  });
}

infer_status infer_session_set_prompt_logprobs(infer_session* session, int32_t most_likely,
                                               infer_logprobs_fn on_logprobs, void* user) {
  return checked([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    if (most_likely < -1) {
      return infer::error(infer::StatusCode::invalid_argument,
                          "most_likely: expected at least -1, found {}", most_likely);
    }
    session->prompt_logprobs = most_likely;
    session->on_prompt_logprobs = logprobs_function(on_logprobs, user);
    return {};
  });
}

infer_status infer_session_set_ends(infer_session* session, int32_t min_tokens,
                                    const int32_t* stop_tokens, size_t count) {
  return checked([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    if (count > 0 && stop_tokens == nullptr) return null_argument("stop_tokens");
    if (min_tokens < 0) {
      return infer::error(infer::StatusCode::invalid_argument,
                          "min_tokens: expected at least 0, found {}", min_tokens);
    }
    session->stop_tokens.assign(stop_tokens, stop_tokens + count);
    session->min_tokens = min_tokens;
    return {};
  });
}

infer_status infer_session_start(infer_session* session, const int32_t* prompt, size_t prompt_count,
                                 const infer_generate_options* options, infer_event_fn on_event,
                                 void* user) {
  std::function<void()> wake;
  if (on_event != nullptr) wake = [on_event, user] { on_event(user); };
  return with_arguments(session, prompt, prompt_count, options,
                        [&](infer::Session& s, auto tokens, const auto& generate) {
                          return s.start(tokens, generate, std::move(wake));
                        });
}

infer_status infer_session_next(infer_session* session, double timeout_seconds, infer_event* event,
                                size_t event_size, int32_t* taken) {
  return checked([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    if (event == nullptr) return null_argument("event");
    if (taken == nullptr) return null_argument("taken");
    INFER_TRY_S(std::optional<infer::GenerateEvent> next, session->session->next(timeout_seconds));
    *taken = next ? 1 : 0;
    if (!next) return {};
    infer::GenerateEvent& kept = session->event;
    kept = *std::move(next);
    session->log_probabilities.clear();
    for (const auto& [token, value] : kept.log_probabilities) {
      session->log_probabilities.push_back({token, value});
    }
    const infer_event told = {kept.finished ? 1 : 0,
                              kept.token,
                              kept.text.data(),
                              kept.text.size(),
                              session->log_probabilities.data(),
                              session->log_probabilities.size(),
                              static_cast<infer_status>(kept.status.code()),
                              kept.status.ok() ? "" : kept.status.message().c_str(),
                              kept.of_prompt ? 1 : 0};
    write_struct(told, event, event_size);
    return {};
  });
}

infer_status infer_session_statistics(const infer_session* session, infer_statistics* statistics,
                                      size_t statistics_size) {
  return checked([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    if (statistics == nullptr) return null_argument("statistics");
    const infer::GenerateResult& r = session->session->statistics();
    write_struct(
        infer_statistics{r.prompt_tokens, r.generated_tokens, r.prompt_seconds, r.generate_seconds,
                         r.first_token_seconds, r.seed, static_cast<int32_t>(r.reason),
                         r.reused_tokens, r.shifted_tokens, r.speculation.drafted,
                         r.speculation.accepted, r.speculation.draft_seconds, r.queue_seconds},
        statistics, statistics_size);
    return {};
  });
}

infer_status infer_evaluate(infer_session* session, const int32_t* tokens, size_t count,
                            infer_logits_fn on_logits, void* user) {
  return checked([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    INFER_TRY_S(const std::span<const int32_t> ids, token_span(tokens, count));
    infer::LogitsFn tell;
    if (on_logits != nullptr) {
      tell = [&](int64_t position, std::span<const float> logits) {
        return on_logits(user, position, logits.data(), logits.size()) != 0;
      };
    }
    return session->session->evaluate(ids, tell);
  });
}

infer_status infer_session_save(infer_session* session, const char* path) {
  return checked([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    if (path == nullptr) return null_argument("path");
    return session->session->save(path);
  });
}

infer_status infer_session_restore(infer_session* session, const char* path) {
  return checked([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    if (path == nullptr) return null_argument("path");
    return session->session->restore(path);
  });
}

infer_status infer_session_fork(infer_session* session, infer_session** fork) {
  return checked([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    if (fork == nullptr) return null_argument("fork");
    auto made = std::make_unique<infer_session>();
    made->engine = session->engine;
    INFER_TRY_S(made->session, session->session->fork());
    *fork = made.release();
    return {};
  });
}

infer_status infer_session_truncate(infer_session* session, int64_t length) {
  return checked([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    return session->session->truncate(length);
  });
}

int64_t infer_session_length(const infer_session* session) {
  return session == nullptr ? 0 : session->session->length();
}

int64_t infer_session_room(const infer_session* session) {
  int64_t room = 0;
  checked([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    room = session->session->room();
    return {};
  });
  return room;
}

void infer_session_cancel(infer_session* session) {
  if (session != nullptr) session->session->cancel();
}
