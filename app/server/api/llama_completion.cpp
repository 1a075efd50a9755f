// llama.cpp's POST /completion, POST /infill and GET /slots.
#include <fmt/format.h>

#include "server/api/api.h"
#include "server/api/openai_format.h"
#include "server/api/openai_sink.h"
#include "server/api/prompt_fields.h"
#include "server/api/sampling_fields.h"

namespace infer::server {
namespace {

constexpr int kMostProbabilities = 20;
constexpr size_t kMostPairs = 10'000;

/// llama.cpp's pairs of a token and a bias, as the object that the other interfaces take. In place
/// of a token there may be a text: the bias is that of each of its tokens.
Json with_bias_object(const Json& body, const Engine& engine) {
  const auto biases = body.find("logit_bias");
  if (biases == body.end() || !biases->is_array()) return body;
  Json changed = body;
  Json object = Json::object();
  Fields fields(body);
  if (biases->size() > kMostPairs) {
    fields.wrong("logit_bias", fmt::format("at most {} tokens", kMostPairs));
  }
  for (const Json& pair : *biases) {
    const bool is_pair = pair.is_array() && pair.size() == 2;
    const bool is_text = is_pair && pair[0].is_string() && pair[0] != "";
    if (!is_text && (!is_pair || !pair[0].is_number_integer())) {
      fields.wrong("logit_bias", "an array of pairs of a token, or a text, and a bias");
    }
    // False: never this token.
    const Json bias = pair[1] == false ? Json(-100) : pair[1];
    if (!is_text) {
      object[pair[0].dump()] = bias;
      continue;
    }
    for (const int32_t token : must(engine.tokenize(pair[0].get<std::string>(), {false, false}))) {
      object[std::to_string(token)] = bias;
    }
  }
  changed["logit_bias"] = std::move(object);
  return changed;
}

struct LlamaRequest {
  CompletionRequest completion;
  std::vector<std::string> prompts;
  std::string model;
  bool stream = false;
  bool probabilities = false;
  bool tokens = false;  ///< the ids of those generated are wanted
};

/// Of POST /infill.
InfillText read_infill(Fields& fields) {
  constexpr size_t kMostFiles = 1000;
  InfillText text;
  for (const auto& [name, to] :
       {std::pair("input_prefix", &text.before), std::pair("input_suffix", &text.after)}) {
    const auto given = fields.text(name);
    if (!given) fields.wrong(name, "a string");
    *to = *given;
  }
  // What is begun already.
  text.before += fields.text("prompt").value_or("");
  const Json* files = fields.array("input_extra", kMostFiles);
  for (size_t i = 0; files != nullptr && i < files->size(); ++i) {
    Fields file((*files)[i], fields.path_of(fmt::format("input_extra[{}]", i)));
    const auto content = file.text("text");
    if (!content) file.wrong("text", "a string");
    text.files.push_back({file.text("filename").value_or("tmp"), *content});
  }
  return text;
}

/// `infill`: of POST /infill.
LlamaRequest read_llama_request(const Call& call, bool infill) {
  const Engine& engine = call.model->engine();
  const Json body = with_bias_object(call.body, engine);
  Fields fields(body);
  LlamaRequest request;
  GenerateOptions& options = request.completion.options;
  request.model = fields.text("model").value_or(call.model->name());
  request.stream = fields.boolean("stream").value_or(false);
  for (const char* name : {"n_predict", "max_tokens"}) {
    if (const auto most = fields.integer(name, -1, INT32_MAX)) {
      options.max_tokens = static_cast<int32_t>(*most);
    }
  }
  options.logprobs =
      static_cast<int32_t>(fields.integer("n_probs", 0, kMostProbabilities).value_or(0));
  request.probabilities = options.logprobs > 0;
  request.tokens = fields.boolean("return_tokens").value_or(false);
  if (!request.probabilities && !request.tokens) options.logprobs = -1;
  read_generation(fields, *call.model, request.completion);
  if (infill) {
    request.completion.prompts = {
        infill_prompt(read_infill(fields), options.max_tokens, engine, "input_prefix")};
    request.prompts = {engine.detokenize(request.completion.prompts.front())};
  } else {
    for (Prompt& prompt : read_prompts(fields, engine)) {
      request.completion.prompts.push_back(std::move(prompt.tokens));
      request.prompts.push_back(std::move(prompt.text));
    }
  }
  if (request.stream && request.prompts.size() > 1) {
    fields.wrong("prompt", "one prompt in a stream");
  }
  if (!request.stream) {
    limit_logprobs(fields, request.probabilities ? "n_probs" : "return_tokens", "n_predict",
                   engine.memory().longest, request.completion);
  }
  for (const char* unused :
       {"cache_prompt", "id_slot", "n_keep", "min_keep", "timings_per_token", "n_discard"}) {
    fields.ignore(unused);
  }
  call.api.metrics().count_unknown_fields(fields.unknown());
  return request;
}

class LlamaSink final : public CompletionSink {
 public:
  LlamaSink(const Call& call, LlamaRequest& request)
      : exchange_(call.exchange),
        model_(call.model),
        name_(request.model),
        stream_(request.stream),
        probabilities_(request.probabilities),
        tokens_(request.tokens),
        temperature_(request.completion.options.sampling.temperature),
        most_(request.completion.options.max_tokens) {
    for (size_t i = 0; i < request.prompts.size(); ++i) {
      choices_.push_back({std::move(request.prompts[i]),
                          static_cast<int64_t>(request.completion.prompts[i].size())});
    }
  }

  void quiet() override {
    if (!stream_) return;
    begin();
    exchange_->write(kComment);
  }

