// Draws the short messages at the lower right of the window.
#pragma once

#include "gui/state/toasts.h"

namespace infer::gui {

/// `right`, `lift`: pixels that stay free beside and below them.
void draw_toasts(Toasts& toasts, float right, float lift);

}  // namespace infer::gui
