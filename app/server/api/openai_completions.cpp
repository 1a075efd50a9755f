// POST /v1/completions.
#include <fmt/format.h>

#include <algorithm>

#include "server/api/openai_format.h"
#include "server/api/openai_sink.h"
#include "server/api/prompt_fields.h"
#include "server/api/sampling_fields.h"

namespace infer::server {
namespace {

struct TextRequest {
  CompletionRequest completion;
  std::vector<std::string> echo;  ///< what stands before the answers to each prompt
  int echo_logprobs = -1;         ///< most likely tokens beside each token of it; -1: not shown
  AnswerForm form;
};

TextRequest read_text_request(const Call& call) {
  const Engine& engine = call.model->engine();
  Fields fields(call.body);
  TextRequest request;
  GenerateOptions& options = request.completion.options;
  request.form = read_form(fields, *call.model);
  request.completion.copies = static_cast<int>(fields.integer("n", 1, kMostChoices).value_or(1));
  if (fields.integer("best_of", 1, kMostChoices).value_or(request.completion.copies) !=
      request.completion.copies) {
    fields.wrong("best_of", "the value of n");
  }
  options.max_tokens =
      static_cast<int32_t>(fields.integer("max_tokens", -1, INT32_MAX).value_or(16));
  options.logprobs =
      static_cast<int32_t>(fields.integer("logprobs", 0, kMostLogprobs).value_or(-1));
  read_generation(fields, *call.model, request.completion);
  const bool echo = fields.boolean("echo").value_or(false);
  request.echo_logprobs = echo ? options.logprobs : -1;
  options.prompt_logprobs = std::max(request.form.prompt_logprobs, request.echo_logprobs);
  const std::string suffix = fields.text("suffix").value_or("");
  for (Prompt& prompt : read_prompts(fields, engine, suffix, options.max_tokens)) {
    request.completion.prompts.push_back(std::move(prompt.tokens));
    request.echo.push_back(echo ? std::move(prompt.text) : "");
  }
  if (request.completion.prompts.size() * static_cast<size_t>(request.completion.copies) >
      kMostPrompts) {
    fields.wrong("n", fmt::format("at most {} answers to all prompts together", kMostPrompts));
  }
  check_prompt_logprobs(fields, request.form.prompt_logprobs >= 0 ? "prompt_logprobs" : "logprobs",
                        request.completion);
  if (!request.form.stream) {
    limit_logprobs(fields, "logprobs", "max_tokens", engine.memory().longest, request.completion);
  }
  fields.ignore("user");
  call.api.metrics().count_unknown_fields(fields.unknown());
  return request;
}

/// Code points of a text that may begin or end within one.
int64_t characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

class TextSink final : public OpenAiSink {
 public:
  TextSink(const Call& call, const TextRequest& request)
      : OpenAiSink(call, request.form, {"cmpl-", "text_completion", "text_completion"}),
        logprobs_(request.completion.options.logprobs >= 0),
        copies_(static_cast<size_t>(request.completion.copies)),
        echo_logprobs_(request.echo_logprobs),
        prompt_logprobs_(request.form.prompt_logprobs),
        prompts_(request.completion.prompts.size(), Json::array({nullptr})) {
    for (size_t p = 0; p < request.echo.size(); ++p) {
      Choice choice;
      choice.text = request.echo[p];
      if (echo_logprobs_ >= 0) begin_echo(choice, request.completion.prompts[p]);
      choices_.insert(choices_.end(), copies_, choice);
    }
  }

  void prompt_token(int prompt, const TokenChoices& choices) override {
    const auto p = static_cast<size_t>(prompt);
    if (prompt_logprobs_ >= 0) {
      prompts_[p].push_back(prompt_token_json(engine(), choices, prompt_logprobs_));
    }
    if (echo_logprobs_ < 0) return;
    for (size_t i = p * copies_; i < (p + 1) * copies_; ++i) {
      add_token(choices_[i], choices, static_cast<size_t>(echo_logprobs_));
    }
  }

