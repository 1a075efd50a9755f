// The settings of the conversation that is shown: system prompt, presets, sampling, constraint,
// tools.
#pragma once

#include <string>

#include "gui/state/chat_state.h"

namespace infer::gui {

class ChatOptions {
 public:
  explicit ChatOptions(ChatState& chat) : chat_(chat) {}
  void draw();

 private:
  void draw_presets();
  bool draw_sampling(ChatSettings& settings);
  bool draw_constraint(ChatSettings& settings);

  ChatState& chat_;
  Id of_ = -1;  ///< the conversation that the texts below are of
  std::string system_prompt_;
  std::string constraint_;
  size_t constraint_kind_ = 0;
  std::string tools_;
  std::string preset_name_;
};

}  // namespace infer::gui
