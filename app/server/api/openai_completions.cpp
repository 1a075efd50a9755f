// POST /v1/completions.
#include <fmt/format.h>

#include "server/api/openai_format.h"
#include "server/api/openai_sink.h"
#include "server/api/prompt_fields.h"
#include "server/api/sampling_fields.h"

namespace infer::server {
namespace {

constexpr int kMostChoices = 128;
constexpr int kMostLogprobs = 20;

struct TextRequest {
  CompletionRequest completion;
  std::vector<std::string> echo;  ///< what stands before the answers to each prompt
  AnswerForm form;
};

TextRequest read_request(const Call& call) {
  const Engine& engine = call.model->engine();
  Fields fields(call.body);
  TextRequest request;
  GenerateOptions& options = request.completion.options;
  request.form = read_form(fields, *call.model);
  fields.refuse("suffix", "the model completes at the end only");
  request.completion.copies = static_cast<int>(fields.integer("n", 1, kMostChoices).value_or(1));
  if (fields.integer("best_of", 1, kMostChoices).value_or(request.completion.copies) !=
      request.completion.copies) {
    fields.wrong("best_of", "the value of n");
  }
  options.max_tokens =
      static_cast<int32_t>(fields.integer("max_tokens", -1, INT32_MAX).value_or(16));
  options.logprobs =
      static_cast<int32_t>(fields.integer("logprobs", 0, kMostLogprobs).value_or(-1));
  read_generation(fields, engine, options);
  const bool echo = fields.boolean("echo").value_or(false);
  if (echo && options.logprobs >= 0) {
    fields.wrong("echo", "false with logprobs: those of the prompt are not known");
  }
  for (Prompt& prompt : read_prompts(fields, engine)) {
    request.completion.prompts.push_back(std::move(prompt.tokens));
    request.echo.push_back(echo ? std::move(prompt.text) : "");
  }
  if (request.completion.prompts.size() * static_cast<size_t>(request.completion.copies) >
      kMostPrompts) {
    fields.wrong("n", fmt::format("at most {} answers to all prompts together", kMostPrompts));
  }
  fields.ignore("user");
  call.api.metrics().count_unknown_fields(fields.unknown());
  return request;
}

class TextSink final : public OpenAiSink {
 public:
  TextSink(const Call& call, const TextRequest& request)
      : OpenAiSink(call, request.form, {"cmpl-", "text_completion", "text_completion"}),
        logprobs_(request.completion.options.logprobs >= 0) {
    for (const std::string& echo : request.echo) {
      for (int i = 0; i < request.completion.copies; ++i) choices_.push_back({echo, "", {}, 0});
    }
  }

  void part(int index, const OutputEvent& event, std::vector<TokenChoices> tokens) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    Json logprobs = logprobs_ ? logprobs_of(tokens, choice) : Json();
    if (!streams()) {
      choice.text += event.text;
      for (const auto& [name, values] : logprobs.items()) {
        for (const Json& value : values) choice.logprobs[name].push_back(value);
      }
      return;
    }
    send_text(index, std::exchange(choice.text, "") + event.text, std::move(logprobs), nullptr);
  }

  void finished(int index, const GenerateResult& result) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    choice.reason = finish_name(result.reason);
    if (!streams()) return;
    send_text(index, std::exchange(choice.text, ""), Json(), choice.reason.c_str());
  }

 private:
  struct Choice {
    std::string text, reason;
    Json logprobs = Json::object();
    size_t offset = 0;  ///< characters of the text so far, in bytes
  };

  Json choices() override {
    Json all = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[i];
      all.push_back({{"text", choice.text},
                     {"index", i},
                     {"logprobs", logprobs_ ? choice.logprobs : Json()},
                     {"finish_reason", choice.reason}});
    }
    return all;
  }

  void send_text(int index, std::string text, Json logprobs, const char* reason) {
    send_chunk({{"text", std::move(text)},
                {"index", index},
                {"logprobs", std::move(logprobs)},
                {"finish_reason", reason == nullptr ? Json() : Json(reason)}});
  }

  Json logprobs_of(const std::vector<TokenChoices>& tokens, Choice& choice) const {
    const Vocabulary& vocabulary = engine().vocabulary();
    const auto spelling = [&](int32_t token) { return std::string(vocabulary.piece(token)); };
    Json all = {{"tokens", Json::array()},
                {"token_logprobs", Json::array()},
                {"top_logprobs", Json::array()},
                {"text_offset", Json::array()}};
    for (const TokenChoices& choices : tokens) {
      all["tokens"].push_back(spelling(choices.front().first));
      all["token_logprobs"].push_back(choices.front().second);
      Json top = Json::object();
      for (size_t i = 1; i < choices.size(); ++i) {
        top[spelling(choices[i].first)] = choices[i].second;
      }
      all["top_logprobs"].push_back(std::move(top));
      all["text_offset"].push_back(choice.offset);
      choice.offset += vocabulary.piece(choices.front().first).size();
    }
    return all;
  }

  bool logprobs_;
  std::vector<Choice> choices_;
};

}  // namespace

void completions(const Call& call) {
  TextRequest request = read_request(call);
  auto sink = std::make_unique<TextSink>(call, request);
  must(generate(call, std::move(request.completion), std::move(sink)));
}

}  // namespace infer::server
