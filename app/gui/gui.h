// The desktop window, from the command line's side: no header of the window's libraries.
#pragma once

#include <string>
#include <vector>

#include "infer/status.hpp"

namespace infer::gui {

struct GuiOptions {
  std::vector<std::string> models;  ///< the first one is loaded; without any: the last one
  std::string built_in;             ///< path of the built-in model
  float scale = 0;                  ///< pixels for each unit; 0: as the monitor says
  bool own_window = false;          ///< also if another window of this user is open
};

/// Opens the window and returns when it was closed. If a window of this user is open already, that
/// one is told what to open, and the call returns at once. unsupported: there is no display or no
/// library for windows; the message says which package brings it.
Status run_gui(const GuiOptions& options);

}  // namespace infer::gui
