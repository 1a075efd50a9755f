#include "gui/panes/sidebar.h"

#include <imgui/imgui.h>
#include <imgui/imgui_internal.h>

#include "gui/format.h"
#include "gui/keys.h"
#include "gui/state/model_state.h"
#include "gui/text/sanitise.h"
#include "gui/theme.h"
#include "gui/ui/ui.h"

namespace infer::gui {
namespace {

// Conversations are imported as well: their titles may be anything.
constexpr size_t kSnippetBytes = 400;

/// The height of a row of two lines.
float row_height() { return ImGui::GetTextLineHeight() * 2 + ImGui::GetStyle().FramePadding.y * 3; }

/// Draws them on the row that was drawn last; what is longer ends in "…".
void draw_lines(const std::string& first, const std::string& second) {
  const ImVec2 at = ImGui::GetItemRectMin();
  const ImVec2 end = ImGui::GetItemRectMax();
  const ImVec2 padding = ImGui::GetStyle().FramePadding;
  const auto line = [&](float y, Rgb rgb, const std::string& text) {
    ui::line_at(at.x + padding.x, y, end.x - padding.x, packed(rgb), text);
  };
  line(at.y + padding.y, theme().text, first);
  line(at.y + padding.y * 2 + ImGui::GetTextLineHeight(), theme().faint, second);
}

}  // namespace

void Sidebar::draw() {
  const ui::Scope scope("conversations");
  if (ui::button("new", "+  New conversation", ui::Tone::primary, -1)) chat_.start_new();
  if (ui::input("search", query_, {.hint = "Search all conversations", .focus = focus_search_})) {
    chat_.search(query_);
  }
  focus_search_ = false;
  if (!query_.empty() && ImGui::IsItemFocused() &&
      ImGui::IsKeyPressed(ImGui::GetKeyIndex(ImGuiKey_Escape))) {
    query_.clear();
    chat_.search({});
  }
  draw_import();
  const float trash = trash_size() == 0 ? 0 : ImGui::GetFrameHeightWithSpacing();
  if (ui::Area area("list", 0, trash > 0 ? -trash : 0); area) {
    if (chat_.is_searching()) {
      draw_hits();
    } else {
      draw_list();
    }
  }
  draw_trash();
  draw_rename();
}

void Sidebar::draw_import() {
  const auto import = chat_.importing();
  if (!import) return;
  const ui::Scope scope("import");
  std::string label = "Importing " + one_line(short_name(import->path), kNameBytes);
  if (import->waiting > 0) label += " and " + std::to_string(import->waiting) + " more";
  ui::cut(label, ImGui::GetContentRegionAvail().x, "title");
  ui::progress("progress", import->share, percent_text(import->share));
  if (ui::button("cancel", "Cancel", ui::Tone::danger)) chat_.cancel_import();
}

void Sidebar::draw_list() {
  const auto& list = chat_.list();
  if (!chat_.unsaved().empty()) {
    ui::notice(
        ui::Tone::danger,
        "Conversations cannot be saved: what is written now is lost when the window closes. " +
            chat_.unsaved(),
        "unsaved");
  } else if (const Status why = chat_.waits_for_disk(); !why.ok()) {
    ui::notice(ui::Tone::danger,
               "An answer is not saved yet. That is tried again until it works; if the window is "
               "closed before, what is missing is lost. " +
                   why.message(),
               "waits");
  } else if (!chat_.knows_list()) {
    return ui::faint("Opening the conversations …", "opening");
  } else if (list.empty()) {
    return ui::faint("No conversations yet. The first message begins one.", "empty");
  }
  ImGuiListClipper clipper;  // of thousands, those that are seen
  clipper.Begin(static_cast<int>(list.size()));
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      draw_row(list[static_cast<size_t>(i)]);
    }
  }
}

void Sidebar::draw_row(const conversations::Conversation& conversation) {
  const ui::Scope scope("conversation", conversation.id);
  std::string label = conversation.pinned ? "● " : "";
  label += one_line(conversation.title, kNameBytes);
  const float start = ImGui::GetCursorPosX();
  if (ui::row("open", label, conversation.id == chat_.current(), row_height())) {
    chat_.open(conversation.id);
  }
  const std::string below = chat_.is_answering(conversation.id) ? std::string("writing an answer …")
                                                                : when_text(conversation.used_at);
  draw_lines(label, below);
  const ImVec2 least = ImGui::GetItemRectMin();
  const ImVec2 most = ImGui::GetItemRectMax();
  ui::add_rectangle("text", "used", below, least.x, least.y, most.x, most.y);
  const bool focused = ImGui::IsItemFocused();
  if (focused && ImGui::IsKeyPressed(ImGui::GetKeyIndex(ImGuiKey_Delete))) {
    chat_.remove(conversation.id);
  }
  bool opens = (ImGui::IsItemHovered() && ImGui::IsMouseReleased(1)) ||
               (focused && is_pressed(Shortcut::menu));
  const bool hovered = ImGui::IsWindowHovered() && ImGui::IsMouseHoveringRect(least, most);
  // The button stays while it has the focus: the row has lost the focus then.
  const bool on_more = ImGui::GetFocusID() == ImGui::GetID("###more");
  if (hovered || focused || on_more) {
    const float width = ImGui::GetFontSize() * 2;
    ImGui::SameLine(start + (most.x - least.x) - width - ImGui::GetStyle().ItemSpacing.x);
    opens = ui::button("more", "…", ui::Tone::plain, width) || opens;
    ui::tooltip("Rename, pin, export, delete");
  }
  draw_menu(conversation, opens);
}

