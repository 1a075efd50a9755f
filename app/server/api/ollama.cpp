// ollama's interface: /api/chat, /api/generate, /api/embed, /api/embeddings.
#include <fmt/format.h>

#include <cmath>

#include "chat/images.h"
#include "platform/folders.h"
#include "server/api/adapters.h"
#include "server/api/api.h"
#include "server/api/chat_messages.h"
#include "server/api/openai_format.h"
#include "server/api/openai_sink.h"
#include "server/api/prompt_fields.h"
#include "server/api/sampling_fields.h"
#include "server/api/schema_fields.h"
#include "server/api/vectors.h"

namespace infer::server {
namespace {

constexpr size_t kMostImages = 1000;  // of a message

/// What `options` and `format` say, by the names that all interfaces share.
void read_options(const Call& call, Fields& fields, CompletionRequest& request) {
  Json options = Json::object();
  if (const Json* given = fields.object("options")) options = *given;
  Fields inner(options, "options");
  GenerateOptions& to = request.options;
  if (const auto most = inner.integer("num_predict", -2, INT32_MAX)) {
    to.max_tokens = static_cast<int32_t>(std::max<int64_t>(*most, -1));
  }
  read_generation(inner, *call.model, request);
  if (fields.find("lora") != nullptr) request.adapters = read_adapters(fields, *call.model);
  for (const char* unused : {"num_ctx", "num_thread", "num_gpu", "num_batch", "num_keep"}) {
    inner.ignore(unused);
  }
  const Json* format = fields.find("format");
  if (format != nullptr && (format->is_object() || format->is_boolean())) {
    hold_to_schema("format", *format, request);
  } else if (format != nullptr && *format == "json") {
    hold_to_schema("format", {{"type", "object"}}, request);
  } else if (format != nullptr && *format != "") {
    fields.wrong("format", "json or a JSON schema");
  }
  fields.ignore("keep_alive");
  call.api.metrics().count_unknown_fields(inner.unknown());
}

/// A text with the images of "images", if there are any, as the parts of a content.
Json with_images(Fields& fields, Json text) {
  const Json* images = fields.array("images", kMostImages);
  if (images == nullptr || images->empty()) return text;
  Json parts = Json::array();
  for (const Json& image : *images) {
    if (!image.is_string()) fields.wrong("images", "an array of images in base64");
    const std::string url = "data:image/png;base64," + image.get<std::string>();
    std::string file;
    if (!chat::decode_image(url, file)) fields.wrong("images", "an array of images in base64");
    parts.push_back({{"type", "image_url"}, {"image_url", {{"url", url}}}});
  }
  if (text.is_string()) parts.push_back({{"type", "text"}, {"text", std::move(text)}});
  return parts;
}

bool is_chat(const Request& request) { return request.path == "/api/chat"; }

/// The answer to no text, by which clients have a model loaded or unloaded.
void send_done(Exchange& exchange, const std::string& model, const char* reason) {
  Json answer = {{"model", model}, {"created_at", platform::utc_text()}};
  if (is_chat(exchange.request())) {
    answer["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    answer["response"] = "";
  }
  answer["done"] = true;
  answer["done_reason"] = reason;
  send_json(exchange, answer);
}

/// The model is loaded by now.
void answer_loaded(const Call& call, Fields& fields) {
  send_done(*call.exchange, fields.text("model").value_or(call.model->name()), "load");
}

/// A number of seconds, or a text such as "0", "0s" or "0m".
bool is_no_time(const Json& value) {
  if (value.is_number()) return value.get<double>() == 0;
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return text.starts_with('0') && text.find_first_of("123456789") == std::string::npos;
}

/// The messages in OpenAI's form: arguments of calls are objects in both.
Json openai_messages(Fields& fields) {
  const Json* messages = fields.array("messages", kMostMessages);
  Json all = Json::array();
  for (size_t i = 0; messages != nullptr && i < messages->size(); ++i) {
    Fields message((*messages)[i], fmt::format("messages[{}]", i));
    Json made = (*messages)[i];
    made["content"] = with_images(message, made.value("content", Json("")));
    if (const auto name = message.text("tool_name")) made["name"] = *name;
    all.push_back(std::move(made));
  }
  return all;
}

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

class OllamaSink final : public CompletionSink {
 public:
  OllamaSink(const Call& call, std::string name, bool stream, bool chat)
      : exchange_(call.exchange),
        model_(call.model),
        name_(std::move(name)),
        stream_(stream),
        chat_(chat) {}

  void part(int, const OutputEvent& event, std::vector<TokenChoices> tokens) override {
    using Kind = OutputEvent::Kind;
    std::string content = event.kind == Kind::content ? event.text : "";
    std::string thinking = event.kind == Kind::reasoning ? event.text : "";
    Json calls = Json::array();
    if (event.kind == Kind::tool_call) {
      Json arguments = parse_json(event.call.arguments);
      if (!arguments.is_object()) arguments = Json::object();
      calls.push_back(
          {{"function", {{"name", event.call.name}, {"arguments", std::move(arguments)}}}});
    }
    Json logprobs = logprobs_json(model_->engine(), tokens);
    if (!stream_) {
      for (Json& token : logprobs) logprobs_.push_back(std::move(token));
      content_ += content;
      thinking_ += thinking;
      for (Json& call : calls) calls_.push_back(std::move(call));
      return;
    }
    Json line = line_of(content, thinking, calls);
    line["done"] = false;
    if (!logprobs.empty()) line["logprobs"] = std::move(logprobs);
    send(line);
  }

  void finished(int, const GenerateResult& result) override {
    reason_ = result.reason == FinishReason::stop ? "stop" : "length";
  }

  void done(const CompletionTotals& totals) override {
    Json line = line_of(content_, thinking_, calls_);
    line["done"] = true;
    line["done_reason"] = reason_;
    line["total_duration"] = nanoseconds(exchange_->seconds());
    line["load_duration"] = 0;
    line["prompt_eval_count"] = totals.prompt_tokens;
    line["prompt_eval_duration"] = nanoseconds(totals.prompt_seconds);
    line["eval_count"] = totals.generated_tokens;
    line["eval_duration"] = nanoseconds(totals.generate_seconds);
    if (!logprobs_.empty()) line["logprobs"] = std::move(logprobs_);
    if (!stream_) return send_json(*exchange_, line);
    send(line);
    exchange_->end();
  }

  void failed(const Status& status, const std::string& /*field*/) override {
    if (!begun_) return send_problem(*exchange_, http_status(status.code()), status.message());
    exchange_->write(write_json({{"error", status.message()}}) + "\n");
    exchange_->end();
  }

 private:
  Json line_of(const std::string& content, const std::string& thinking, const Json& calls) const {
    Json line = {{"model", name_}, {"created_at", platform::utc_text()}};
    if (!chat_) {
      line["response"] = content;
      if (!thinking.empty()) line["thinking"] = thinking;
      return line;
    }
    Json message = {{"role", "assistant"}, {"content", content}};
    if (!thinking.empty()) message["thinking"] = thinking;
    if (!calls.empty()) message["tool_calls"] = calls;
    line["message"] = std::move(message);
    return line;
  }
  void send(const Json& line) {
    if (!std::exchange(begun_, true)) exchange_->begin(200, "application/x-ndjson");
    exchange_->write(write_json(line) + "\n");
  }

  ExchangePtr exchange_;
  ModelLease model_;
  std::string name_;
  bool stream_;
  bool chat_;
  std::string content_, thinking_, reason_;
  Json calls_ = Json::array();
  Json logprobs_ = Json::array();
  bool begun_ = false;
};

void start(const Call& call, Fields& fields, CompletionRequest request, bool chat) {
  const std::string name = fields.text("model").value_or(call.model->name());
  const bool stream = fields.boolean("stream").value_or(true);
  const auto top = fields.integer("top_logprobs", 0, kMostLogprobs);
  if (fields.boolean("logprobs").value_or(false)) {
    request.options.logprobs = static_cast<int32_t>(top.value_or(0));
    if (!stream) {
      limit_logprobs(fields, "top_logprobs", "options.num_predict",
                     call.model->engine().memory().longest, request);
    }
  }
  call.api.metrics().count_unknown_fields(fields.unknown());
  auto sink = std::make_unique<OllamaSink>(call, name, stream, chat);
  generate(call, std::move(request), std::move(sink));
}

/// Whether the model is to think, for its template.
void add_thinking(Fields& fields, Json& conversation) {
  const Json* think = fields.find("think");
  if (think == nullptr) return;
  conversation["chat_template_kwargs"] = {{"enable_thinking", *think != false}};
  if (think->is_string()) conversation["reasoning_effort"] = *think;
}

}  // namespace

void ollama_chat(const Call& call) {
  Fields fields(call.body);
  CompletionRequest request;
  read_options(call, fields, request);
  Json conversation = {{"messages", openai_messages(fields)}};
  if (conversation["messages"].empty()) return answer_loaded(call, fields);
  conversation["continue_final_message"] = can_continue(conversation["messages"].back());
  if (const Json* tools = fields.array("tools", kMostMessages)) conversation["tools"] = *tools;
  add_thinking(fields, conversation);
  Fields translated(conversation);
  read_chat(call, translated, request);
  start(call, fields, std::move(request), true);
}

void ollama_generate(const Call& call) {
  const ServedModel& model = *call.model;
  Fields fields(call.body);
  CompletionRequest request;
  read_options(call, fields, request);
  const std::string suffix = fields.text("suffix").value_or("");
  const std::string prompt = fields.text("prompt").value_or("");
  // Clients in Go send what is empty as well.
  if (fields.text("template").value_or("") != "") {
    fields.refuse("template", "the model's own chat template is used; \"raw\" goes without one");
  }
  if (const Json* before = fields.find("context"); before != nullptr && !before->empty()) {
    fields.refuse("context", "send the conversation to /api/chat instead");
  }
  Json content = with_images(fields, prompt);
  if (prompt.empty() && suffix.empty()) return answer_loaded(call, fields);
  const bool raw = fields.boolean("raw").value_or(false);
  if (!suffix.empty()) {
    if (!content.is_string()) fields.wrong("images", "none beside a suffix");
    request.prompts.push_back(
        infill_prompt({prompt, suffix, {}}, request.options.max_tokens, model.engine(), "suffix"));
  } else if (raw || model.template_source().empty()) {
    if (!content.is_string()) fields.wrong("images", "none: the prompt has no chat template");
    request.prompts.push_back(must(model.engine().tokenize(prompt, {})));
  } else {
    Json conversation = {{"messages", Json::array()}};
    if (const auto system = fields.text("system"); system && *system != "") {
      conversation["messages"].push_back({{"role", "system"}, {"content", *system}});
    }
    conversation["messages"].push_back({{"role", "user"}, {"content", std::move(content)}});
    add_thinking(fields, conversation);
    Fields translated(conversation);
    read_chat(call, translated, request);
  }
  start(call, fields, std::move(request), false);
}

bool ollama_unloads(const Call& call) {
  const Request& request = call.exchange->request();
  if (!is_chat(request) && request.path != "/api/generate") return false;
  if (call.api.pool().single()) return false;
  Fields fields(call.body);
  const Json* keep = fields.find("keep_alive");
  if (keep == nullptr || !is_no_time(*keep)) return false;
  const Json* asked = fields.find(is_chat(request) ? "messages" : "prompt");
  return asked == nullptr || *asked == "" || *asked == Json::array();
}

void ollama_unload(const Call& call) {
  const std::string name = call.api.model_name(call.body);
  const std::string given = Fields(call.body).text("model").value_or(name);
  call.api.pool().unload(
      name, [exchange = call.exchange] { return !exchange->closed(); },
      [exchange = call.exchange, given](const Result<ModelLease>& unloaded) {
        Api::guard(*exchange, [&] {
          must_have(unloaded);
          send_done(*exchange, given, "unload");
        });
      });
}

void ollama_embed(const Call& call) {
  Fields fields(call.body);
  const std::string name = fields.text("model").value_or(call.model->name());
  EmbedOptions options;
  std::vector<std::string> texts;
  // Clients load a model so.
  const Json* input = fields.find("input");
  const bool none = input == nullptr || *input == "" || *input == Json::array();
  if (!none) texts = read_input(fields, "input", call.model->engine(), options);
  options.dimensions = read_dimensions(fields, call.model->engine());
  options.truncate = fields.boolean("truncate").value_or(true);
  for (const char* unused : {"keep_alive", "options"}) fields.ignore(unused);
  call.api.metrics().count_unknown_fields(fields.unknown());
  embed(call, "input", std::move(texts), options,
        [exchange = call.exchange, name](const Embeddings& made) {
          Json vectors = Json::array();
          for (size_t i = 0; i + 1 < made.begins.size(); ++i)
            vectors.push_back(vector_json(made, i));
          send_json(*exchange, {{"model", name},
                                {"embeddings", std::move(vectors)},
                                {"total_duration", nanoseconds(exchange->seconds())},
                                {"load_duration", 0},
                                {"prompt_eval_count", made.tokens}});
        });
}

void ollama_embeddings(const Call& call) {
  Fields fields(call.body);
  fields.ignore("model");
  const std::optional<std::string> prompt = fields.text("prompt");
  if (!prompt) fields.wrong("prompt", "a string");
  for (const char* unused : {"keep_alive", "options"}) fields.ignore(unused);
  call.api.metrics().count_unknown_fields(fields.unknown());
  EmbedOptions options;
  options.normalise = false;  // this older path never did
  options.truncate = true;
  embed(call, "prompt", {*prompt}, options, [exchange = call.exchange](const Embeddings& made) {
    send_json(*exchange, {{"embedding", vector_json(made, 0)}});
  });
}

}  // namespace infer::server
