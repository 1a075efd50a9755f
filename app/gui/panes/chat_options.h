// The settings of the conversation that is shown: system prompt, presets, sampling, constraint,
// tools, chat template.
#pragma once

#include <string>

#include "gui/state/chat_state.h"

namespace infer::gui {

class ChatOptions {
 public:
  explicit ChatOptions(ChatState& chat) : chat_(chat) {}
  void draw();
  /// Stores what was typed. Called when the options are no longer drawn.
  void keep();

 private:
  void read();
  void draw_all();
  void draw_presets();
  bool draw_sampling();

  ChatState& chat_;
  Id of_ = -1;  ///< the conversation that the texts below are of
  std::string system_prompt_;
  std::string constraint_;
  size_t constraint_kind_ = 0;
  std::string tools_;
  std::string template_;      ///< Jinja
  size_t template_kind_ = 0;  ///< the model's own, Jinja, or by name
  ChatSettings settings_;
  bool edited_ = false;  ///< something above is not stored yet
  std::string problem_;  ///< of the number that was typed last
  std::string preset_name_;
};

}  // namespace infer::gui
