// OpenAI's POST /v1/responses. Nothing is kept between requests: a conversation comes whole.
#include <fmt/format.h>

#include <algorithm>

#include "server/api/api.h"
#include "server/api/chat_messages.h"
#include "server/api/constraint_fields.h"
#include "server/api/openai_format.h"
#include "server/api/sampling_fields.h"

namespace infer::server {
namespace {

constexpr size_t kMostItems = 100'000;
constexpr size_t kMostIncluded = 100;

/// The message that an item of an answer belongs to: reasoning, texts and calls that follow each
/// other are one answer.
Json& answer_of(Json& messages) {
  if (messages.empty() || messages.back()["role"] != "assistant") {
    messages.push_back({{"role", "assistant"}, {"content", Json::array()}});
  }
  return messages.back();
}

/// A text of an answer, in parts. Further texts are paragraphs of their own.
void add_text(Json& answer, const Json& content) {
  Json& parts = answer["content"];
  if (!parts.empty()) parts.push_back({{"type", "text"}, {"text", "\n\n"}});
  if (content.is_array()) {
    parts.insert(parts.end(), content.begin(), content.end());
  } else {
    parts.push_back({{"type", "text"}, {"text", content}});
  }
}

/// The reasoning itself, or else a summary of it.
void add_reasoning(Fields& item, Json& messages) {
  std::string text;
  for (const char* name : {"content", "summary"}) {
    const Json* parts = text.empty() ? item.array(name, kMostItems) : nullptr;
    for (size_t i = 0; parts != nullptr && i < parts->size(); ++i) {
      Fields part((*parts)[i], item.path_of(fmt::format("{}[{}]", name, i)));
      text += part.text("text").value_or("");
    }
  }
  if (text.empty()) return;
  Json& answer = answer_of(messages);
  if (answer.contains("reasoning_content")) {
    answer["reasoning_content"].get_ref<std::string&>() += "\n\n" + text;
  } else {
    answer["reasoning_content"] = text;
  }
}

/// An item of the input as a message of the chat interface, or as a part of one.
void add_item(Fields& item, Json& messages) {
  const std::string type = item.text("type").value_or("message");
  if (type == "message") {
    const std::string role = read_role(item);
    const Json content = read_content(item);
    if (role == "assistant") {
      Json& answer = answer_of(messages);
      if (!content.is_null()) add_text(answer, content);
      return;
    }
    if (content.is_null()) item.wrong("content", "a string or an array of parts");
    messages.push_back({{"role", role}, {"content", content}});
  } else if (type == "function_call") {
    const std::string arguments = item.text("arguments").value_or("{}");
    check_json(item, "arguments", arguments);
    answer_of(messages)["tool_calls"].push_back(
        {{"id", item.text("call_id").value_or("")},
         {"type", "function"},
         {"function", {{"name", item.text("name").value_or("")}, {"arguments", arguments}}}});
  } else if (type == "function_call_output") {
    const Json output = read_content(item, "output");
    if (output.is_null()) item.wrong("output", "a string or an array of parts");
    messages.push_back({{"role", "tool"},
                        {"tool_call_id", item.text("call_id").value_or("")},
                        {"content", output}});
  } else if (type == "reasoning") {
    add_reasoning(item, messages);
  } else {
    item.wrong("type", "message, function_call, function_call_output or reasoning");
  }
}

/// {"type": "function", "name"} as the chat interface has it.
Json chosen_function(Fields& choice) {
  if (choice.text("type").value_or("function") != "function") {
    choice.wrong("type", "function: the server runs no tools itself");
  }
  const std::string name = choice.text("name").value_or("");
  if (name.empty()) choice.wrong("name", "the name of a function in tools");
  return {{"type", "function"}, {"function", {{"name", name}}}};
}

/// `tool_choice` as the chat interface has it.
Json tool_choice_of(const Json& given) {
  if (!given.is_object()) return given;
  Fields choice(given, "tool_choice");
  const std::string type = choice.text("type").value_or("");
  if (type == "function") return chosen_function(choice);
  if (type != "allowed_tools") choice.wrong("type", "function or allowed_tools");
  Json made = {{"mode", choice.text("mode").value_or("auto")}, {"tools", Json::array()}};
  if (made["mode"] != "auto" && made["mode"] != "required") {
    choice.wrong("mode", "auto or required");
  }
  const Json* tools = choice.array("tools", kMostTools);
  if (tools == nullptr || tools->empty()) {
    choice.wrong("tools", "an array of at least one function");
  }
  for (size_t i = 0; i < tools->size(); ++i) {
    Fields tool((*tools)[i], fmt::format("tool_choice.tools[{}]", i));
    made["tools"].push_back(chosen_function(tool));
  }
  return {{"type", "allowed_tools"}, {"allowed_tools", std::move(made)}};
}

/// "messages", "tools", "tool_choice" and "response_format" of the chat interface.
Json conversation_of(Fields& fields) {
  Json made = {{"messages", Json::array()}};
  if (const auto instructions = fields.text("instructions")) {
    made["messages"].push_back({{"role", "system"}, {"content", *instructions}});
  }
  const Json* input = fields.find("input");
  if (input == nullptr || (!input->is_string() && !input->is_array()) ||
      input->size() > kMostItems) {
    fields.wrong("input", "a string or an array of items");
  }
  if (input->is_string()) {
    made["messages"].push_back({{"role", "user"}, {"content", *input}});
  } else {
    for (size_t i = 0; i < input->size(); ++i) {
      Fields item((*input)[i], fmt::format("input[{}]", i));
      add_item(item, made["messages"]);
    }
  }
  if (made["messages"].empty() || input->empty()) {
    fields.wrong("input", "a string or an array of at least one item");
  }
  const Json* tools = fields.array("tools", kMostTools);
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    Fields tool((*tools)[i], fmt::format("tools[{}]", i));
    if (tool.text("type").value_or("") != "function") {
      tool.wrong("type", "function: the server runs no tools itself");
    }
    Json function = {{"name", read_tool_name(tool)}};
    if (const auto description = tool.text("description")) function["description"] = *description;
    if (const Json* parameters = tool.object("parameters")) function["parameters"] = *parameters;
    if (tool.boolean("strict").value_or(false)) function["strict"] = true;
    made["tools"].push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  if (const Json* choice = fields.find("tool_choice"); choice != nullptr) {
    made["tool_choice"] = tool_choice_of(*choice);
  }
  if (const Json* reasoning = fields.object("reasoning")) {
    if (const auto effort = Fields(*reasoning, "reasoning").text("effort")) {
      made["reasoning_effort"] = *effort;
    }
  }
  return made;
}

/// `text.format`: what the text must match.
void read_text_format(Fields& fields, CompletionRequest& request) {
  const Json* text = fields.object("text");
  if (text == nullptr) return;
  Fields inner(*text, "text");
  const Json* format = inner.object("format");
  if (format == nullptr) return;
  Fields described(*format, "text.format");
  read_described_format(described, request);
}

class ResponseSink final : public CompletionSink {
 public:
  /// `asked`: fields of the request that the answer repeats.
  ResponseSink(ExchangePtr exchange, Json asked, bool stream)
      : exchange_(std::move(exchange)), asked_(std::move(asked)), stream_(stream) {
    id_ = exchange_->request().id;
  }

