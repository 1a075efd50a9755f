// Members of messages, which programs and clients may have given in any form.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace infer::chat {

/// A text in an object; empty if it is none.
inline std::string text_in(const nlohmann::ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

inline bool has_role(const nlohmann::ordered_json& message, const char* role) {
  return message.is_object() && text_in(message, "role") == role;
}

/// Whether a template's variables declare tools.
inline bool has_tools(const nlohmann::ordered_json& variables) {
  const auto tools = variables.find("tools");
  return tools != variables.end() && !tools->empty();
}

}  // namespace infer::chat
