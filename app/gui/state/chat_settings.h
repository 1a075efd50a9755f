// The settings of a conversation as the store keeps them: a JSON object with the names that the
// command line and the server use.
#pragma once

#include <string>

#include "infer/infer.hpp"

namespace infer::gui {

struct ChatSettings {
  SamplingOptions sampling;
  int32_t max_tokens = -1;
  std::string grammar;  ///< at most one of these two
  std::string json_schema;
  std::string tools;          ///< a JSON array; empty: none
  std::string chat_template;  ///< a name or Jinja (chat::choose_template); empty: the model's own
  std::string template_of;    ///< path of the model that it was chosen for; empty: for any
  bool thinking = true;       ///< `enable_thinking` of templates that know it
  bool drop_oldest = false;   ///< when the context is full the oldest turns are left out

  GenerateOptions options() const;
  std::string template_variables() const;  ///< JSON
};

/// invalid_argument names the member that is wrong.
Result<ChatSettings> settings_of(const std::string& json);
/// Members that have no value are left out.
std::string text_of(const ChatSettings& settings);

}  // namespace infer::gui
