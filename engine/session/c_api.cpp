// The C API of models, vocabularies, engines and sessions: a thin layer over infer.hpp. Every
// function checks its pointers; checked() turns failures into a status and a message.
#include <algorithm>
#include <cstring>
#include <limits>

#include "engine/session/c_api.h"
#include "engine/session/engine_impl.h"
#include "infer/infer.h"

using infer::Result;
using infer::Status;
using infer::StatusCode;
using infer::c::checked;
using infer::c::describe_in_c;
using infer::c::null_argument;
using infer::c::read_options;
using infer::c::write_struct;

static_assert(INFER_INTERNAL == static_cast<int>(StatusCode::internal));
static_assert(INFER_DOES_NOT_FIT == static_cast<int>(StatusCode::does_not_fit));
static_assert(INFER_CANCELLED == static_cast<int>(StatusCode::cancelled));
static_assert(INFER_FINISH_CANCELLED == static_cast<int>(infer::FinishReason::cancelled));

struct infer_vocabulary {
  std::unique_ptr<infer::Vocabulary> owned;
  const infer::Vocabulary* vocabulary = nullptr;
};

struct infer_chat_template {
  std::unique_ptr<infer::ChatTemplate> owned;
};

/// The engine itself is shared with the sessions, so that it outlives them.
struct infer_engine {
  std::shared_ptr<infer::Engine> engine;
  infer_vocabulary vocabulary;
  infer_description description;
};

struct infer_session {
  std::shared_ptr<infer::Engine> engine;
  std::unique_ptr<infer::Session> session;
};

