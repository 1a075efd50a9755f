// The C API of models, vocabularies and engines: a thin layer over infer.hpp. Every
// function checks its pointers; checked() turns failures into a status and a message.
#include <algorithm>
#include <cstring>

#include "engine/session/c_api.h"
#include "engine/session/engine_impl.h"
#include "infer/infer.h"

using namespace infer::c;

static_assert(INFER_INTERNAL == static_cast<int>(StatusCode::internal));
static_assert(INFER_DOES_NOT_FIT == static_cast<int>(StatusCode::does_not_fit));
static_assert(INFER_BUSY == static_cast<int>(StatusCode::busy));
static_assert(INFER_CANCELLED == static_cast<int>(StatusCode::cancelled));
static_assert(INFER_FITS_MEMORY == static_cast<int>(infer::Alternative::Kind::memory));

/// Alternatives and the C structures that point into them. Not to be moved once filled.
struct infer_alternative_list {
  struct Item {
    infer::LoadOptions options;
    std::vector<std::string> lists;  ///< options that are lists, each as one text
    infer_load_options c_options;
    infer_memory memory;
    infer_alternative alternative;
  };
  std::vector<std::unique_ptr<Item>> items;
};

namespace {

infer_memory memory_of(const infer::MemoryReport& r) {
  return {r.weights,         r.kv,         r.activations, r.scratch,  r.total,    r.available,
          r.context,         r.page_bytes, r.pages,       r.host,     r.process,  r.batch_rows,
          r.spilled ? 1 : 0, r.draft,      r.gpu_layers,  r.drafters, r.grammars, r.longest};
}

/// "a;b" of {"a", "b"} with ';'.
std::string joined(const std::vector<std::string>& parts, char separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

Result<infer::LoadOptions> load_options(const infer_load_options* given) {
  infer_load_options o;
  infer_load_options_init(&o, sizeof(o));
  INFER_CHECK_R(read_options(given, o));
  infer::LoadOptions to;
#define INFER_LOAD_TEXT(name, ...) \
  if (o.name != nullptr) to.name = o.name;
#define INFER_LOAD_LIST(name, ...) \
  if (o.name != nullptr) to.name = parts_of(o.name, ';');
#define INFER_LOAD_NUMBER(type, name, ...) to.name = o.name;
#define INFER_LOAD_FLAG(name, ...) to.name = o.name != 0;
#include "infer/load_options.def"
  if (o.placement_count > 0 && o.placements == nullptr) {
    return tl::unexpected(null_argument("placements"));
  }
  for (const infer_tensor_placement& place : std::span(o.placements, o.placement_count)) {
    if (place.pattern == nullptr || place.device == nullptr) {
      return tl::unexpected(null_argument("a placement"));
    }
    to.placements.push_back({place.pattern, place.device});
  }
  if (o.progress != nullptr) {
    to.progress = [call = o.progress, user = o.progress_user](double done) {
      return call(user, done) != 0;
    };
  }
  return to;
}

/// Copies the rows of load_options.def. Texts point into `item`.
void options_in_c(infer_alternative_list::Item& item) {
  const infer::LoadOptions& from = item.options;
  infer_load_options& to = item.c_options;
  to.struct_size = sizeof(to);
#define INFER_LOAD_LIST(name, ...) item.lists.push_back(joined(from.name, ';'));
#include "infer/load_options.def"
  size_t list = 0;
#define INFER_LOAD_TEXT(name, ...) to.name = from.name.empty() ? nullptr : from.name.c_str();
#define INFER_LOAD_LIST(name, ...)                                         \
  to.name = item.lists[list].empty() ? nullptr : item.lists[list].c_str(); \
  ++list;
#define INFER_LOAD_NUMBER(type, name, ...) to.name = from.name;
#define INFER_LOAD_FLAG(name, ...) to.name = from.name ? 1 : 0;
#include "infer/load_options.def"
}

}  // namespace

void infer_load_options_init(infer_load_options* options, size_t struct_size) {
  infer_load_options o = {};
  o.struct_size = struct_size;
#define INFER_LOAD_TEXT(name, preset, ...) o.name = preset[0] == 0 ? nullptr : preset;
#define INFER_LOAD_NUMBER(type, name, preset, ...) o.name = preset;
#define INFER_LOAD_FLAG(name, preset, ...) o.name = preset ? 1 : 0;
#include "infer/load_options.def"
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

infer_status infer_alternative_list_create(const char* path, const infer_load_options* options,
                                           infer_alternative_list** list) {
  return checked([&]() -> Status {
    if (path == nullptr) return null_argument("path");
    if (list == nullptr) return null_argument("list");
    infer_load_options given;
    infer_load_options_init(&given, sizeof(given));
    INFER_CHECK(read_options(options, given));
    INFER_TRY_S(const infer::LoadOptions load, load_options(options));
    INFER_TRY_S(std::vector<infer::Alternative> found, infer::alternatives(path, load));
    auto made = std::make_unique<infer_alternative_list>();
    for (infer::Alternative& alternative : found) {
      auto item = std::make_unique<infer_alternative_list::Item>();
      item->options = std::move(alternative.options);
      item->c_options = given;
      options_in_c(*item);
      item->memory = memory_of(alternative.plan);
      item->alternative = {static_cast<int32_t>(alternative.kind), &item->c_options, &item->memory};
      made->items.push_back(std::move(item));
    }
    *list = made.release();
    return {};
  });
}

void infer_alternative_list_free(infer_alternative_list* list) { delete list; }

size_t infer_alternative_list_size(const infer_alternative_list* list) {
  return list == nullptr ? 0 : list->items.size();
}

const infer_alternative* infer_alternative_list_get(const infer_alternative_list* list,
                                                    size_t index) {
  return index < infer_alternative_list_size(list) ? &list->items[index]->alternative : nullptr;
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
  // The vocabulary of an engine is freed with the engine.
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
    INFER_TRY_S(const infer::TokenizeOptions options, tokenize_options(flags));
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
    made->adapters = made->engine->adapters();
    *engine = made.release();
    return {};
  });
}

void infer_engine_free(infer_engine* engine) { delete engine; }

const infer_vocabulary* infer_engine_vocabulary(const infer_engine* engine) {
  return engine == nullptr ? nullptr : &engine->vocabulary;
}

size_t infer_engine_adapter_count(const infer_engine* engine) {
  return engine == nullptr ? 0 : engine->adapters.size();
}

infer_status infer_engine_adapter(const infer_engine* engine, size_t index, infer_adapter* adapter,
                                  size_t struct_size) {
  return checked([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (adapter == nullptr) return null_argument("adapter");
    if (index >= engine->adapters.size()) {
      return infer::error(StatusCode::invalid_argument,
                          "adapter: expected a number below {}, found {}", engine->adapters.size(),
                          index);
    }
    const infer::AdapterDescription& a = engine->adapters[index];
    write_struct(infer_adapter{a.path.c_str(), a.task.c_str(), a.scale}, adapter, struct_size);
    return {};
  });
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

void infer_engine_limit_cache(infer_engine* engine, int64_t bytes) {
  if (engine != nullptr) engine->engine->limit_cache(bytes);
}

infer_status infer_engine_resize_cache(infer_engine* engine, int64_t bytes) {
  return checked([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    return engine->engine->resize_cache(bytes);
  });
}
