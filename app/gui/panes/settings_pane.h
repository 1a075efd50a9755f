// The settings of the window and of how models are loaded.
#pragma once

#include <string>
#include <vector>

#include "gui/host/settings_store.h"
#include "gui/panes/replace_guard.h"
#include "gui/state/chat_state.h"
#include "gui/state/model_state.h"

namespace infer::gui {

class SettingsPane {
 public:
  SettingsPane(SettingsStore& store, ModelState& models, ChatState& chat)
      : store_(store), models_(models), chat_(chat) {}
  void draw();

 private:
  bool draw_look(Settings& settings);
  bool draw_loading(Settings& settings);
  bool draw_chat(Settings& settings);
  void draw_files();

  SettingsStore& store_;
  ModelState& models_;
  ChatState& chat_;
  std::string import_, export_;
  ReplaceGuard guard_;
  std::string system_prompt_;
  bool read_ = false;
};

}  // namespace infer::gui