  void part(int index, const OutputEvent& event, std::vector<TokenChoices> tokens) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    choice.content += event.text;
    choice.has_new_line = choice.has_new_line || event.text.find('\n') != std::string::npos;
    for (const TokenChoices& each : tokens) {
      if (tokens_) choice.tokens.push_back(each.front().first);
      if (probabilities_) choice.probabilities.push_back(probabilities_of(each));
    }
    if (!stream_) return;
    begin();
    Json chunk = {{"index", index},
                  {"content", std::exchange(choice.content, {})},
                  {"tokens", std::exchange(choice.tokens, Json::array())},
                  {"stop", false},
                  {"id_slot", -1},
                  {"tokens_evaluated", choice.prompt_tokens}};
    if (probabilities_) {
      chunk["completion_probabilities"] = std::exchange(choice.probabilities, Json::array());
    }
    exchange_->write(sse(chunk));
  }

  void finished(int index, const GenerateResult& result) override {
    choices_[static_cast<size_t>(index)].result = result;
  }

  void done(const CompletionTotals&) override {
    if (stream_) {
      begin();
      exchange_->write(sse(final_of(0)));
      return exchange_->end();
    }
    if (choices_.size() == 1) return send_json(*exchange_, final_of(0));
    Json all = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) all.push_back(final_of(i));
    send_json(*exchange_, all);
  }

  void failed(const Status& status, const std::string& field) override {
    const int code = http_status(status.code());
    if (!begun_) return send_problem(*exchange_, Problem(code, status.message(), field));
    exchange_->write(sse(
        {{"error", {{"message", status.message()}, {"type", error_type(code)}, {"code", code}}}}));
    exchange_->end();
  }

 private:
  struct Choice {
    std::string prompt;
    int64_t prompt_tokens = 0;
    std::string content;
    bool has_new_line = false;
    GenerateResult result;
    Json tokens = Json::array();
    Json probabilities = Json::array();
  };

  void begin() {
    if (std::exchange(begun_, true)) return;
    exchange_->begin(200, kEventStream, {{"Cache-Control", "no-cache"}});
  }

  Json probabilities_of(const TokenChoices& choices) const {
    const auto shown = [&](const auto& choice) {
      Json token = token_json(model_->engine(), choice);
      token["id"] = choice.first;
      return token;
    };
    Json token = shown(choices.front());
    token["top_logprobs"] = Json::array();
    for (size_t i = 1; i < choices.size(); ++i) token["top_logprobs"].push_back(shown(choices[i]));
    return token;
  }

  Json final_of(size_t index) {
    Choice& choice = choices_[index];
    const GenerateResult& result = choice.result;
    const char* stop_type = result.reason != FinishReason::stop ? "limit"
                            : result.stop_string.empty()        ? "eos"
                                                                : "word";
    const auto speed = [](int64_t tokens, double seconds) {
      return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
    };
    const int64_t computed = result.prompt_tokens - result.reused_tokens;
    Json answer = {
        {"index", index},
        {"content", choice.content},
        {"tokens", std::move(choice.tokens)},
        {"id_slot", -1},
        {"stop", true},
        {"model", name_},
        {"tokens_predicted", result.generated_tokens},
        {"tokens_evaluated", choice.prompt_tokens},
        {"tokens_cached", result.reused_tokens},
        {"generation_settings", {{"n_predict", most_}, {"stream", stream_}}},
        {"prompt", choice.prompt},
        {"has_new_line", choice.has_new_line},
        {"truncated", false},
        {"stop_type", stop_type},
        {"stopping_word", result.stop_string},
        {"timings",
         {{"prompt_n", computed},
          {"prompt_ms", result.prompt_seconds * 1000},
          {"prompt_per_second", speed(computed, result.prompt_seconds)},
          {"predicted_n", result.generated_tokens},
          {"predicted_ms", result.generate_seconds * 1000},
          {"predicted_per_second", speed(result.generated_tokens, result.generate_seconds)}}}};
    if (temperature_) answer["generation_settings"]["temperature"] = *temperature_;
    if (probabilities_ && !stream_) {
      answer["completion_probabilities"] = std::move(choice.probabilities);
    }
    return answer;
  }

  ExchangePtr exchange_;
  ModelLease model_;
  std::string name_;
  bool stream_;
  bool probabilities_;
  bool tokens_;
  std::optional<float> temperature_;
  int32_t most_;
  bool begun_ = false;
  std::vector<Choice> choices_;
};

}  // namespace

void llama_completion(const Call& call) {
  LlamaRequest request = read_llama_request(call, call.exchange->request().path == "/infill");
  auto sink = std::make_unique<LlamaSink>(call, request);
  generate(call, std::move(request.completion), std::move(sink));
}

/// A slot for each session that holds pages, and idle ones up to those that are computed together.
void slots(const Call& call) {
  Json all = Json::array();
  const ModelLease model = call.api.pool().find(model_of_query(call));
  if (model != nullptr && !model->engine().makes_embeddings()) {
    const EngineStatistics now = model->engine().statistics();
    const int64_t context = model->engine().memory().longest;
    const auto add = [&](bool runs, int64_t task, const SessionPages& pages) {
      all.push_back({{"id", all.size()},
                     {"id_task", task},
                     {"n_ctx", context},
                     {"speculative", now.drafted_tokens > 0},
                     {"is_processing", runs},
                     {"pages", pages.held},
                     {"pages_shared", pages.shared}});
    };
    for (const SessionPages& pages : now.session_pages) add(true, pages.session, pages);
    while (all.size() < static_cast<size_t>(model->slots())) add(false, -1, {});
  }
  send_json(*call.exchange, all);
}

}  // namespace infer::server