namespace {

template <typename T>
Status write_buffer(std::span<const T> from, T* buffer, size_t capacity, size_t* count) {
  if (buffer == nullptr && capacity > 0) return null_argument("the buffer");
  *count = from.size();
  std::copy_n(from.data(), std::min(from.size(), capacity), buffer);
  return {};
}

Result<std::span<const int32_t>> token_span(const int32_t* tokens, size_t count) {
  if (tokens == nullptr && count > 0) {
    return tl::unexpected(null_argument("the array of tokens"));
  }
  if (count > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return infer::fail(StatusCode::invalid_argument, "{} tokens are too many", count);
  }
  return std::span(tokens, count);
}

infer_memory memory_of(const infer::MemoryReport& r) {
  return {r.weights,         r.kv,         r.activations, r.scratch,  r.total,   r.available,
          r.context,         r.page_bytes, r.pages,       r.host,     r.process, r.batch_rows,
          r.spilled ? 1 : 0, r.draft,      r.gpu_layers,  r.drafters, r.grammars};
}

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Result<infer::LoadOptions> load_options(const infer_load_options* given) {
  infer_load_options o;
  infer_load_options_init(&o, sizeof(o));
  INFER_CHECK_R(read_options(given, o));
  infer::LoadOptions to;
  const auto text = [](std::string& field, const char* value) {
    if (value != nullptr) field = value;
  };
  text(to.device, o.device);
  text(to.cache_type_k, o.cache_type_k);
  text(to.cache_type_v, o.cache_type_v);
  text(to.isa, o.isa);
  to.context = o.context;
  to.memory_limit = o.memory_limit;
  to.threads = o.threads;
  to.batch_rows = o.batch_rows;
  to.output_rows = o.output_rows;
  to.exact = o.exact != 0;
  to.mmap = o.mmap != 0;
  to.spill = o.spill != 0;
  to.reserve = o.reserve;
  to.parallel = o.parallel;
  to.prefix_reuse = o.prefix_reuse != 0;
  text(to.cache_folder, o.cache_folder);
  to.cache_folder_limit = o.cache_folder_limit;
  to.fewer_rows = o.fewer_rows != 0;
  text(to.draft_model, o.draft_model);
  text(to.quantize, o.quantize);
  to.gpu_layers = o.gpu_layers;
  text(to.fallback, o.fallback);
  to.grammars = o.grammars != 0;
  if (o.drafters != nullptr) to.drafters = parts_of(o.drafters, ';');
  if (o.progress != nullptr) {
    to.progress = [call = o.progress, user = o.progress_user](double done) {
      return call(user, done) != 0;
    };
  }
  return to;
}

/// Written so that a NaN is passed on, to be refused.
template <typename T>
void set_unless_negative(std::optional<T>& to, T value) {
  if (!(value < 0)) to = value;
}

Result<infer::GenerateOptions> generate_options(const infer_generate_options* given) {
  infer_generate_options o;
  infer_generate_options_init(&o, sizeof(o));
  INFER_CHECK_R(read_options(given, o));
  infer::GenerateOptions to;
  to.max_tokens = o.max_tokens;
  to.ignore_end = o.ignore_end != 0;
  set_unless_negative(to.sampling.temperature, o.temperature);
  set_unless_negative(to.sampling.top_p, o.top_p);
  set_unless_negative(to.sampling.min_p, o.min_p);
  set_unless_negative(to.sampling.top_k, o.top_k);
  if (o.has_seed != 0) to.sampling.seed = o.seed;
  set_unless_negative(to.sampling.typical_p, o.typical_p);
  set_unless_negative(to.sampling.repeat_penalty, o.repeat_penalty);
  to.sampling.frequency_penalty = o.frequency_penalty;
  to.sampling.presence_penalty = o.presence_penalty;
  if (o.penalty_last != -2) to.sampling.penalty_last = o.penalty_last;
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
  if (o.on_logprobs != nullptr) {
    to.on_logprobs = [tell = o.on_logprobs, user = o.logprobs_user](const auto& logprobs) {
      std::vector<infer_logprob> all;
      for (const auto& [token, value] : logprobs) all.push_back({token, value});
      return tell(user, all.data(), all.size()) != 0;
    };
  }
  set_unless_negative(to.sampling.xtc_probability, o.xtc_probability);
  set_unless_negative(to.sampling.xtc_threshold, o.xtc_threshold);
  set_unless_negative(to.sampling.mirostat, o.mirostat);
  set_unless_negative(to.sampling.mirostat_target, o.mirostat_target);
  set_unless_negative(to.sampling.mirostat_rate, o.mirostat_rate);
  set_unless_negative(to.sampling.top_n_sigma, o.top_n_sigma);
  set_unless_negative(to.sampling.dynamic_range, o.dynamic_range);
  set_unless_negative(to.sampling.dynamic_exponent, o.dynamic_exponent);
  set_unless_negative(to.sampling.dry_multiplier, o.dry_multiplier);
  set_unless_negative(to.sampling.dry_base, o.dry_base);
  set_unless_negative(to.sampling.dry_allowed_length, o.dry_allowed_length);
  to.sampling.dry_penalty_last = o.dry_penalty_last;
  to.special_text = o.special_text != 0;
  if (o.grammar != nullptr) to.grammar = o.grammar;
  if (o.json_schema != nullptr) to.json_schema = o.json_schema;
  if (o.samplers != nullptr) to.sampling.samplers = parts_of(o.samplers, ';');
  return to;
}

}  // namespace

void infer_load_options_init(infer_load_options* options, size_t struct_size) {
  infer_load_options o = {};
  const infer::LoadOptions defaults;
  o.struct_size = struct_size;
  o.device = "cpu";
  o.cache_type_k = "f16";
  o.cache_type_v = "f16";
  o.batch_rows = defaults.batch_rows;
  o.output_rows = defaults.output_rows;
  o.reserve = defaults.reserve;
  o.parallel = defaults.parallel;
  o.prefix_reuse = defaults.prefix_reuse ? 1 : 0;
  o.cache_folder_limit = defaults.cache_folder_limit;
  o.gpu_layers = defaults.gpu_layers;
  o.fewer_rows = defaults.fewer_rows ? 1 : 0;
  write_struct(o, options, struct_size);
}

infer_status infer_plan(const char* path, const infer_load_options* options, infer_memory* memory,
                        size_t memory_size) {
  return checked([&]() -> Status {
    if (path == nullptr) return null_argument("path");
    if (memory == nullptr) return null_argument("memory");
    INFER_TRY_S(const infer::LoadOptions load, load_options(options));
    INFER_TRY_S(const infer::MemoryReport report, infer::plan_model(path, load));
    write_struct(memory_of(report), memory, memory_size);
    return {};
  });
}

