#include "gui/plot/canvas.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace infer::gui {
namespace {

float width_of(const PlotTheme& theme, std::string_view text) {
  ImFont* font = theme.font != nullptr ? theme.font : ImGui::GetFont();
  return font->CalcTextSizeA(theme.font_size, FLT_MAX, 0, text.data(), text.data() + text.size()).x;
}

/// Calls f(entry, x, y, width) for each entry of a legend. Returns the height of all.
template <typename F>
float place_legend(const std::vector<LegendEntry>& entries, float room, const PlotTheme& theme,
                   const F& f) {
  const float line = theme.font_size * 1.5f;
  const float square = theme.font_size * 1.1f, gap = theme.font_size;
  float x = 0, y = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const float width = square + width_of(theme, entries[i].text);
    if (x > 0 && x + width > room) {
      x = 0;
      y += line;
    }
    f(i, x, y, width);
    x += width + gap;
  }
  return entries.empty() ? 0 : y + line;
}

}  // namespace

Canvas::Canvas(const char* name, ImVec2 size, const PlotTheme& theme)
    : theme_(theme), list_(ImGui::GetWindowDrawList()), min_(ImGui::GetCursorScreenPos()) {
  size = {std::max(size.x, 1.0f), std::max(size.y, 1.0f)};
  max_ = {min_.x + size.x, min_.y + size.y};
  ImGui::PushItemFlag(ImGuiItemFlags_NoNav, true);  // keys do nothing here
  ImGui::InvisibleButton(name, size);
  ImGui::PopItemFlag();
  is_hovered_ = ImGui::IsItemHovered();
  is_held_ = ImGui::IsItemActive();
}

float Canvas::text_width(std::string_view text) const { return width_of(theme_, text); }

void Canvas::text(ImVec2 at, std::string_view text, ImU32 colour) {
  if (text.empty()) return;
  list_->AddText(font(), theme_.font_size, {std::floor(at.x), std::floor(at.y)}, colour,
                 text.data(), text.data() + text.size());
}

void Canvas::fitting_text(ImVec2 at, std::string_view text, float width, ImU32 colour) {
  if (width <= 0 || text.empty()) return;
  if (text_width(text) <= width) return this->text(at, text, colour);
  const std::string_view dots = "...";
  const float room = width - text_width(dots);
  if (room <= 0) return;
  const char* end = nullptr;
  font()->CalcTextSizeA(theme_.font_size, room, 0, text.data(), text.data() + text.size(), &end);
  const std::string cut = std::string(text.data(), end) + std::string(dots);
  this->text(at, cut, colour);
}

void show_tip(const std::vector<TipLine>& lines) {
  ImGui::BeginTooltip();
  const float side = ImGui::GetTextLineHeight() * 0.7f;
  for (const TipLine& line : lines) {
    if (line.colour != 0) {
      const ImVec2 at = ImGui::GetCursorScreenPos();
      const float y = at.y + (ImGui::GetTextLineHeight() - side) / 2;
      ImGui::GetWindowDrawList()->AddRectFilled({at.x, y}, {at.x + side, y + side}, line.colour);
      ImGui::Dummy({side, side});
      ImGui::SameLine();
    }
    ImGui::TextUnformatted(line.text.data(), line.text.data() + line.text.size());
  }
  ImGui::EndTooltip();
}

float legend_height(const std::vector<LegendEntry>& entries, float width, const PlotTheme& theme) {
  return place_legend(entries, width, theme, [](size_t, float, float, float) {});
}

int draw_legend(Canvas& canvas, ImVec2 at, const std::vector<LegendEntry>& entries,
                const PlotTheme& theme) {
  int hovered = -1;
  const float side = std::floor(theme.font_size * 0.7f);
  const ImVec2 pointer = canvas.pointer();
  place_legend(entries, canvas.width(), theme, [&](size_t i, float x, float y, float width) {
    const ImVec2 from(at.x + x, at.y + y);
    const float top = std::floor(from.y + (canvas.line_height() - side) / 2);
    canvas.rectangle({from.x, top}, {from.x + side, top + side}, entries[i].colour, canvas.px(2));
    const float text_x = from.x + theme.font_size * 1.1f;
    canvas.fitting_text({text_x, from.y + theme.font_size * 0.15f}, entries[i].text,
                        canvas.max().x - text_x, theme.text);
    if (canvas.is_hovered() && pointer.x >= from.x && pointer.x < from.x + width &&
        pointer.y >= from.y && pointer.y < from.y + canvas.line_height()) {
      hovered = static_cast<int>(i);
    }
  });
  return hovered;
}

}  // namespace infer::gui
