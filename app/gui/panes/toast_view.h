// Draws the short messages at the lower right of the window.
#pragma once

#include "gui/state/toasts.h"

namespace infer::gui {

/// `lift`: pixels that stay free below them.
void draw_toasts(Toasts& toasts, float lift);

}  // namespace infer::gui
