#include "gui/panes/chat_pane.h"

#include <imgui/imgui.h>

#include <algorithm>

#include "gui/keys.h"
#include "gui/text/sanitise.h"
#include "gui/ui/ui.h"
#include "platform/folders.h"

namespace infer::gui {
namespace {

constexpr size_t kTitleBytes = 200;

}  // namespace

void ChatPane::take_shortcuts() {
  if (is_pressed(Shortcut::new_conversation)) {
    chat_.start_new();
    composer_.focus();
  }
  if (is_pressed(Shortcut::search)) sidebar_.focus_search();
  if (is_pressed(Shortcut::rename)) sidebar_.rename_current();
  if (is_pressed(Shortcut::options)) shows_options_ = !shows_options_;
  if (is_pressed(Shortcut::copy_answer)) transcript_.copy_last_answer();
  if (is_pressed(Shortcut::regenerate)) transcript_.regenerate_last();
  // Elsewhere Escape ends what is being typed.
  const bool typing = ImGui::GetIO().WantTextInput && !composer_.is_active();
  if (is_pressed(Shortcut::send_stop) && !typing && chat_.is_answering()) chat_.stop();
}

void ChatPane::draw() {
  const float font = ImGui::GetFontSize();
  const float width = ImGui::GetContentRegionAvail().x;
  const float list = std::clamp(width * 0.2f, font * 11, font * 18);
  const float options = shows_options_ ? std::clamp(width * 0.26f, font * 17, font * 24) : 0;
  if (ui::Area area("left", list, 0); area) sidebar_.draw();
  ImGui::SameLine();
  if (ui::Area area("middle", options > 0 ? -options : 0, 0); area) {
    ImGui::AlignTextToFramePadding();
    ui::text(chat_.current() == 0 ? "New conversation" : one_line(chat_.title(), kTitleBytes),
             "title");
    const char* label = shows_options_ ? "Hide settings" : "Settings";
    ImGui::SameLine(ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(label).x - font);
    if (ui::action("options", label, "Settings of this conversation (Ctrl+B)")) {
      shows_options_ = !shows_options_;
    }
    if (ui::Area messages("messages", 0, -composer_.height()); messages) {
      // An empty field to write in needs no keys that scroll.
      transcript_.draw(!ImGui::GetIO().WantTextInput ||
                       (composer_.is_active() && composer_.is_empty()));
    }
    composer_.draw();
  }
  if (shows_options_) {
    ImGui::SameLine();
    if (ui::Area area("right", 0, 0, true); area) options_.draw();
  }
  draw_export();
}

void ChatPane::draw_export() {
  if (const Id chosen = sidebar_.take_export(); chosen != 0) {
    exporting_ = chosen;
    export_path_ = (platform::home_folder() / "conversation.md").string();
    ui::open_dialog("export");
  }
  if (ui::Dialog dialog("export", "Export the conversation", ImGui::GetFontSize() * 34); dialog) {
    ui::faint(
        "A name that ends in .md writes Markdown, any other one JSON, which can be imported.");
    ui::input("path", export_path_);
    if (ui::button("write", "Write", ui::Tone::primary) && !export_path_.empty()) {
      chat_.export_to(export_path_, {exporting_});
      ui::Dialog::close();
    }
    ImGui::SameLine();
    if (ui::button("cancel", "Cancel")) ui::Dialog::close();
  }
}

}  // namespace infer::gui
