#include "server/api/vectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>

#include "chat/images.h"
#include "server/api/prompt_fields.h"

namespace infer::server {
namespace {

constexpr const char* kTextsExpected = "a string, an array of tokens, or an array of either";

std::span<const float> vector_of(const Embeddings& made, size_t index) {
  const auto width = static_cast<size_t>(made.dimensions);
  return std::span(made.values).subspan(static_cast<size_t>(made.begins[index]) * width, width);
}

/// The bytes of the float32 values, the lowest first.
std::string base64_of(const Embeddings& made, size_t index) {
  std::string bytes;
  for (const float value : vector_of(made, index)) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift & 255);
  }
  return chat::encode_base64(bytes);
}

/// Whether these texts, or tokens of four bytes each, take long.
bool are_large(const std::vector<std::string>& texts,
               const std::vector<std::vector<int32_t>>& tokens = {}) {
  constexpr size_t kLarge = 64 << 10;
  size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  for (const std::vector<int32_t>& of_text : tokens) bytes += 4 * of_text.size();
  return bytes > kLarge;
}

/// Runs `compute(progress)` beside the workers, then `answer` with what it made. `field`: the one
/// that has the texts.
template <typename Compute, typename Answer>
void compute_beside(const Call& call, bool large, const char* field, Compute compute,
                    Answer answer) {
  call.api.blocking(large).post([exchange = call.exchange, model = call.model, field,
                                 ending = &call.api.ending(), place = take_place(call),
                                 compute = std::move(compute),
                                 answer = std::move(answer)]() mutable {
    Api::guard(*exchange, [&] {
      const auto made = compute([&](double) { return !exchange->closed() && !*ending; });
      place.reset();
      if (exchange->closed()) return;
      if (!made && *ending) throw Problem(503, "the server is ending");
      if (!made) {
        const Status why = for_clients(made.error(), model->engine().model().path, model->name());
        const bool too_long = why.code() == StatusCode::does_not_fit;
        const bool wrong = too_long || why.code() == StatusCode::invalid_argument;
        throw Problem(http_status(why.code()), why.message(), wrong ? field : "", too_long,
                      too_long ? "context_length_exceeded" : nullptr);
      }
      answer(*made);
    });
  });
}

}  // namespace

std::vector<std::string> read_input(Fields& fields, const char* name, const Engine& engine,
                                    EmbedOptions& options) {
  const Json* input = fields.find(name);
  if (input == nullptr) fields.wrong(name, kTextsExpected);
  if (input->is_string()) return {input->get<std::string>()};
  if (!input->is_array() || input->empty()) fields.wrong(name, kTextsExpected);
  if (input->front().is_number()) {
    options.tokens = {read_ids(fields, name, *input, engine)};
    return {""};
  }
  if (input->size() > kMostTexts) fields.wrong(name, fmt::format("at most {} texts", kMostTexts));
  std::vector<std::string> texts;
  options.tokens.resize(input->size());
  for (const Json& each : *input) {
    if (each.is_string()) {
      texts.push_back(each.get<std::string>());
    } else if (each.is_array() && !each.empty()) {
      options.tokens[texts.size()] = read_ids(fields, name, each, engine);
      texts.emplace_back();
    } else {
      fields.wrong(name, kTextsExpected);
    }
  }
  return texts;
}

int32_t read_dimensions(Fields& fields, const Engine& engine) {
  const int64_t most = std::max<int64_t>(engine.vector_length(), 1);
  return static_cast<int32_t>(fields.integer("dimensions", 1, most).value_or(0));
}

void embed(const Call& call, const char* field, std::vector<std::string> texts,
           const EmbedOptions& options, std::function<void(const Embeddings&)> answer) {
  if (!call.model->engine().makes_embeddings()) {
    throw Problem(400,
                  fmt::format("{} generates texts: vectors need a model that is made for them, or "
                              "a server that was started with --embeddings",
                              call.model->name()),
                  "model");
  }
  const auto count = static_cast<int64_t>(texts.size());
  const bool large = are_large(texts, options.tokens);
  compute_beside(
      call, large, field,
      [model = call.model, texts = std::move(texts), options](auto progress) {
        EmbedOptions watched = options;
        watched.progress = progress;
        return model->engine().embed(texts, watched);
      },
      [model = call.model, answer = std::move(answer), count](const Embeddings& made) {
        if (made.begins.back() != count) {
          throw Problem(
              400,
              fmt::format(
                  "{} makes a vector for each token, as its file says: start the server with "
                  "--pooling and mean, cls or last",
                  model->name()),
              "model");
        }
        answer(made);
      });
}

