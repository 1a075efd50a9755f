// The settings of the window and of how models are loaded.
#pragma once

#include <string>
#include <vector>

#include "gui/host/settings_store.h"
#include "infer/infer.hpp"

namespace infer::gui {

class SettingsPane {
 public:
  explicit SettingsPane(SettingsStore& store) : store_(store) {}
  void draw();

 private:
  bool draw_look(Settings& settings);
  bool draw_loading(Settings& settings);
  bool draw_chat(Settings& settings);

  SettingsStore& store_;
  std::vector<std::string> devices_;
  std::string system_prompt_;
  bool read_ = false;
};

}  // namespace infer::gui
