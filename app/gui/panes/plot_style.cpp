#include "gui/panes/plot_style.h"

#include <algorithm>
#include <iterator>

#include "gui/theme.h"

namespace infer::gui {

PlotTheme plot_style() {
  const Theme& t = theme();
  PlotTheme style;
  style.font_size = ImGui::GetFontSize() * 0.92f;
  style.scale = scale();
  style.text = packed(t.text);
  style.faint = packed(t.faint);
  style.grid = packed(t.border, 0.4f);
  style.axis = packed(t.border);
  style.background = packed(t.panel);
  style.pointer = packed(t.faint, 0.6f);
  style.limit = packed(t.danger);
  // The sixth colour is that of what is free.
  const Rgb series[] = {t.series[0], t.series[1], t.series[2], t.series[3], t.series[6],
                        t.series[7], t.series[4], t.accent,    t.good,      t.warning};
  std::ranges::transform(series, style.series.begin(), [](Rgb rgb) { return packed(rgb); });
  return style;
}

}  // namespace infer::gui
