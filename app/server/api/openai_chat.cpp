// POST /v1/chat/completions.
#include "server/api/chat_messages.h"
#include "server/api/openai_format.h"
#include "server/api/openai_sink.h"
#include "server/api/sampling_fields.h"

namespace infer::server {
namespace {

struct ChatRequest {
  CompletionRequest completion;
  AnswerForm form;
};

ChatRequest read_chat_request(const Call& call) {
  const ServedModel& model = *call.model;
  Fields fields(call.body);
  ChatRequest request;
  GenerateOptions& options = request.completion.options;
  request.form = read_form(fields, model);
  request.completion.copies = static_cast<int>(fields.integer("n", 1, kMostChoices).value_or(1));
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    if (const auto most = fields.integer(name, -1, INT32_MAX)) {
      options.max_tokens = static_cast<int32_t>(*most);
    }
  }
  fields.refuse("functions", "give functions as tools");
  fields.refuse("function_call", "give it as tool_choice");
  const auto top = fields.integer("top_logprobs", 0, kMostLogprobs);
  if (fields.boolean("logprobs").value_or(false)) {
    options.logprobs = static_cast<int32_t>(top.value_or(0));
  }
  read_generation(fields, *call.model, request.completion);
  read_chat(call, fields, request.completion);
  options.prompt_logprobs = request.form.prompt_logprobs;
  check_prompt_logprobs(fields, "prompt_logprobs", request.completion);
  if (!request.form.stream) {
    const bool newer = fields.has("max_completion_tokens");
    limit_logprobs(fields, "top_logprobs", newer ? "max_completion_tokens" : "max_tokens",
                   model.engine().memory().longest, request.completion);
  }
  request.completion.one_call = !fields.boolean("parallel_tool_calls").value_or(true);
  for (const char* name : {"user", "store", "metadata", "service_tier"}) fields.ignore(name);
  call.api.metrics().count_unknown_fields(fields.unknown());
  return request;
}

/// Gathers the answers, or passes on each part.
class ChatSink final : public OpenAiSink {
 public:
  ChatSink(const Call& call, const ChatRequest& request)
      : OpenAiSink(call, request.form, {"chatcmpl-", "chat.completion", "chat.completion.chunk"}),
        logprobs_(request.completion.options.logprobs >= 0),
        prompt_logprobs_(request.form.prompt_logprobs),
        choices_(static_cast<size_t>(request.completion.copies)) {}

  void prompt_token(int /*prompt*/, const TokenChoices& choices) override {
    prompt_.push_back(prompt_token_json(engine(), choices, prompt_logprobs_));
  }

  void part(int index, const OutputEvent& event, std::vector<TokenChoices> tokens) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    Json delta = Json::object();
    switch (event.kind) {
      case OutputEvent::Kind::content:
        if (!streams()) choice.content += event.text;
        delta["content"] = event.text;
        break;
      case OutputEvent::Kind::reasoning:
        if (!streams()) choice.reasoning += event.text;
        delta["reasoning_content"] = event.text;
        break;
      case OutputEvent::Kind::tool_call: delta = take_call(index, choice, event.call); break;
    }
    Json logprobs = nullptr;
    if (logprobs_) {
      logprobs = {{"content", logprobs_json(engine(), tokens)}};
      if (!streams()) {
        for (Json& token : logprobs["content"]) choice.logprobs.push_back(std::move(token));
      }
    }
    if (streams()) send_delta(index, choice, std::move(delta), std::move(logprobs), nullptr);
  }

  void finished(int index, const GenerateResult& result) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    const bool calls = choice.calls > 0 && result.reason == FinishReason::stop;
    choice.reason = calls ? "tool_calls" : finish_name(result.reason);
    if (streams()) send_delta(index, choice, Json::object(), nullptr, choice.reason.c_str());
  }

 private:
  struct Choice {
    std::string content, reasoning, reason;
    Json tool_calls = Json::array();
    Json logprobs = Json::array();
    size_t calls = 0;
    bool begun = false;
  };

  Json choices() override {
    Json all = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[i];
      Json message = {{"role", "assistant"}, {"content", choice.content}};
      if (choice.calls > 0 && choice.content.empty()) message["content"] = nullptr;
      if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
      if (choice.calls > 0) message["tool_calls"] = std::move(choice.tool_calls);
      all.push_back(
          {{"index", i},
           {"message", std::move(message)},
           {"logprobs", logprobs_ ? Json{{"content", std::move(choice.logprobs)}} : Json()},
           {"finish_reason", choice.reason}});
    }
    return all;
  }

  void complete(Json& answer) override {
    if (prompt_logprobs_ >= 0) answer["prompt_logprobs"] = std::move(prompt_);
  }

  void send_delta(int index, Choice& choice, Json delta, Json logprobs, const char* reason) {
    if (!std::exchange(choice.begun, true)) {
      Json first = {{"role", "assistant"}, {"content", ""}};
      first.update(delta);
      delta = std::move(first);
    }
    Json part = {{"index", index}, {"delta", std::move(delta)}};
    if (!logprobs.is_null()) part["logprobs"] = std::move(logprobs);
    part["finish_reason"] = reason == nullptr ? Json() : Json(reason);
    send_chunk(std::move(part));
  }

  Json take_call(int index, Choice& choice, const ToolCall& call) {
    Json json = {{"id", call_id(request(), call, index, choice.calls)},
                 {"type", "function"},
                 {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
    if (!streams()) choice.tool_calls.push_back(json);
    json["index"] = choice.calls++;
    return {{"tool_calls", Json::array({std::move(json)})}};
  }

  bool logprobs_;
  int prompt_logprobs_;
  Json prompt_ = Json::array({nullptr});  ///< nothing predicts the first token
  std::vector<Choice> choices_;
};

}  // namespace

void chat_completions(const Call& call) {
  ChatRequest request = read_chat_request(call);
  auto sink = std::make_unique<ChatSink>(call, request);
  generate(call, std::move(request.completion), std::move(sink));
}

}  // namespace infer::server