infer_status infer_vocabulary_load(const char* path, infer_vocabulary** vocabulary) {
  return checked([&]() -> Status {
    if (path == nullptr) return null_argument("path");
    if (vocabulary == nullptr) return null_argument("vocabulary");
    auto made = std::make_unique<infer_vocabulary>();
    INFER_TRY_S(made->owned, infer::Vocabulary::load(path));
    made->vocabulary = made->owned.get();
    *vocabulary = made.release();
    return {};
  });
}

void infer_vocabulary_free(infer_vocabulary* vocabulary) {
  // That of an engine is part of the engine.
  if (vocabulary != nullptr && vocabulary->owned != nullptr) delete vocabulary;
}

int32_t infer_vocabulary_size(const infer_vocabulary* vocabulary) {
  return vocabulary == nullptr ? 0 : vocabulary->vocabulary->size();
}

infer_status infer_tokenize(const infer_vocabulary* vocabulary, const char* text, size_t length,
                            uint32_t flags, int32_t* tokens, size_t capacity, size_t* count) {
  return checked([&]() -> Status {
    if (vocabulary == nullptr) return null_argument("vocabulary");
    if (text == nullptr && length > 0) return null_argument("text");
    if (count == nullptr) return null_argument("count");
    if ((flags & ~uint32_t{INFER_ADD_SPECIAL | INFER_PARSE_SPECIAL}) != 0) {
      return infer::error(StatusCode::invalid_argument, "unknown flags in {:#x}", flags);
    }
    infer::TokenizeOptions options;
    options.add_special = (flags & INFER_ADD_SPECIAL) != 0;
    options.parse_special = (flags & INFER_PARSE_SPECIAL) != 0;
    INFER_TRY_S(const std::vector<int32_t> ids,
                vocabulary->vocabulary->tokenize({text, length}, options));
    return write_buffer(std::span(ids), tokens, capacity, count);
  });
}

infer_status infer_detokenize(const infer_vocabulary* vocabulary, const int32_t* tokens,
                              size_t token_count, char* text, size_t capacity, size_t* length) {
  return checked([&]() -> Status {
    if (vocabulary == nullptr) return null_argument("vocabulary");
    if (length == nullptr) return null_argument("length");
    INFER_TRY_S(const std::span<const int32_t> ids, token_span(tokens, token_count));
    const std::string bytes = vocabulary->vocabulary->detokenize(ids);
    return write_buffer(std::span(bytes), text, capacity, length);
  });
}

infer_status infer_token_piece(const infer_vocabulary* vocabulary, int32_t token, char* text,
                               size_t capacity, size_t* length) {
  return checked([&]() -> Status {
    if (vocabulary == nullptr) return null_argument("vocabulary");
    if (length == nullptr) return null_argument("length");
    const int32_t size = vocabulary->vocabulary->size();
    if (token < 0 || token >= size) {
      return infer::error(StatusCode::invalid_argument,
                          "token {} is not in the vocabulary of 0 to {}", token, size - 1);
    }
    const std::string_view piece = vocabulary->vocabulary->piece(token);
    return write_buffer(std::span(piece), text, capacity, length);
  });
}

infer_status infer_special(const infer_vocabulary* vocabulary, infer_special_tokens* tokens,
                           size_t tokens_size) {
  return checked([&]() -> Status {
    if (vocabulary == nullptr) return null_argument("vocabulary");
    if (tokens == nullptr) return null_argument("tokens");
    const infer::SpecialTokenIds s = vocabulary->vocabulary->special();
    write_struct(
        infer_special_tokens{s.bos, s.eos, s.eot, s.unknown, s.padding, s.adds_bos, s.adds_eos},
        tokens, tokens_size);
    return {};
  });
}

int infer_is_end_of_generation(const infer_vocabulary* vocabulary, int32_t token) {
  return vocabulary != nullptr && vocabulary->vocabulary->is_end_of_generation(token) ? 1 : 0;
}

infer_status infer_chat_template_create(const char* source, size_t length,
                                        infer_chat_template** chat_template) {
  return checked([&]() -> Status {
    if (source == nullptr && length > 0) return null_argument("source");
    if (chat_template == nullptr) return null_argument("chat_template");
    auto made = std::make_unique<infer_chat_template>();
    INFER_TRY_S(made->owned, infer::ChatTemplate::parse({source, length}));
    *chat_template = made.release();
    return {};
  });
}

