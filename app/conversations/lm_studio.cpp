// LM Studio's conversations. `messages` is a list; each has `versions`, of which
// `currentlySelected` is shown, and what follows follows that one. A version of type singleStep has
// a list `content`; one of type multiStep has `steps`, and those of type contentBlock have
// `content` and perhaps a `style` (thinking) and `genInfo`.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "conversations/import_formats.h"

namespace infer::conversations {
namespace {

/// The number or text that names a call; they are compared as text.
std::string call_id(const Json& part) {
  for (const char* name : {"toolCallRequestId", "toolCallId", "callId"}) {
    const auto found = part.find(name);
    if (found == part.end()) continue;
    if (found->is_string()) return found->get<std::string>();
    if (found->is_number_integer()) return found->dump();
  }
  return {};
}

/// JSON as text; what is text already stays.
std::string as_text(const Json& part, const char* name) {
  const auto found = part.find(name);
  if (found == part.end() || found->is_null()) return {};
  return found->is_string() ? found->get<std::string>() : found->dump();
}

/// Calls of tools that have no result yet: the place in the message, by id.
using OpenCalls = std::map<std::string, size_t>;

void read_part(JsonFields& fields, const Json& part, bool is_thinking, const std::string& at,
               Message& message, OpenCalls& open_calls) {
  if (!fields.require_object(part, at)) return;
  const std::string type = fields.text(part, "type", at);
  if (type == "text") {
    (is_thinking ? message.reasoning : message.text) += fields.text(part, "text", at);
  } else if (type == "toolCallRequest") {
    const std::string arguments =
        as_text(part, part.contains("parameters") ? "parameters" : "arguments");
    open_calls[call_id(part)] = message.tool_calls.size();
    message.tool_calls.push_back({call_id(part), fields.text(part, "name", at), arguments, ""});
  } else if (type == "toolCallResult") {
    const auto call = open_calls.find(call_id(part));
    if (call == open_calls.end()) return;
    message.tool_calls[call->second].result = as_text(part, "content");
    open_calls.erase(call);
  } else {
    const std::string file = fields.text(part, "fileIdentifier", at);
    const std::string kind = fields.text(part, "fileType", at);
    message.text += fmt::format("{}[{}{}{}]\n", message.text.empty() ? "" : "\n",
                                kind.empty() ? type : kind, file.empty() ? "" : ": ", file);
  }
}

void read_parts(JsonFields& fields, const Json& holder, bool is_thinking, const std::string& at,
                Message& message, OpenCalls& open_calls) {
  const Json& content = fields.array(holder, "content", at);
  for (size_t i = 0; i < content.size() && fields.ok(); ++i) {
    read_part(fields, content[i], is_thinking, fmt::format("{}.content[{}]", at, i), message,
              open_calls);
  }
}

void read_generation(JsonFields& fields, const Json& info, const std::string& at,
                     Message& message) {
  if (info.empty()) return;
  if (std::string model = fields.text(info, "identifier", at); !model.empty()) {
    message.model = std::move(model);
  }
  const std::string place = at + ".stats";
  const Json& stats = fields.object(info, "stats", at);
  if (fields.text(stats, "stopReason", place) == "userStopped") message.state = State::stopped;
  Statistics& s = message.statistics;
  s.prompt_tokens = fields.integer(stats, "promptTokensCount", place);
  s.generated_tokens = fields.integer(stats, "predictedTokensCount", place);
  s.generate_rate = fields.number(stats, "tokensPerSecond", place);
  s.first_token_seconds = fields.number(stats, "timeToFirstTokenSec", place);
}

Message read_version(JsonFields& fields, const Json& version, const std::string& at) {
  Message message;
  const std::string role = fields.text(version, "role", at);
  message.role = role == "assistant" ? Role::assistant
                 : role == "system"  ? Role::system
                 : role == "tool"    ? Role::tool
                                     : Role::user;
  if (role.empty()) fields.fail(at + ".role", "user, assistant, system or tool");
  message.model =
      fields.text(fields.object(version, "senderInfo", at), "senderName", at + ".senderInfo");
  if (message.role != Role::assistant) message.model.clear();
  OpenCalls open_calls;
  read_parts(fields, version, false, at, message, open_calls);
  const Json& steps = fields.array(version, "steps", at);
  for (size_t i = 0; i < steps.size() && fields.ok(); ++i) {
    const std::string place = fmt::format("{}.steps[{}]", at, i);
    const Json& step = steps[i];
    if (!fields.require_object(step, place)) break;
    read_generation(fields, fields.object(step, "genInfo", place), place + ".genInfo", message);
    if (fields.text(step, "type", place) != "contentBlock") continue;  // status lines, debugging
    const std::string style =
        fields.text(fields.object(step, "style", place), "type", place + ".style");
    read_parts(fields, step, style == "thinking", place, message, open_calls);
  }
  return message;
}

/// Settings that have a name here; of the others there is none.
void read_settings(JsonFields& fields, const Json& source, Conversation& conversation) {
  struct Name {
    const char* theirs;
    const char* ours;
  };
  constexpr Name kNames[] = {{"llm.prediction.temperature", "temperature"},
                             {"llm.prediction.topKSampling", "top_k"},
                             {"llm.prediction.topPSampling", "top_p"},
                             {"llm.prediction.minPSampling", "min_p"},
                             {"llm.prediction.repeatPenalty", "repeat_penalty"}};
  Json settings = Json::object();
  const Json& config = fields.object(source, "perChatPredictionConfig", "");
  const Json& list = fields.array(config, "fields", "perChatPredictionConfig");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string at = fmt::format("perChatPredictionConfig.fields[{}]", i);
    if (!fields.require_object(list[i], at) || !list[i].contains("value")) continue;
    const std::string key = fields.text(list[i], "key", at);
    const Json* value = &list[i].at("value");
    if (key == "llm.prediction.systemPrompt" && value->is_string()) {
      conversation.system_prompt = value->get<std::string>();
    }
    // Some can be switched off: {"checked": true, "value": 0.95}.
    if (value->is_object() && value->value("checked", Json()) == true && value->contains("value")) {
      value = &value->at("value");
    }
    for (const Name& name : kNames) {
      if (key == name.theirs && value->is_number()) settings[name.ours] = *value;
    }
  }
  conversation.settings = settings.dump();
}

}  // namespace

