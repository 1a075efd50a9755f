#include "chat/template_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "chat/messages.h"

namespace infer::chat {
namespace {

using Json = nlohmann::ordered_json;

/// The names that templates have for the reasoning of a message.
constexpr std::array kReasoning = {"reasoning_content", "thinking", "reasoning"};

/// Stands in place of a content whose place is looked for. Of both cases: a template may change
/// them.
constexpr const char* kContinued = "inferContinuesHere";

bool lacks(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null();
}

/// An array in an object, whose elements that are objects can be changed; none if there is none.
std::vector<Json*> objects_in(Json& object, const char* name) {
  std::vector<Json*> all;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return all;
  for (Json& each : *found) {
    if (each.is_object()) all.push_back(&each);
  }
  return all;
}

/// The function that a call or a tool is about.
Json* function_of(Json& object) {
  const auto found = object.find("function");
  return found != object.end() && found->is_object() ? &*found : nullptr;
}

/// What OpenAI's API makes optional.
void fill_tool(Json& tool) {
  if (lacks(tool, "type")) tool["type"] = "function";
  Json* function = function_of(tool);
  if (function == nullptr) return;
  if (lacks(*function, "description") || lacks(*function, "parameters")) {
    // In the usual order, since templates print tools as they are.
    Json filled = {{"name", text_in(*function, "name")}, {"description", ""}};
    filled["parameters"] = Json::object();
    for (const auto& [name, value] : function->items()) {
      if (!value.is_null()) filled[name] = value;
    }
    *function = std::move(filled);
  }
  Json& parameters = (*function)["parameters"];
  if (!parameters.is_object()) return;
  if (lacks(parameters, "type")) parameters["type"] = "object";
  if (lacks(parameters, "properties")) parameters["properties"] = Json::object();
}

void set_reasoning(Json& message, const std::string& text) {
  for (const char* name : kReasoning) message[name] = text;
}

void fill_reasoning(Json& message) {
  for (const char* name : kReasoning) {
    const std::string text = text_in(message, name);
    if (!text.empty()) return set_reasoning(message, text);
  }
}

/// Results follow the message with their calls.
void fill_ids(Json& variables) {
  struct Open {
    std::string id, name;
  };
  std::vector<Open> open;  // calls without a result
  size_t count = 0;
  for (Json* message : objects_in(variables, "messages")) {
    const std::vector<Json*> calls = objects_in(*message, "tool_calls");
    if (!calls.empty()) open.clear();
    for (Json* call : calls) {
      const Json* function = function_of(*call);
      const std::string name = function == nullptr ? "" : text_in(*function, "name");
      // The form of Kimi, whose templates show a call's name by its id alone.
      if (text_in(*call, "id").empty()) (*call)["id"] = fmt::format("functions.{}:{}", name, count);
      ++count;
      open.push_back({text_in(*call, "id"), name});
    }
    if (!has_role(*message, "tool") || open.empty()) continue;
    const std::string id = text_in(*message, "tool_call_id");
    const std::string name = text_in(*message, "name");
    auto answered = std::ranges::find(open, id, &Open::id);
    if (answered == open.end() && !id.empty()) continue;
    if (answered == open.end()) answered = std::ranges::find(open, name, &Open::name);
    if (answered == open.end()) answered = open.begin();
    (*message)["tool_call_id"] = answered->id;
    if (name.empty()) (*message)["name"] = answered->name;
    open.erase(answered);
  }
}

/// Granite and DeepSeek say "thinking", Cohere says "reasoning", MiniMax has a word for either,
/// Seed counts what may be thought.
void fill_thinking(Json& variables) {
  constexpr std::array kNames = {"enable_thinking", "thinking", "reasoning"};
  for (const char* given : kNames) {
    const auto found = variables.find(given);
    if (found == variables.end() || !found->is_boolean()) continue;
    const bool thinks = found->get<bool>();
    for (const char* name : kNames) {
      if (!variables.contains(name)) variables[name] = thinks;
    }
    if (!variables.contains("thinking_mode")) {
      variables["thinking_mode"] = thinks ? "enabled" : "disabled";
    }
    if (!thinks && !variables.contains("thinking_budget")) variables["thinking_budget"] = 0;
    return;
  }
}

// Other forms. Each says whether it changed anything.

bool arguments_as_text(Json& variables) {
  bool changed = false;
  for (Json* message : objects_in(variables, "messages")) {
    for (Json* call : objects_in(*message, "tool_calls")) {
      Json* function = function_of(*call);
      if (function == nullptr || !function->contains("arguments")) continue;
      Json& arguments = (*function)["arguments"];
      if (arguments.is_string()) continue;
      arguments = arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
      changed = true;
    }
  }
  return changed;
}

/// Mistral's templates take no other ids. An id always becomes the same one.
bool short_ids(Json& variables) {
  constexpr size_t kLength = 9;
  constexpr std::string_view kDigits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  bool changed = false;
  const auto shorten = [&](Json& object, const char* name) {
    std::string id = text_in(object, name);
    if (id.size() == kLength && id.find_first_not_of(kDigits) == std::string::npos) return;
    uint64_t hash = 14695981039346656037U;  // FNV-1a
    for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
    id.clear();
    for (; id.size() < kLength; hash /= kDigits.size()) id += kDigits[hash % kDigits.size()];
    object[name] = id;
    changed = true;
  };
  for (Json* message : objects_in(variables, "messages")) {
    for (Json* call : objects_in(*message, "tool_calls")) shorten(*call, "id");
    if (has_role(*message, "tool")) shorten(*message, "tool_call_id");
  }
  return changed;
}

/// gpt-oss shows either before a call, in the same way.
bool text_as_reasoning(Json& variables) {
  bool changed = false;
  for (Json* message : objects_in(variables, "messages")) {
    const std::string text = text_in(*message, "content");
    const std::string reasoning = text_in(*message, kReasoning[0]);
    if (lacks(*message, "tool_calls") || text.empty() || reasoning.empty()) continue;
    set_reasoning(*message, reasoning + "\n\n" + text);
    (*message)["content"] = "";
    changed = true;
  }
  return changed;
}

/// Llama's templates take one call in a message. Each becomes a message of its own, followed by its
/// result.
bool one_call_each(Json& variables) {
  bool changed = false;
  Json all = Json::array();
  Json& messages = variables["messages"];
  for (size_t i = 0; i < messages.size();) {
    Json message = std::move(messages[i++]);
    const Json calls = message.is_object() ? message.value("tool_calls", Json()) : Json();
    if (calls.is_array() && calls.size() > 1) {
      changed = true;
      std::vector<Json> results;
      while (i < messages.size() && has_role(messages[i], "tool")) {
        results.push_back(std::move(messages[i++]));
      }
      for (const Json& call : calls) {
        message["tool_calls"] = Json::array({call});
        all.push_back(message);
        // What stands before the calls stands before the first.
        message = {{"role", message["role"]}, {"content", ""}};
        std::erase_if(results, [&](const Json& result) {
          const bool answers = text_in(result, "tool_call_id") == text_in(call, "id");
          if (answers) all.push_back(result);
          return answers;
        });
      }
      for (Json& result : results) all.push_back(std::move(result));
    } else {
      all.push_back(std::move(message));
    }
  }
  messages = std::move(all);
  return changed;
}

Result<std::string> render(const ChatTemplate& chat_template, const Json& variables) {
  const auto text_of = [&](const Json& form) {
    return chat_template.render(form.dump(-1, ' ', false, Json::error_handler_t::replace), "");
  };
  Result<std::string> first = text_of(variables);
  // Another form takes as many steps as one that took too many.
  const auto took_long = [](const Status& status) {
    return status.code() == StatusCode::does_not_fit;
  };
  if (first || took_long(first.error())) return first;
  // What a template could do with objects it may not with text: that form comes last.
  std::vector forms = {short_ids, one_call_each, text_as_reasoning, arguments_as_text};
  Json best = variables;
  std::string failure = first.error().message();
  for (size_t i = 0; i < forms.size();) {
    Json form = best;
    if (forms[i](form)) {
      const Result<std::string> text = text_of(form);
      if (text || took_long(text.error())) return text;
      if (text.error().message() != failure) {  // the template got further
        best = std::move(form);
        failure = text.error().message();
        forms.erase(forms.begin() + static_cast<ptrdiff_t>(i));
        i = 0;
        continue;
      }
    }
    ++i;
  }
  return first;
}

}  // namespace

Result<std::string> render_conversation(const ChatTemplate& chat_template, Json variables) {
  const auto found = variables.find("continue_final_message");
  const bool continues = found != variables.end() && *found == true;
  variables.erase("continue_final_message");
  for (Json* tool : objects_in(variables, "tools")) fill_tool(*tool);
  for (Json* message : objects_in(variables, "messages")) fill_reasoning(*message);
  fill_ids(variables);
  fill_thinking(variables);
  if (!continues) return render(chat_template, variables);
  // Another text in place of the content shows where the template puts it, whatever it is.
  variables["add_generation_prompt"] = false;
  Json& last = variables["messages"].back();
  const std::string content = text_in(last, "content");
  last["content"] = kContinued;
  Result<std::string> text = render(chat_template, variables);
  if (!text) return text;
  const size_t at = text->rfind(kContinued);
  if (at == std::string::npos) {
    return tl::unexpected(
        Status(StatusCode::unsupported,
               "the chat template changes the text of the last answer, so that it cannot be "
               "continued; generate it again"));
  }
  return text->substr(0, at) + content;
}

}  // namespace infer::chat
