// The C API of vectors and scores of texts.
#include "engine/session/c_api.h"

using namespace infer::c;

struct infer_embeddings {
  infer::Embeddings made;
};

namespace {

Result<std::vector<std::string>> texts_of(const char* const* texts, const size_t* lengths,
                                          size_t count) {
  if (texts == nullptr && count > 0) return tl::unexpected(null_argument("texts"));
  std::vector<std::string> all;
  for (size_t i = 0; i < count; ++i) {
    if (texts[i] == nullptr) return tl::unexpected(null_argument("a text"));
    all.emplace_back(texts[i], lengths == nullptr ? std::strlen(texts[i]) : lengths[i]);
  }
  return all;
}

}  // namespace

int infer_engine_makes_embeddings(const infer_engine* engine) {
  return engine != nullptr && engine->engine->makes_embeddings() ? 1 : 0;
}

int64_t infer_engine_longest_text(const infer_engine* engine) {
  return engine == nullptr ? 0 : engine->engine->longest_text();
}

void infer_embed_options_init(infer_embed_options* options, size_t struct_size) {
  write_struct(infer_embed_options{struct_size, 0, 1, 0}, options, struct_size);
}

infer_status infer_embed(infer_engine* engine, const char* const* texts, const size_t* lengths,
                         size_t count, const infer_embed_options* options,
                         infer_embeddings** embeddings) {
  return checked([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (embeddings == nullptr) return null_argument("embeddings");
    infer_embed_options o;
    infer_embed_options_init(&o, sizeof(o));
    INFER_CHECK(read_options(options, o));
    INFER_TRY_S(const std::vector<std::string> all, texts_of(texts, lengths, count));
    auto made = std::make_unique<infer_embeddings>();
    INFER_TRY_S(made->made,
                engine->engine->embed(all, {o.dimensions, o.normalise != 0, o.truncate != 0}));
    *embeddings = made.release();
    return {};
  });
}

void infer_embeddings_free(infer_embeddings* embeddings) { delete embeddings; }

int32_t infer_embeddings_dimensions(const infer_embeddings* embeddings) {
  return embeddings == nullptr ? 0 : embeddings->made.dimensions;
}

int64_t infer_embeddings_tokens(const infer_embeddings* embeddings) {
  return embeddings == nullptr ? 0 : embeddings->made.tokens;
}

const float* infer_embeddings_of(const infer_embeddings* embeddings, size_t text, size_t* vectors) {
  const bool known = embeddings != nullptr && !embeddings->made.begins.empty() &&
                     text < embeddings->made.begins.size() - 1;
  if (vectors != nullptr) *vectors = 0;
  if (!known) return nullptr;
  const infer::Embeddings& made = embeddings->made;
  if (vectors != nullptr) {
    *vectors = static_cast<size_t>(made.begins[text + 1] - made.begins[text]);
  }
  return made.values.data() + made.begins[text] * made.dimensions;
}

infer_status infer_rerank(infer_engine* engine, const char* query, size_t query_length,
                          const char* const* texts, const size_t* lengths, size_t count,
                          int32_t truncate, infer_ranked_text* ranked) {
  return checked([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (query == nullptr) return null_argument("query");
    if (ranked == nullptr && count > 0) return null_argument("ranked");
    INFER_TRY_S(const std::vector<std::string> all, texts_of(texts, lengths, count));
    INFER_TRY_S(const infer::Ranking ranking,
                engine->engine->rerank({query, query_length}, all, {truncate != 0}));
    for (size_t i = 0; i < ranking.texts.size(); ++i) {
      ranked[i] = {ranking.texts[i].index, ranking.texts[i].score};
    }
    return {};
  });
}
