#include "gui/panes/chat_pane.h"

#include <imgui/imgui.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "conversations/utf8.h"
#include "gui/keys.h"
#include "gui/text/sanitise.h"
#include "gui/ui/ui.h"
#include "platform/folders.h"

namespace infer::gui {
namespace {

namespace fs = std::filesystem;

/// The least width of the messages, in heights of the font. Where the settings leave less, they
/// take the place of the list.
constexpr float kLeastMessages = 16;

/// The longest name that is offered, in bytes, without number and ending. File systems take 255,
/// some of them fewer.
constexpr size_t kMostNameBytes = 200;
constexpr size_t kProblemBytes = 1000;

/// A path in the home folder for a conversation of this title, where there is no file yet.
std::string free_path(const std::string& title) {
  std::string name;
  for (const char c : conversations::shortened(title, kMostNameBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    name += byte < 0x20 || byte == 0x7F || c == '/' || c == '\\' || c == ':' ? ' ' : c;
  }
  if (name.empty() || name.starts_with('.')) name = "conversation";
  fs::path path = platform::home_folder() / (name + ".md");
  std::error_code unknown;
  for (int i = 2; fs::exists(path, unknown) && i < 1000; ++i) {
    path = platform::home_folder() / (name + " " + std::to_string(i) + ".md");
  }
  return path.string();
}

}  // namespace

void ChatPane::take_shortcuts() {
  if (is_pressed(Shortcut::new_conversation)) {
    chat_.start_new();
    composer_.focus();
  }
  const bool needs_list = is_pressed(Shortcut::search) || is_pressed(Shortcut::rename);
  if (needs_list && hides_list_) toggle_options();
  if (is_pressed(Shortcut::search)) sidebar_.focus_search();
  if (is_pressed(Shortcut::rename)) sidebar_.rename_current();
  if (is_pressed(Shortcut::options)) toggle_options();
  if (is_pressed(Shortcut::copy_answer)) transcript_.copy_last_answer();
  if (is_pressed(Shortcut::regenerate)) transcript_.regenerate_last();
  // Elsewhere Escape ends what is being typed.
  const bool typing = ImGui::GetIO().WantTextInput && !composer_.is_active();
  if (is_pressed(Shortcut::send_stop) && !typing && chat_.is_answering()) {
    chat_.stop();
    if (composer_.is_active()) composer_.keep_keyboard();
  }
}

void ChatPane::draw() {
  const float font = ImGui::GetFontSize();
  const float width = ImGui::GetContentRegionAvail().x;
  const float list = std::clamp(width * 0.2f, font * 11, font * 18);
  const float options =
      shows_options_ ? std::min(std::clamp(width * 0.26f, font * 17, font * 24), width * 0.5f) : 0;
  options_width_ = options;
  hides_list_ = options > 0 && width - list - options < font * kLeastMessages;
  if (!hides_list_) {
    if (ui::Area area("left", list, 0); area) sidebar_.draw();
    ImGui::SameLine();
  }
  if (ui::Area area("middle", options > 0 ? -options : 0, 0); area) {
    const char* label = shows_options_ ? "Hide settings" : "Settings";
    const float left = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(label).x - font;
    ImGui::AlignTextToFramePadding();
    ui::cut(chat_.current() == 0 ? "New conversation" : one_line(chat_.title(), kNameBytes),
            left - ImGui::GetStyle().ItemSpacing.x, "title");
    ImGui::SameLine(left);
    if (ui::action("options", label, "Settings of this conversation (Ctrl+B)")) {
      toggle_options();
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

void ChatPane::toggle_options() {
  shows_options_ = !shows_options_;
  options_.keep();
}

void ChatPane::leave() { options_.keep(); }

void ChatPane::draw_export() {
  if (const Id chosen = sidebar_.take_export(); chosen != 0) {
    exporting_ = chosen;
    export_path_ = free_path(chat_.title_of(chosen));
    export_problem_.clear();
    exported_ = false;
    guard_ = {};
    ui::open_dialog("export");
  }
  if (ui::Dialog dialog("export", "Export the conversation", ImGui::GetFontSize() * 34); dialog) {
    ui::faint(
        "A name that ends in .md writes Markdown, any other one JSON, which can be imported.");
    ui::input_path("path", export_path_);
    guard_.draw(export_path_);
    if (!export_problem_.empty()) ui::notice(ui::Tone::danger, export_problem_, "problem");
    const char* label = guard_.asks(export_path_) ? "Replace it" : "Write";
    if (ui::button("write", label, ui::Tone::primary) && !export_path_.empty() &&
        guard_.may_write(export_path_)) {
      write_export();
    }
    ImGui::SameLine();
    if (ui::button("cancel", "Cancel") || std::exchange(exported_, false)) ui::Dialog::close();
  }
}

/// The dialogue stays until the file is there.
void ChatPane::write_export() {
  export_problem_.clear();
  chat_.export_to(export_path_, {exporting_}, [this, path = export_path_](const Status& status) {
    if (path != export_path_) return;  // another one is being asked for
    exported_ = status.ok();
    export_problem_ = one_line(status.message(), kProblemBytes);
  });
}

}  // namespace infer::gui
