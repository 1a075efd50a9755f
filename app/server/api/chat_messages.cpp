#include "server/api/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

#include "chat/images.h"
#include "chat/prompt.h"
#include "server/api/tool_choice.h"

namespace infer::server {
namespace {

/// Throws Problem unless the field's text is a data URI.
std::string checked_address(const Fields& fields, const char* name, const std::string& address) {
  std::string file;
  if (chat::decode_image(address, file)) return address;
  fields.wrong(name, fmt::format("data:image/png;base64,… with the image itself, found '{}': no "
                                 "addresses are fetched",
                                 address.substr(0, 40)));
}

/// Of an image: {"image_url": {"url": …}}, or with a text in place of the object.
std::string read_address(Fields& part) {
  const Json* image = part.find("image_url");
  if (image != nullptr && image->is_string()) {
    return checked_address(part, "image_url", image->get<std::string>());
  }
  if (image == nullptr || !image->is_object()) {
    part.wrong("image_url", "an object with the image as a data URI in url");
  }
  Fields inner(*image, part.path_of("image_url"));
  inner.ignore("detail");
  const std::optional<std::string> url = inner.text("url");
  if (!url) inner.wrong("url", "a data URI with the image");
  return checked_address(inner, "url", *url);
}

constexpr size_t kMostParts = 10'000;
constexpr size_t kMostCalls = 1000;

}  // namespace

std::string read_role(Fields& message) {
  constexpr std::array kRoles = {"system", "developer", "user", "assistant", "tool", "function"};
  std::string role = message.text("role").value_or("");
  if (std::ranges::find(kRoles, role) == kRoles.end()) {
    message.wrong("role", "system, developer, user, assistant or tool");
  }
  return role;
}

Json read_content(Fields& message, const char* name) {
  const Json* content = message.find(name);
  if (content == nullptr || content->is_string()) return content == nullptr ? Json() : *content;
  if (!content->is_array() || content->size() > kMostParts) {
    message.wrong(name, fmt::format("a string, or an array of at most {} parts", kMostParts));
  }
  std::string text;
  Json parts = Json::array();
  bool images = false;
  for (size_t i = 0; i < content->size(); ++i) {
    Fields part((*content)[i], message.path_of(fmt::format("{}[{}]", name, i)));
    const std::string type = part.text("type").value_or("text");
    if (type == "image_url" || type == "input_image") {
      images = true;
      parts.push_back({{"type", "image_url"}, {"image_url", {{"url", read_address(part)}}}});
      continue;
    }
    if (type != "text" && type != "input_text" && type != "output_text") {
      part.wrong("type", "text or image_url");
    }
    const std::string own = part.text("text").value_or("");
    text += own;
    parts.push_back({{"type", "text"}, {"text", own}});
  }
  return images ? parts : Json(text);
}

namespace {

Json read_calls(Fields& message) {
  const Json* calls = message.array("tool_calls", kMostCalls);
  Json all = Json::array();
  for (size_t i = 0; calls != nullptr && i < calls->size(); ++i) {
    Fields call((*calls)[i], message.path_of(fmt::format("tool_calls[{}]", i)));
    const Json* function = call.object("function");
    if (function == nullptr) call.wrong("function", "an object");
    Fields inner(*function, call.path_of("function"));
    const std::optional<std::string> name = inner.text("name");
    if (!name) inner.wrong("name", "a string");
    Json arguments = Json::object();
    if (const Json* given = inner.find("arguments"); given != nullptr) {
      arguments = *given;
      if (given->is_string()) {
        // Templates print arguments as JSON, also where a client sends them as a string. An empty
        // one is a call without arguments.
        const auto& text = given->get_ref<const std::string&>();
        check_json(inner, "arguments", text);
        if (text.find_first_not_of(" \t\r\n") == std::string::npos) arguments = Json::object();
        Json parsed = parse_json(text);
        if (parsed.is_object()) arguments = std::move(parsed);
      }
    }
    Json entry = {{"type", "function"},
                  {"function", {{"name", *name}, {"arguments", std::move(arguments)}}}};
    if (const auto id = call.text("id")) entry["id"] = *id;
    all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace

Json read_messages(Fields& fields) {
  const Json* messages = fields.array("messages", kMostMessages);
  if (messages == nullptr || messages->empty()) {
    fields.wrong("messages", "an array of at least one message");
  }
  Json all = Json::array();
  for (size_t i = 0; i < messages->size(); ++i) {
    Fields message((*messages)[i], fields.path_of(fmt::format("messages[{}]", i)));
    const std::string role = read_role(message);
    // Templates know the older name.
    Json made = {{"role", role == "developer" ? "system" : role == "function" ? "tool" : role}};
    made["content"] = read_content(message);
    if (role != "assistant" && made["content"].is_null()) {
      message.wrong("content", "a string or an array of parts");
    }
    if (made["content"].is_null()) made["content"] = "";
    for (const char* name :
         {"name", "tool_call_id", "reasoning_content", "reasoning", "thinking"}) {
      if (const auto text = message.text(name)) made[name] = *text;
    }
    if (Json calls = read_calls(message); !calls.empty()) made["tool_calls"] = std::move(calls);
    all.push_back(std::move(made));
  }
  return all;
}

std::string read_tool_name(Fields& tool) {
  std::string name = tool.text("name").value_or("");
  if (name.empty()) tool.wrong("name", "the name of a function, not empty");
  return name;
}

bool can_continue(const Json& message) {
  const auto content = message.find("content");
  const auto calls = message.find("tool_calls");
  return message.value("role", Json()) == "assistant" && content != message.end() &&
         content->is_string() && *content != "" && (calls == message.end() || calls->empty());
}

Json template_variables(Fields& fields, Json* declared) {
  Json variables = Json::object();
  if (const Json* more = fields.object("chat_template_kwargs")) variables = *more;
  // Only those that are checked below.
  for (const char* name : {"tools", "continue_final_message"}) variables.erase(name);
  variables["messages"] = read_messages(fields);
  if (const auto prompt = fields.boolean("add_generation_prompt")) {
    variables["add_generation_prompt"] = *prompt;
  }
  if (fields.boolean("continue_final_message").value_or(false)) {
    const Json& last = variables["messages"].back();
    if (!can_continue(last)) {
      fields.wrong("continue_final_message",
                   "false, since the last message is not a text of the assistant");
    }
    variables["continue_final_message"] = true;
  }
  const Json* tools = fields.array("tools", kMostTools);
  const ToolChoice choice = read_tool_choice(fields);
  if (choice.mode == ToolChoice::Mode::none) return variables;
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    Fields tool((*tools)[i], fields.path_of(fmt::format("tools[{}]", i)));
    if (tool.text("type").value_or("function") != "function") {
      tool.wrong("type", "function: the server runs no tools itself");
    }
    const Json* function = tool.object("function");
    if (function == nullptr) tool.wrong("function", "an object");
    Fields inner(*function, tool.path_of("function"));
    read_tool_name(inner);
  }
  Json allowed = allowed_tools(fields, choice, tools == nullptr ? Json::array() : *tools);
  if (declared != nullptr) *declared = allowed;
  for (Json& tool : allowed) tool["function"].erase("strict");
  if (!allowed.empty()) variables["tools"] = std::move(allowed);
  return variables;
}

void require_turn(const Call& call, const Json& variables) {
  // Templates may take time that grows with the square of this.
  constexpr size_t kManyMessages = 256;
  if (!call.slow && variables["messages"].size() > kManyMessages) throw TakesLong();
}

namespace {

/// What stands for images in a prompt. Equal files are read once. Throws Problem as soon as the
/// images so far do not fit into the context, or nobody wants the answer any more. Throws TakesLong
/// when it has read for a while: what was read is kept, and other requests have their turn.
std::vector<ModelImage> read_images(const Call& call, const std::vector<std::string>& files) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kTurn(200);
  if (call.images == nullptr) throw TakesLong();
  const ServedModel& model = *call.model;
  const int64_t context = model.engine().memory().longest;
  ReadImages& known = *call.images;
  const Clock::time_point begun = Clock::now();
  bool has_read = false;
  std::vector<ModelImage> images;
  size_t tokens = 0;
  for (const std::string& file : files) {
    require_wanted(call);
    auto image = known.find(file);
    if (image == known.end()) {
      if (has_read && Clock::now() - begun > kTurn) throw TakesLong();
      has_read = true;
      Result<ModelImage> read = model.engine().read_image(
          std::as_bytes(std::span(file)), fmt::format("image {}", images.size() + 1));
      // The file is the client's.
      if (!read && read.error().code() == StatusCode::bad_file) {
        throw Problem(400, read.error().message(), prompt_field(call.body));
      }
      if (!read) must(for_clients(read.error(), model.engine().model().path, model.name()));
      image = known.emplace(file, *std::move(read)).first;
    }
    images.push_back(image->second);
    tokens += image->second.tokens.size();
    require_context(tokens, context, prompt_field(call.body));
  }
  return images;
}

}  // namespace

void read_chat(const Call& call, Fields& fields, CompletionRequest& request) {
  const ServedModel& model = *call.model;
  require_generating(model);
  Json tools = Json::array();
  Json variables = template_variables(fields, &tools);
  require_turn(call, variables);
  if (const auto effort = fields.text("reasoning_effort")) variables["reasoning_effort"] = *effort;
  const ToolChoice choice = read_tool_choice(fields);
  force_tool(fields, choice, tools, request);
  const bool continues = variables.value("continue_final_message", Json(false)) == true;
  const bool begins = !continues && variables.value("add_generation_prompt", Json(true)) != false;
  const std::vector<std::string> files = must(chat::take_images(variables["messages"]));
  if (!files.empty()) {
    request.place = take_place(call);
    request.options.images = read_images(call, files);
  }
  request.prompt_text = must(model.render(std::move(variables), files.size()));
  request.template_source = model.template_source(!tools.empty());
  request.output = {.continues = continues,
                    .tools = !tools.empty(),
                    .declared_tools = tools.empty() ? "" : write_json(tools),
                    .calls = choice.mode != ToolChoice::Mode::none};
  if (choice.mode != ToolChoice::Mode::automatic || !hold_calls(tools, request)) {
    request.output.constrained =
        OutputParser::is_constrained(request.template_source, request.options);
  }
  if (request.output.constrained && begins) {
    request.prompt_text =
        must(OutputParser::lead_to_answer(request.template_source, request.prompt_text));
  }
  request.options.special_text = true;
  request.prompts.push_back(
      must(chat::prompt_tokens(model.engine(), request.prompt_text, request.options.images)));
}

std::string call_id(const Request& request, const ToolCall& call, int choice, size_t index) {
  return call.id.empty() ? fmt::format("call_{}_{}_{}", request.id, choice, index) : call.id;
}

}  // namespace infer::server