void rerank(const Call& call, std::string query, std::vector<std::string> texts,
            const RerankOptions& options, std::function<void(const Ranking&)> answer) {
  const bool large = are_large(texts);
  compute_beside(
      call, large, "documents",
      [model = call.model, query = std::move(query), texts = std::move(texts),
       options](auto progress) {
        RerankOptions watched = options;
        watched.progress = progress;
        return model->engine().rerank(query, texts, watched);
      },
      std::move(answer));
}

Json vector_json(const Embeddings& made, size_t index) {
  Json numbers = Json::array();
  for (const float value : vector_of(made, index)) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    double number = 0;
    std::from_chars(digits, end, number);
    numbers.push_back(number);
  }
  return numbers;
}

constexpr const char* kNotCut = "texts are cut to the model's longest alone, with 'truncate'";

void embeddings(const Call& call) {
  Fields fields(call.body);
  const std::string model = fields.text("model").value_or(call.model->name());
  EmbedOptions options;
  std::vector<std::string> texts = read_input(fields, "input", call.model->engine(), options);
  options.dimensions = read_dimensions(fields, call.model->engine());
  options.truncate = fields.boolean("truncate").value_or(false);
  options.normalise = fields.boolean("normalize").value_or(true);
  fields.refuse("truncate_prompt_tokens", kNotCut);
  if (fields.integer("embd_normalize", -1, INT32_MAX).value_or(2) != 2) {
    fields.wrong("embd_normalize", "2; 'normalize': false gives vectors as they are");
  }
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") fields.wrong("encoding_format", "float or base64");
  fields.ignore("user");
  call.api.metrics().count_unknown_fields(fields.unknown());
  embed(
      call, "input", std::move(texts), options,
      [exchange = call.exchange, model, packed = format == "base64"](const Embeddings& made) {
        Json data = Json::array();
        for (size_t i = 0; i + 1 < made.begins.size(); ++i) {
          data.push_back({{"object", "embedding"},
                          {"index", i},
                          {"embedding", packed ? Json(base64_of(made, i)) : vector_json(made, i)}});
        }
        send_json(*exchange,
                  {{"object", "list"},
                   {"data", std::move(data)},
                   {"model", model},
                   {"usage", {{"prompt_tokens", made.tokens}, {"total_tokens", made.tokens}}}});
      });
}

void rerank_texts(const Call& call) {
  Fields fields(call.body);
  const std::string model = fields.text("model").value_or(call.model->name());
  const std::optional<std::string> query = fields.text("query");
  if (!query) fields.wrong("query", "a string");
  const Json* documents = fields.array("documents", kMostTexts);
  if (documents == nullptr || documents->empty()) {
    fields.wrong("documents", "an array of at least one text");
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < documents->size(); ++i) {
    const Json& document = (*documents)[i];
    const std::string name = fmt::format("documents[{}]", i);
    if (document.is_string()) {
      texts.push_back(document.get<std::string>());
    } else if (document.is_object()) {
      Fields inner(document, name);
      const std::optional<std::string> text = inner.text("text");
      if (!text) inner.wrong("text", "a string");
      texts.push_back(*text);
    } else {
      fields.wrong(name, "a string, or an object with a text");
    }
  }
  const auto top = static_cast<size_t>(fields.integer("top_n", 1, INT32_MAX).value_or(INT32_MAX));
  const bool repeat = fields.boolean("return_documents").value_or(false);
  RerankOptions options;
  options.truncate = fields.boolean("truncate").value_or(false);
  fields.refuse("truncate_prompt_tokens", kNotCut);
  fields.refuse("max_tokens_per_doc", kNotCut);
  call.api.metrics().count_unknown_fields(fields.unknown());
  std::vector<std::string> shown;
  if (repeat) shown = texts;
  rerank(call, *query, std::move(texts), options,
         [exchange = call.exchange, model, top, shown](const Ranking& made) {
           Json results = Json::array();
           for (size_t i = 0; i < std::min(top, made.texts.size()); ++i) {
             const RankedText& text = made.texts[i];
             Json result = {{"index", text.index}, {"relevance_score", text.score}};
             if (!shown.empty()) {
               result["document"] = {{"text", shown[static_cast<size_t>(text.index)]}};
             }
             results.push_back(std::move(result));
           }
           send_json(*exchange,
                     {{"object", "list"},
                      {"model", model},
                      {"results", std::move(results)},
                      {"usage", {{"prompt_tokens", made.tokens}, {"total_tokens", made.tokens}}}});
         });
}

}  // namespace infer::server
