#include "gui/panes/toast_view.h"

#include <imgui/imgui.h>
#include <imgui/imgui_internal.h>

#include <algorithm>
#include <functional>

#include "gui/theme.h"
#include "gui/ui/ui.h"

namespace infer::gui {

void draw_toasts(Toasts& toasts, float right, float lift) {
  if (toasts.all().empty()) return;
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float gap = 14 * scale();
  const float font = ImGui::GetFontSize();
  const float room = screen.x - right - 2 * gap;
  const float most = std::clamp(room, font * 16, font * 30);
  ImGui::SetNextWindowPos({screen.x - right - gap, screen.y - gap - lift}, ImGuiCond_Always,
                          {1, 1});
  ImGui::SetNextWindowSizeConstraints({font * 16, 0}, {most, screen.y * 0.6f});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, 6 * scale());
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1);
  ImGui::PushStyleColor(ImGuiCol_WindowBg, colour(theme().panel));
  const bool open = ImGui::Begin(
      "toasts", nullptr,
      ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_AlwaysAutoResize |
          ImGuiWindowFlags_NoFocusOnAppearing | ImGuiWindowFlags_NoSavedSettings);
  int64_t close = 0;
  std::function<void()> act;
  if (open) {
    const ui::Scope scope("toasts");
    for (const Toast& toast : toasts.all()) {
      const ui::Scope one("toast", toast.id);
      ImGui::PushTextWrapPos(most - font * 2);
      if (toast.is_error) {
        ui::notice(ui::Tone::danger, toast.text, "error");
      } else {
        ui::text(toast.text, "text");
      }
      ImGui::PopTextWrapPos();
      if (!toast.action.empty()) {
        if (ui::button("action", toast.action, ui::Tone::primary)) {
          act = toast.act;
          close = toast.id;
        }
        ImGui::SameLine();
      }
      if (ui::button("close", "Close", ui::Tone::quiet)) close = toast.id;
    }
    // Above whatever else is drawn.
    if (!ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup))
      ImGui::BringWindowToDisplayFront(ImGui::GetCurrentWindow());
  }
  ImGui::End();
  ImGui::PopStyleColor();
  ImGui::PopStyleVar(2);
  if (close != 0) toasts.close(close);
  if (act) act();  // last: it may tell something itself
}

}  // namespace infer::gui
