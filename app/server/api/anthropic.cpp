// Anthropic's interface: POST /v1/messages and /v1/messages/count_tokens.
#include <fmt/format.h>

#include "chat/images.h"
#include "server/api/api.h"
#include "server/api/chat_messages.h"
#include "server/api/constraint_fields.h"
#include "server/api/openai_format.h"
#include "server/api/sampling_fields.h"

namespace infer::server {
namespace {

constexpr size_t kMostBlocks = 100'000;
constexpr size_t kMostStops = 64;

/// A block of type "image" as a part in OpenAI's form.
Json image_of(Fields& block) {
  const Json* source = block.object("source");
  if (source == nullptr) block.wrong("source", "an object with the image");
  Fields inner(*source, block.path_of("source"));
  if (inner.text("type").value_or("") != "base64") {
    inner.wrong("type", "base64: no addresses are fetched");
  }
  const std::string type = inner.text("media_type").value_or("image/png");
  const std::string url = "data:" + type + ";base64," + inner.text("data").value_or("");
  std::string file;
  if (!chat::decode_image(url, file)) inner.wrong("data", "the image in base64");
  return {{"type", "image_url"}, {"image_url", {{"url", url}}}};
}

/// A string, or the texts of an array of text blocks. `images`: gets those among the blocks; null:
/// they are refused.
std::string text_of(Fields& fields, const char* name, Json* images = nullptr) {
  const Json* value = fields.find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_array() || value->size() > kMostBlocks) {
    fields.wrong(name, "a string or an array of blocks");
  }
  std::string text;
  for (size_t i = 0; i < value->size(); ++i) {
    Fields block((*value)[i], fields.path_of(fmt::format("{}[{}]", name, i)));
    const std::string type = block.text("type").value_or("");
    if (type == "image" && images != nullptr) {
      images->push_back(image_of(block));
      continue;
    }
    if (type != "text") {
      block.wrong("type", images == nullptr ? "text: the model takes no other content here"
                                            : "text or image");
    }
    text += block.text("text").value_or("");
  }
  return text;
}

/// One message as those of OpenAI's form that say the same: results of tools are messages of their
/// own there, whose images are the user's, since templates show no others.
void add_message(Fields& message, Json& all) {
  const std::string role = message.text("role").value_or("");
  if (role != "user" && role != "assistant") message.wrong("role", "user or assistant");
  const Json* content = message.find("content");
  if (content == nullptr || (!content->is_string() && !content->is_array()) ||
      content->size() > kMostBlocks) {
    message.wrong("content", "a string or an array of blocks");
  }
  Json made = {{"role", role}, {"content", ""}};
  if (content->is_string()) {
    made["content"] = *content;
    all.push_back(std::move(made));
    return;
  }
  std::string text;
  std::string thinking;
  Json parts = Json::array();
  bool images = false;
  bool results = false;
  if (content->empty() && role == "user") {
    message.wrong("content", "a string or an array of at least one block");
  }
  for (size_t i = 0; i < content->size(); ++i) {
    Fields block((*content)[i], message.path_of(fmt::format("content[{}]", i)));
    const std::string type = block.text("type").value_or("");
    if (type == "text") {
      const std::string own = block.text("text").value_or("");
      text += own;
      parts.push_back({{"type", "text"}, {"text", own}});
    } else if (type == "image") {
      images = true;
      parts.push_back(image_of(block));
    } else if (type == "thinking") {
      thinking += block.text("thinking").value_or("");
    } else if (type == "redacted_thinking") {
      continue;
    } else if (type == "tool_use") {
      const Json* input = block.object("input");
      made["tool_calls"].push_back({{"id", block.text("id").value_or("")},
                                    {"type", "function"},
                                    {"function",
                                     {{"name", block.text("name").value_or("")},
                                      {"arguments", input == nullptr ? Json::object() : *input}}}});
    } else if (type == "tool_result") {
      const size_t before = parts.size();
      all.push_back({{"role", "tool"},
                     {"tool_call_id", block.text("tool_use_id").value_or("")},
                     {"content", text_of(block, "content", &parts)}});
      results = true;
      images = images || parts.size() > before;
    } else {
      block.wrong("type", "text, image, thinking, tool_use or tool_result");
    }
  }
  made["content"] = images ? parts : Json(text);
  if (!thinking.empty()) made["reasoning_content"] = thinking;
  if (!text.empty() || images || !results || role == "assistant") all.push_back(std::move(made));
}

/// "messages", "tools", "tool_choice" and so on as in OpenAI's form. `one_call`: whether the answer
/// may have one call at most.
Json conversation_of(Fields& fields, bool& one_call) {
  Json made = {{"messages", Json::array()}};
  if (const std::string system = text_of(fields, "system"); !system.empty()) {
    made["messages"].push_back({{"role", "system"}, {"content", system}});
  }
  const Json* messages = fields.array("messages", kMostBlocks);
  if (messages == nullptr || messages->empty()) {
    fields.wrong("messages", "an array of at least one message");
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    Fields message((*messages)[i], fmt::format("messages[{}]", i));
    add_message(message, made["messages"]);
  }
  Json& all = made["messages"];
  // An answer that is to begin with nothing.
  const Json nothing = {{"role", "assistant"}, {"content", ""}};
  if (!all.empty() && all.back() == nothing) all.erase(all.end() - 1);
  const bool continues = !all.empty() && can_continue(all.back());
  made["continue_final_message"] = continues;
  const Json* tools = fields.array("tools", kMostTools);
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    Fields tool((*tools)[i], fmt::format("tools[{}]", i));
    const Json* schema = tool.object("input_schema");
    if (schema == nullptr && tool.text("type").value_or("custom") != "custom") {
      tool.wrong("type", "custom: the server runs no tools itself");
    }
    if (schema == nullptr) tool.wrong("input_schema", "an object: other tools are not supported");
    made["tools"].push_back({{"type", "function"},
                             {"function",
                              {{"name", read_tool_name(tool)},
                               {"description", tool.text("description").value_or("")},
                               {"parameters", *schema},
                               {"strict", tool.boolean("strict").value_or(false)}}}});
  }
  if (const Json* choice = fields.object("tool_choice"); choice != nullptr) {
    Fields inner(*choice, "tool_choice");
    const std::string type = inner.text("type").value_or("");
    if (type == "tool") {
      const std::string name = inner.text("name").value_or("");
      if (name.empty()) inner.wrong("name", "the name of a tool in tools");
      made["tool_choice"] = {{"type", "function"}, {"function", {{"name", name}}}};
    } else if (type == "any") {
      made["tool_choice"] = "required";
    } else if (type == "auto" || type == "none") {
      made["tool_choice"] = type;
    } else {
      inner.wrong("type", "auto, any, tool or none");
    }
    one_call = inner.boolean("disable_parallel_tool_use").value_or(false);
  }
  if (const Json* thinking = fields.object("thinking"); thinking != nullptr) {
    const std::string type = Fields(*thinking, "thinking").text("type").value_or("");
    made["chat_template_kwargs"] = {{"enable_thinking", type != "disabled"}};
  }
  return made;
}