  void quiet() override {
    if (!stream_) return;
    begin();
    exchange_->write(kComment);
  }

  void part(int, const OutputEvent& event, std::vector<TokenChoices>) override {
    using Kind = OutputEvent::Kind;
    begin();
    if (event.kind == Kind::tool_call) {
      close();
      open({{"type", "function_call"},
            {"id", item_id("fc")},
            {"call_id", call_id(exchange_->request(), event.call, 0, output_.size())},
            {"name", event.call.name},
            {"arguments", ""},
            {"status", "in_progress"}});
      send("response.function_call_arguments.delta", at_item({{"delta", event.call.arguments}}));
      output_.back()["arguments"] = event.call.arguments;
      close();
      return;
    }
    const bool thinks = event.kind == Kind::reasoning;
    const char* type = thinks ? "reasoning" : "message";
    if (!open_ || output_.back()["type"] != type) {
      close();
      Json item = {{"type", type}, {"id", item_id(thinks ? "rs" : "msg")}};
      if (thinks) item["summary"] = Json::array();
      if (!thinks) item["role"] = "assistant";
      item["status"] = "in_progress";
      item["content"] = Json::array();
      open(std::move(item));
      Json content = {{"type", thinks ? "reasoning_text" : "output_text"}, {"text", ""}};
      if (!thinks) content["annotations"] = Json::array();
      output_.back()["content"].push_back(content);
      send("response.content_part.added", at_content({{"part", std::move(content)}}));
    }
    Json& text = output_.back()["content"][0]["text"];
    text.get_ref<std::string&>() += event.text;
    Json delta = at_content({{"delta", event.text}});
    if (!thinks) delta["logprobs"] = Json::array();
    send(thinks ? "response.reasoning_text.delta" : "response.output_text.delta", std::move(delta));
  }

  void finished(int, const GenerateResult& result) override {
    begin();
    complete_ = result.reason == FinishReason::stop;
    close();
  }

  void done(const CompletionTotals& totals) override {
    Json response = head(complete_ ? "completed" : "incomplete");
    if (!complete_) response["incomplete_details"] = {{"reason", "max_output_tokens"}};
    response["usage"] = {{"input_tokens", totals.prompt_tokens},
                         {"input_tokens_details", {{"cached_tokens", totals.cached_tokens}}},
                         {"output_tokens", totals.generated_tokens},
                         {"output_tokens_details", {{"reasoning_tokens", totals.reasoning_tokens}}},
                         {"total_tokens", totals.prompt_tokens + totals.generated_tokens}};
    if (!stream_) return send_json(*exchange_, response);
    send(complete_ ? "response.completed" : "response.incomplete",
         {{"response", std::move(response)}});
    exchange_->end();
  }

  void failed(const Status& status, const std::string& field) override {
    const int code = http_status(status.code());
    if (!begun_ || !stream_)
      return send_problem(*exchange_, Problem(code, status.message(), field));
    send("error", {{"code", error_type(code)}, {"message", status.message()}, {"param", nullptr}});
    exchange_->end();
  }