void Sidebar::draw_menu(const conversations::Conversation& conversation, bool opens) {
  if (ui::Menu menu("menu", opens); menu) {
    if (ui::menu_item("rename", "Rename", "F2")) begin_rename(conversation.id, conversation.title);
    if (ui::menu_item("pin", conversation.pinned ? "Unpin" : "Pin")) {
      chat_.pin(conversation.id, !conversation.pinned);
    }
    if (ui::menu_item("export", "Export…")) export_ = conversation.id;
    if (ui::menu_item("delete", "Delete", "Del")) chat_.remove(conversation.id);
  }
}

void Sidebar::draw_hits() {
  const auto& hits = chat_.hits();
  if (!chat_.is_found()) return ui::faint("Searching …", "searching");
  if (hits.empty()) return ui::faint("Nothing found.", "nothing");
  for (size_t i = 0; i < hits.size(); ++i) {
    const conversations::Hit& hit = hits[i];
    const ui::Scope scope("hit", static_cast<int64_t>(i));
    const std::string title = one_line(hit.title, kNameBytes);
    if (ui::row("open", title, hit.conversation == chat_.current(), row_height())) {
      chat_.open_at(hit.conversation, hit.message);
    }
    draw_lines(title, one_line(hit.snippet, kSnippetBytes));
  }
}

size_t Sidebar::trash_size() const {
  return chat_.trash().size() + chat_.trashed_messages().size();
}

void Sidebar::draw_trash() {
  const size_t count = trash_size();
  if (count > 0 &&
      ui::button("trash", "Trash (" + std::to_string(count) + ")", ui::Tone::quiet, -1)) {
    ui::open_dialog("trash list");
  }
  if (ui::Dialog dialog("trash list", "Trash", ImGui::GetFontSize() * 30); dialog) {
    if (ui::Area area("list", 0, ImGui::GetFontSize() * 16, true); area) {
      if (count == 0) ui::faint("The trash is empty.", "empty");
      for (const conversations::Conversation& conversation : chat_.trash()) {
        const ui::Scope scope("conversation", conversation.id);
        if (ui::action("restore", "Restore")) chat_.restore(conversation.id);
        ImGui::SameLine();
        ui::cut(one_line(conversation.title, kNameBytes), ImGui::GetContentRegionAvail().x,
                "title");
      }
      draw_trashed_messages();
    }
    if (ui::button("empty", "Delete all for good", ui::Tone::danger)) {
      chat_.empty_trash();
      ui::Dialog::close();
    }
    ImGui::SameLine();
    if (ui::button("close", "Close")) ui::Dialog::close();
  }
}

void Sidebar::draw_trashed_messages() {
  for (const conversations::TrashedMessage& message : chat_.trashed_messages()) {
    const ui::Scope scope("message", message.id);
    if (ui::action("restore", "Restore")) chat_.restore_message(message.conversation, message.id);
    ImGui::SameLine();
    std::string text = one_line(message.snippet, kSnippetBytes);
    if (text.empty()) text = "(no text)";
    ui::text(text, "text");
    ui::faint("    and what followed it, from: " + one_line(message.title, kNameBytes), "title");
  }
}

void Sidebar::begin_rename(Id conversation, const std::string& title) {
  if (conversation == 0) return;
  renaming_ = conversation;
  new_title_ = one_line(title, kNameBytes);
  open_rename_ = true;
}

void Sidebar::draw_rename() {
  const bool opens = std::exchange(open_rename_, false);
  if (opens) ui::open_dialog("rename");
  if (ui::Dialog dialog("rename", "Rename the conversation", ImGui::GetFontSize() * 26); dialog) {
    const bool done = ui::input("title", new_title_, {.focus = opens, .enter_ends = true});
    if ((ui::button("save", "Rename", ui::Tone::primary) || done) && !new_title_.empty()) {
      chat_.rename(renaming_, new_title_);
      ui::Dialog::close();
    }
    ImGui::SameLine();
    if (ui::button("cancel", "Cancel")) ui::Dialog::close();
  }
}

}  // namespace infer::gui
