// The settings of the window and of how models are loaded.
#pragma once

#include <string>
#include <vector>

#include "gui/host/settings_store.h"
#include "gui/state/model_state.h"

namespace infer::gui {

class SettingsPane {
 public:
  SettingsPane(SettingsStore& store, ModelState& models) : store_(store), models_(models) {}
  void draw();

 private:
  bool draw_look(Settings& settings);
  bool draw_loading(Settings& settings);
  bool draw_chat(Settings& settings);

  SettingsStore& store_;
  ModelState& models_;
  std::string system_prompt_;
  bool read_ = false;
};

}  // namespace infer::gui