 private:
  Json head(const char* status) const {
    Json response = {{"id", "resp_" + id_}, {"object", "response"}, {"created_at", created_},
                     {"status", status},    {"error", nullptr},     {"incomplete_details", nullptr},
                     {"output", output_}};
    response.update(asked_);
    return response;
  }
  std::string item_id(const char* kind) const {
    return fmt::format("{}_{}_{}", kind, id_, output_.size());
  }
  Json at_item(Json more) const {
    more["item_id"] = output_.back()["id"];
    more["output_index"] = output_.size() - 1;
    return more;
  }
  Json at_content(Json more) const {
    more["content_index"] = 0;
    return at_item(std::move(more));
  }
  void send(const char* type, Json more) {
    if (!stream_) return;
    Json event = {{"type", type}, {"sequence_number", sequence_++}};
    event.update(more);
    exchange_->write(fmt::format("event: {}\ndata: {}\n\n", type, write_json(event)));
  }
  void begin() {
    if (std::exchange(begun_, true) || !stream_) return;
    exchange_->begin(200, kEventStream, {{"Cache-Control", "no-cache"}});
    send("response.created", {{"response", head("in_progress")}});
    send("response.in_progress", {{"response", head("in_progress")}});
  }
  void open(Json item) {
    open_ = true;
    output_.push_back(std::move(item));
    send("response.output_item.added",
         {{"output_index", output_.size() - 1}, {"item", output_.back()}});
  }
  void close() {
    if (!std::exchange(open_, false)) return;
    Json& item = output_.back();
    item["status"] = complete_ ? "completed" : "incomplete";
    if (item["type"] == "function_call") {
      send("response.function_call_arguments.done",
           at_item({{"name", item["name"]}, {"arguments", item["arguments"]}}));
    } else {
      const bool thinks = item["type"] == "reasoning";
      Json text = at_content({{"text", item["content"][0]["text"]}});
      if (!thinks) text["logprobs"] = Json::array();
      send(thinks ? "response.reasoning_text.done" : "response.output_text.done", std::move(text));
      send("response.content_part.done", at_content({{"part", item["content"][0]}}));
    }
    send("response.output_item.done", {{"output_index", output_.size() - 1}, {"item", item}});
  }

  ExchangePtr exchange_;
  Json asked_;
  bool stream_;
  std::string id_;
  int64_t created_ = now_seconds();
  Json output_ = Json::array();
  bool open_ = false;
  bool begun_ = false;
  bool complete_ = true;
  int64_t sequence_ = 0;
};

}  // namespace

void responses(const Call& call) {
  const ServedModel& model = *call.model;
  Fields fields(call.body);
  fields.refuse("previous_response_id", "responses are not kept; send the whole conversation");
  fields.refuse("conversation", "conversations are not kept; send the whole one");
  fields.refuse("prompt", "prompts are not kept; send the input itself");
  const std::vector<std::string> include = fields.texts("include", kMostIncluded);
  if (std::ranges::find(include, "message.output_text.logprobs") != include.end()) {
    fields.refuse("include", "log-probabilities are not in responses; ask for a chat completion");
  }
  if (fields.integer("top_logprobs", 0, INT32_MAX).value_or(0) > 0) {
    fields.refuse("top_logprobs",
                  "log-probabilities are not in responses; ask for a chat completion");
  }
  if (fields.boolean("background").value_or(false)) fields.wrong("background", "false");
  CompletionRequest request;
  const bool stream = fields.boolean("stream").value_or(false);
  if (const auto most = fields.integer("max_output_tokens", 1, INT32_MAX)) {
    request.options.max_tokens = static_cast<int32_t>(*most);
  }
  read_generation(fields, *call.model, request);
  read_text_format(fields, request);
  const Json conversation = conversation_of(fields);
  Fields translated(conversation);
  read_chat(call, translated, request);
  request.one_call = !fields.boolean("parallel_tool_calls").value_or(true);
  for (const char* unused : {"store", "metadata", "user", "truncation", "service_tier"}) {
    fields.ignore(unused);
  }
  const auto same = [&](const char* name, Json absent) {
    const auto found = call.body.find(name);
    return found == call.body.end() || found->is_null() ? absent : *found;
  };
  Json asked = {{"model", fields.text("model").value_or(model.name())},
                {"instructions", same("instructions", nullptr)},
                {"max_output_tokens", same("max_output_tokens", nullptr)},
                {"metadata", same("metadata", Json::object())},
                {"parallel_tool_calls", !request.one_call},
                {"temperature", same("temperature", nullptr)},
                {"top_p", same("top_p", nullptr)},
                {"text", same("text", {{"format", {{"type", "text"}}}})},
                {"tool_choice", same("tool_choice", "auto")},
                {"tools", same("tools", Json::array())}};
  call.api.metrics().count_unknown_fields(fields.unknown());
  auto sink = std::make_unique<ResponseSink>(call.exchange, std::move(asked), stream);
  generate(call, std::move(request), std::move(sink));
}

}  // namespace infer::server
