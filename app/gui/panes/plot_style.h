// The plots' colours and font, from the theme in use.
#pragma once

#include "gui/plot/plot_theme.h"

namespace infer::gui {

PlotTheme plot_style();

}  // namespace infer::gui