void infer_chat_template_free(infer_chat_template* chat_template) { delete chat_template; }

infer_status infer_chat_template_render(const infer_chat_template* chat_template,
                                        const char* variables_json, size_t json_length,
                                        const char* now, char* text, size_t capacity,
                                        size_t* length) {
  return checked([&]() -> Status {
    if (chat_template == nullptr) return null_argument("chat_template");
    if (variables_json == nullptr) return null_argument("variables_json");
    if (length == nullptr) return null_argument("length");
    INFER_TRY_S(const std::string rendered,
                chat_template->owned->render({variables_json, json_length},
                                             now == nullptr ? std::string_view() : now));
    return write_buffer(std::span(rendered), text, capacity, length);
  });
}

infer_status infer_engine_load(const char* path, const infer_load_options* options,
                               infer_engine** engine) {
  return checked([&]() -> Status {
    if (path == nullptr) return null_argument("path");
    if (engine == nullptr) return null_argument("engine");
    INFER_TRY_S(const infer::LoadOptions load, load_options(options));
    auto made = std::make_unique<infer_engine>();
    INFER_TRY_S(made->engine, infer::Engine::load(path, load));
    made->vocabulary.vocabulary = &made->engine->vocabulary();
    describe_in_c(made->engine->model(), made->description);
    *engine = made.release();
    return {};
  });
}

void infer_engine_free(infer_engine* engine) { delete engine; }

const infer_vocabulary* infer_engine_vocabulary(const infer_engine* engine) {
  return engine == nullptr ? nullptr : &engine->vocabulary;
}

int32_t infer_engine_logit_count(const infer_engine* engine) {
  return engine == nullptr ? 0 : engine->engine->vocabulary_size();
}

const infer_description* infer_engine_description(const infer_engine* engine) {
  return engine == nullptr ? nullptr : &engine->description;
}

infer_status infer_engine_memory(const infer_engine* engine, infer_memory* memory,
                                 size_t memory_size) {
  return checked([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (memory == nullptr) return null_argument("memory");
    write_struct(memory_of(engine->engine->memory()), memory, memory_size);
    return {};
  });
}

infer_status infer_engine_resize_cache(infer_engine* engine, int64_t bytes) {
  return checked([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    return engine->engine->resize_cache(bytes);
  });
}

void infer_generate_options_init(infer_generate_options* options, size_t struct_size) {
  infer_generate_options o = {};
  o.struct_size = struct_size;
  o.max_tokens = -1;
  o.temperature = -1;
  o.top_p = -1;
  o.min_p = -1;
  o.top_k = -1;
  o.typical_p = -1;
  o.repeat_penalty = -1;
  o.penalty_last = -2;
  o.logprobs = -1;
  o.draft_tokens = -1;
  o.xtc_probability = o.xtc_threshold = -1;
  o.mirostat = -1;
  o.mirostat_target = o.mirostat_rate = -1;
  o.top_n_sigma = o.dynamic_range = o.dynamic_exponent = -1;
  o.dry_multiplier = o.dry_base = -1;
  o.dry_allowed_length = -1;
  o.dry_penalty_last = -1;
  write_struct(o, options, struct_size);
}

infer_status infer_session_open(infer_engine* engine, infer_session** session) {
  return checked([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (session == nullptr) return null_argument("session");
    auto made = std::make_unique<infer_session>();
    made->engine = engine->engine;
    INFER_TRY_S(made->session, engine->engine->open_session());
    *session = made.release();
    return {};
  });
}

void infer_session_free(infer_session* session) { delete session; }

infer_status infer_generate(infer_session* session, const int32_t* prompt, size_t prompt_count,
                            const infer_generate_options* options, infer_token_fn on_token,
                            void* user) {
  return checked([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    INFER_TRY_S(const std::span<const int32_t> tokens, token_span(prompt, prompt_count));
    INFER_TRY_S(const infer::GenerateOptions generate, generate_options(options));
    infer::TokenFn tell;
    if (on_token != nullptr) {
      tell = [&](int32_t token, std::string_view text) {
        return on_token(user, token, text.data(), text.size()) != 0;
      };
    }
    const auto result = session->session->generate(tokens, generate, tell);
    return result ? Status() : result.error();
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
                         r.speculation.accepted, r.speculation.draft_seconds},
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