  void part(int index, const OutputEvent& event, std::vector<TokenChoices> tokens) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    choice.text += event.text;
    if (logprobs_) {
      for (const TokenChoices& choices : tokens) add_token(choice, choices, choices.size());
    }
    if (streams()) send_text(index, choice, nullptr);
  }

  void finished(int index, const GenerateResult& result) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    choice.reason = finish_name(result.reason);
    if (streams()) send_text(index, choice, choice.reason.c_str());
  }

 private:
  /// Log-probabilities of tokens, as they are in an answer.
  struct Logprobs {
    Json tokens = Json::array(), values = Json::array(), top = Json::array(),
         offsets = Json::array();
  };
  struct Choice {
    std::string text, reason;
    Logprobs logprobs;
    int64_t offset = 0;  ///< characters of the text that come before the next token
  };

  Json choices() override {
    Json all = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[i];
      all.push_back({{"text", std::move(choice.text)},
                     {"index", i},
                     {"logprobs", logprobs_ ? take_logprobs(choice) : Json()},
                     {"finish_reason", choice.reason}});
      if (prompt_logprobs_ >= 0) all.back()["prompt_logprobs"] = prompts_[i / copies_];
    }
    return all;
  }

  /// Sends what has come since the last call.
  void send_text(int index, Choice& choice, const char* reason) {
    const bool told = logprobs_ && !choice.logprobs.tokens.empty();
    send_chunk({{"text", std::exchange(choice.text, "")},
                {"index", index},
                {"logprobs", told ? take_logprobs(choice) : Json()},
                {"finish_reason", reason == nullptr ? Json() : Json(reason)}});
  }

  /// The first token, which nothing predicts. The text may lack the beginning of what the tokens
  /// spell: a token that begins every text, or a space.
  void begin_echo(Choice& choice, const std::vector<int32_t>& tokens) const {
    choice.offset = characters(choice.text);
    for (const int32_t token : tokens) choice.offset -= characters(spelling(token));
    add_token(choice, {{tokens.front(), 0.0f}}, 0);
    choice.logprobs.values.back() = nullptr;
    choice.logprobs.top.back() = nullptr;
  }

  /// `most`: of the likeliest tokens.
  void add_token(Choice& choice, const TokenChoices& choices, size_t most) const {
    const auto& [token, logprob] = choices.front();
    choice.logprobs.tokens.push_back(spelling(token));
    choice.logprobs.values.push_back(shown_logprob(logprob));
    Json top = Json::object();
    for (size_t i = 1; i < choices.size() && i <= most; ++i) {
      top[spelling(choices[i].first)] = shown_logprob(choices[i].second);
    }
    choice.logprobs.top.push_back(std::move(top));
    choice.logprobs.offsets.push_back(std::max<int64_t>(0, choice.offset));
    choice.offset += characters(spelling(token));
  }

  static Json take_logprobs(Choice& choice) {
    Logprobs all = std::exchange(choice.logprobs, {});
    return {{"tokens", std::move(all.tokens)},
            {"token_logprobs", std::move(all.values)},
            {"top_logprobs", std::move(all.top)},
            {"text_offset", std::move(all.offsets)}};
  }

  std::string spelling(int32_t token) const {
    return std::string(engine().vocabulary().piece(token));
  }

  bool logprobs_;
  size_t copies_;
  int echo_logprobs_;
  int prompt_logprobs_;
  std::vector<Json> prompts_;  ///< vLLM's form of the log-probabilities of each prompt
  std::vector<Choice> choices_;
};

}  // namespace

void completions(const Call& call) {
  TextRequest request = read_text_request(call);
  auto sink = std::make_unique<TextSink>(call, request);
  generate(call, std::move(request.completion), std::move(sink));
}

}  // namespace infer::server