const char* stop_reason(const GenerateResult& result, bool calls) {
  if (result.reason != FinishReason::stop) return "max_tokens";
  if (!result.stop_string.empty()) return "stop_sequence";
  return calls ? "tool_use" : "end_turn";
}

class MessageSink final : public CompletionSink {
 public:
  MessageSink(ExchangePtr exchange, std::string model, bool stream, int64_t prompt_tokens)
      : exchange_(std::move(exchange)),
        model_(std::move(model)),
        stream_(stream),
        prompt_tokens_(prompt_tokens) {}

  void quiet() override {
    if (!stream_) return;
    begin();
    send("ping", Json::object());
  }

  void part(int, const OutputEvent& event, std::vector<TokenChoices>) override {
    using Kind = OutputEvent::Kind;
    if (event.kind == Kind::tool_call) {
      open({{"type", "tool_use"},
            {"id", call_id(exchange_->request(), event.call, 0, calls_++)},
            {"name", event.call.name},
            {"input", Json::object()}});
      Json input = parse_json(event.call.arguments);
      content_.back()["input"] = input.is_object() ? std::move(input) : Json::object();
      delta({{"type", "input_json_delta"}, {"partial_json", event.call.arguments}});
      close();
      return;
    }
    const bool thinks = event.kind == Kind::reasoning;
    const char* type = thinks ? "thinking" : "text";
    if (!open_ || content_.back()["type"] != type) {
      Json block = {{"type", type}, {type, ""}};
      if (thinks) block["signature"] = "";
      open(std::move(block));
    }
    if (!stream_) content_.back()[type].get_ref<std::string&>() += event.text;
    delta({{"type", thinks ? "thinking_delta" : "text_delta"}, {type, event.text}});
  }

  void finished(int, const GenerateResult& result) override {
    close();
    reason_ = stop_reason(result, calls_ > 0);
    if (!result.stop_string.empty()) stop_sequence_ = result.stop_string;
  }

