// Draws the short messages at the lower right of the window.
#pragma once

#include "gui/state/toasts.h"

namespace infer::gui {

void draw_toasts(Toasts& toasts);

}  // namespace infer::gui
