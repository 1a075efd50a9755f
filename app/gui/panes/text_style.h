// The look of the messages' text in the colours of the theme.
#pragma once

#include "gui/fonts.h"
#include "gui/text/look.h"

namespace infer::gui {

/// Fills the look from the theme and the fonts; its generation is another one then.
void style_text(TextLook& look, const Fonts& fonts);

}  // namespace infer::gui