  void done(const CompletionTotals& totals) override {
    const Json usage = {{"input_tokens", totals.prompt_tokens - totals.cached_tokens},
                        {"cache_creation_input_tokens", 0},
                        {"cache_read_input_tokens", totals.cached_tokens},
                        {"output_tokens", totals.generated_tokens}};
    if (!stream_) {
      Json message = head();
      message["content"] = std::move(content_);
      message["stop_reason"] = reason_;
      message["stop_sequence"] = stop_sequence_;
      message["usage"] = usage;
      return send_json(*exchange_, message);
    }
    begin();
    send("message_delta", {{"delta", {{"stop_reason", reason_}, {"stop_sequence", stop_sequence_}}},
                           {"usage", usage}});
    send("message_stop", Json::object());
    exchange_->end();
  }

  void failed(const Status& status, const std::string& field) override {
    const int code = http_status(status.code());
    if (!begun_) return send_problem(*exchange_, Problem(code, status.message(), field));
    send("error",
         {{"error", {{"type", anthropic_error_type(code)}, {"message", status.message()}}}});
    exchange_->end();
  }

 private:
  Json head() const {
    return {{"id", completion_id("msg_", exchange_->request())},
            {"type", "message"},
            {"role", "assistant"},
            {"model", model_}};
  }
  void begin() {
    if (std::exchange(begun_, true)) return;
    exchange_->begin(200, kEventStream, {{"Cache-Control", "no-cache"}});
    Json message = head();
    message["content"] = Json::array();
    message["stop_reason"] = nullptr;
    message["stop_sequence"] = nullptr;
    message["usage"] = {{"input_tokens", prompt_tokens_}, {"output_tokens", 0}};
    send("message_start", {{"message", std::move(message)}});
  }
  void send(const char* type, const Json& more) {
    Json event = {{"type", type}};
    event.update(more);
    exchange_->write(fmt::format("event: {}\ndata: {}\n\n", type, write_json(event)));
  }
  void open(Json block) {
    close();
    open_ = true;
    if (stream_) {
      begin();
      send("content_block_start", {{"index", content_.size()}, {"content_block", block}});
    }
    content_.push_back(std::move(block));
  }
  void delta(const Json& json) {
    if (stream_) {
      send("content_block_delta", {{"index", content_.size() - 1}, {"delta", json}});
    }
  }
  void close() {
    if (!std::exchange(open_, false)) return;
    if (stream_) send("content_block_stop", {{"index", content_.size() - 1}});
  }

  ExchangePtr exchange_;
  std::string model_;
  bool stream_;
  int64_t prompt_tokens_;
  Json content_ = Json::array();
  std::string reason_;
  Json stop_sequence_;  // null: none was found
  size_t calls_ = 0;
  bool open_ = false;
  bool begun_ = false;
};

/// `output_config.format`, or `output_format` as it was called before.
void read_output_format(Fields& fields, CompletionRequest& request) {
  const auto read = [&](Fields& holder, const char* name) {
    const Json* format = holder.object(name);
    if (format == nullptr) return;
    Fields described(*format, holder.path_of(name));
    read_described_format(described, request);
  };
  read(fields, "output_format");
  const Json* config = fields.object("output_config");
  if (config == nullptr) return;
  Fields inner(*config, fields.path_of("output_config"));
  read(inner, "format");
}

}  // namespace

void messages(const Call& call) {
  const ServedModel& model = *call.model;
  Fields fields(call.body);
  CompletionRequest request;
  const std::string name = fields.text("model").value_or(model.name());
  const bool stream = fields.boolean("stream").value_or(false);
  const auto most = fields.integer("max_tokens", 1, INT32_MAX);
  if (!most) fields.wrong("max_tokens", "a whole number");
  request.options.max_tokens = static_cast<int32_t>(*most);
  read_generation(fields, *call.model, request);
  read_output_format(fields, request);
  request.options.stop = fields.texts("stop_sequences", kMostStops);
  std::erase(request.options.stop, "");
  const Json conversation = conversation_of(fields, request.one_call);
  Fields translated(conversation);
  read_chat(call, translated, request);
  for (const char* unused : {"metadata", "service_tier"}) fields.ignore(unused);
  call.api.metrics().count_unknown_fields(fields.unknown());
  auto sink = std::make_unique<MessageSink>(call.exchange, name, stream,
                                            static_cast<int64_t>(request.prompts[0].size()));
  generate(call, std::move(request), std::move(sink));
}

void count_tokens(const Call& call) {
  Fields fields(call.body);
  CompletionRequest request;
  const Json conversation = conversation_of(fields, request.one_call);
  Fields translated(conversation);
  read_chat(call, translated, request);
  send_json(*call.exchange, {{"input_tokens", request.prompts[0].size()}});
}

}  // namespace infer::server