ImportedConversation read_lm_studio(JsonFields& fields, const Json& source) {
  ImportedConversation made;
  Conversation& c = made.conversation;
  c.title = fields.text(source, "name", "");
  c.created_at = fields.time(source, "createdAt", "", 1000);
  c.used_at = std::max({c.created_at, fields.time(source, "userLastMessagedAt", "", 1000),
                        fields.time(source, "assistantLastMessagedAt", "", 1000)});
  c.pinned = fields.boolean(source, "pinned", "");
  c.system_prompt = fields.text(source, "systemPrompt", "");
  read_settings(fields, source, c);
  const Json& messages = fields.array(source, "messages", "");
  Id parent = 0;
  for (size_t i = 0; i < messages.size() && fields.ok(); ++i) {
    const std::string at = fmt::format("messages[{}]", i);
    if (!fields.require_object(messages[i], at)) break;
    const Json& versions = fields.array(messages[i], "versions", at);
    const int64_t selected = fields.integer(messages[i], "currentlySelected", at);
    if (selected < 0 || selected >= static_cast<int64_t>(versions.size())) {
      fields.fail(at + ".currentlySelected",
                  fmt::format("the number of one of its {} versions", versions.size()));
      break;
    }
    Id shown = 0;
    for (size_t v = 0; v < versions.size() && fields.ok(); ++v) {
      const std::string place = fmt::format("{}.versions[{}]", at, v);
      if (!fields.require_object(versions[v], place)) break;
      Message message = read_version(fields, versions[v], place);
      message.created_at = c.created_at;  // messages have no times of their own
      const Id id = add_message(made, parent, std::move(message));
      if (static_cast<int64_t>(v) == selected) shown = id;
    }
    parent = shown;
  }
  select_path(made, parent);
  return made;
}

}  // namespace infer::conversations
