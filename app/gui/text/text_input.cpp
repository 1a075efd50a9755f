// The mouse and the keys of a TextView, and the controls within it.
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

#include "gui/text/clipboard.h"
#include "gui/text/stand_ins.h"
#include "gui/text/text_view.h"
#include "gui/text/utf8.h"

namespace infer::gui {
namespace {

constexpr double kCopiedSeconds = 1.5;  ///< how long a button says that it has copied
constexpr size_t kMaxTooltip = 300;

Grain grain_of(int clicks) {
  if (clicks <= 1) return Grain::character;
  return clicks == 2 ? Grain::word : Grain::paragraph;
}

bool pressed(ImGuiKey key) {
  const int index = ImGui::GetKeyIndex(key);
  return index >= 0 && ImGui::IsKeyPressed(index);
}

}  // namespace

/// The link at a point, -1 if there is none. A link is where its run is, not next to it.
int32_t TextView::link_at(ImVec2 point, const Measure& measure, size_t& block) {
  block = entry_at(point.y);
  if (block >= entries_.size() || point.y < 0) return -1;
  const Entry& entry = entries_[block];
  const float x = point.x + entry.scroll_x, y = point.y - entry.y - entry.layout.gap;
  const uint32_t offset = offset_at(stream_.document().blocks[block], entry.layout, x, y, measure);
  if (entry.layout.lines.empty()) return -1;
  // The place may be that behind the run's last character, which begins the next line.
  for (size_t i = line_of(entry.layout, offset), n = 0; n < 2; ++n) {
    const Line& line = entry.layout.lines[i];
    if (y >= line.y && y < line.y + line.height) {
      for (size_t r = line.first_run; r < line.first_run + line.runs; ++r) {
        const Run& run = entry.layout.runs[r];
        if (run.link >= 0 && x >= run.x && x < run.x + run.width) return run.link;
      }
    }
    if (i == 0) break;
    --i;
  }
  return -1;
}

void TextView::take_mouse(ImVec2 origin, TextContext& context, const Measure& measure) {
  const bool hovered = ImGui::IsItemHovered(), active = ImGui::IsItemActive();
  const bool released = ImGui::IsItemDeactivated();
  const ImGuiIO& io = ImGui::GetIO();
  const ImVec2 point(io.MousePos.x - origin.x, io.MousePos.y - origin.y);
  const Document& document = stream_.document();
  if (ImGui::IsItemActivated() && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) {
    const bool extends = io.KeyShift && context.selected == this;
    const int clicks = ImGui::GetMouseClickedCount(ImGuiMouseButton_Left);
    context.selected = this;
    was_dragged_ = false;
    selection_.press(document, position_at(point, measure), grain_of(clicks), extends);
  } else if (active && ImGui::IsMouseDragging(ImGuiMouseButton_Left, 2)) {
    was_dragged_ = true;
    selection_.drag(document, position_at(point, measure));
    scroll_while_dragging();
  }
  size_t block = 0;
  const int32_t link = hovered ? link_at(point, measure, block) : -1;
  if (link >= 0) {
    const std::string& address = document.blocks[block].links[static_cast<size_t>(link)];
    ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
    if (!active) {
      std::string space;
      const std::string_view shown = drawn_text(first_bytes(address, kMaxTooltip), space);
      ImGui::SetTooltip("%.*s", static_cast<int>(shown.size()), shown.data());
    }
    const bool clicked = released && !was_dragged_ && selection_.is_empty();
    if (clicked && context.actions.open_link) context.actions.open_link(address);
  } else if (hovered) {
    ImGui::SetMouseCursor(ImGuiMouseCursor_TextInput);
  }
}

void TextView::scroll_while_dragging() const {
  const float top = ImGui::GetWindowPos().y, bottom = top + ImGui::GetWindowHeight();
  const float y = ImGui::GetIO().MousePos.y;
  // Further outside scrolls faster.
  const float beyond = y < top ? y - top : std::max(0.0f, y - bottom);
  if (beyond != 0) ImGui::SetScrollY(ImGui::GetScrollY() + beyond * 10 * ImGui::GetIO().DeltaTime);
}

void TextView::take_keys(TextContext& context, const Measure& measure) {
  const ImGuiIO& io = ImGui::GetIO();
  // A field that is being written in has the keys.
  if (io.WantTextInput) return;
  const Document& document = stream_.document();
  using Step = Selection::Step;
  if (io.KeyCtrl && pressed(ImGuiKey_A)) selection_.select_all(document);
  if (io.KeyCtrl && pressed(ImGuiKey_C) && !selection_.is_empty()) copy(selected_text(), context);
  if (pressed(ImGuiKey_Escape)) selection_.clear();
  if (!io.KeyShift) return;
  if (pressed(ImGuiKey_LeftArrow)) {
    selection_.move(document, io.KeyCtrl ? Step::word_left : Step::left);
  }
  if (pressed(ImGuiKey_RightArrow)) {
    selection_.move(document, io.KeyCtrl ? Step::word_right : Step::right);
  }
  if (pressed(ImGuiKey_UpArrow)) move_by_line(-1, measure);
  if (pressed(ImGuiKey_DownArrow)) move_by_line(1, measure);
  if (pressed(ImGuiKey_Home)) selection_.move(document, Step::start);
  if (pressed(ImGuiKey_End)) selection_.move(document, Step::end);
}

void TextView::move_by_line(int lines, const Measure& measure) {
  const TextPosition head = selection_.head();
  if (head.block >= entries_.size()) return;
  const Document& document = stream_.document();
  const Entry& entry = entries_[head.block];
  ImVec2 point(entry.layout.indent, entry.y + entry.layout.gap);
  float height = entry.height;
  if (!entry.layout.lines.empty()) {
    const Line& line = entry.layout.lines[line_of(entry.layout, head.offset)];
    point.y += line.y + line.height / 2;
    height = line.height;
    for (size_t i = line.first_run; i < line.first_run + line.runs; ++i) {
      const Run& run = entry.layout.runs[i];
      if (head.offset < run.begin || head.offset > run.end) continue;
      point.x = x_in_run(document.blocks[head.block], line, run, head.offset, measure);
    }
  }
  point.y += static_cast<float>(lines) * height;
  TextPosition next = position_at(point, measure);
  // Space between blocks may swallow a step.
  if (next == head) {
    selection_.move(document, lines < 0 ? Selection::Step::left : Selection::Step::right);
  } else {
    selection_.move_to(document, next);
  }
}

void TextView::copy(const std::string& text, TextContext& context) const {
  copy_text(text);
  if (context.actions.copied) context.actions.copied(text);
}

void TextView::copy_button(size_t i, ImVec2 origin, TextContext& context) {
  const TextLook& look = context.look;
  const Block& block = stream_.document().blocks[i];
  const BlockLayout& layout = entries_[i].layout;
  const TextFont& font = look.fonts[static_cast<size_t>(Face::body)];
  const FontMeasure measure(look, context.actions.needs);
  const float em = measure.ascent(Face::body) + measure.descent(Face::body);
  const float right = origin.x + layout.indent + layout.room, header = look.style.code_header * em;
  const CopyButton button{
      {right - 5 * em, origin.y}, {right, origin.y + header}, i, block.language};
  bool is_pressed = false;
  ImGui::PushID(static_cast<int>(i));
  if (context.actions.copy_button) {
    ImGui::SetCursorScreenPos(button.min);
    is_pressed = context.actions.copy_button(button);
  } else {
    ImGui::SetCursorScreenPos(button.min);
    is_pressed = ImGui::InvisibleButton("copy", {5 * em, header});
    const bool copied = copied_block_ == i && ImGui::GetTime() - copied_at_ < kCopiedSeconds;
    shows_copied_ = shows_copied_ || copied;
    const char* label = copied ? "Copied" : "Copy";
    const float size = font.size * 0.85f;
    const ImVec2 extent = font.font->CalcTextSizeA(size, FLT_MAX, 0, label);
    const ImU32 colour = ImGui::IsItemHovered() ? look.colours.text : look.colours.faint;
    ImGui::GetWindowDrawList()->AddText(
        font.font, size,
        {std::floor(right - extent.x - look.style.code_padding * em),
         std::floor(origin.y + (header - size) / 2)},
        colour, label);
  }
  ImGui::PopID();
  if (is_pressed) {
    copied_block_ = i;
    copied_at_ = ImGui::GetTime();
    copy(block.text, context);
  }
}

/// The bar below a table that is wider than the view, and the wheel with shift.
void TextView::scroll_table(size_t i, ImVec2 origin, TextContext& context) {
  const TextLook& look = context.look;
  Entry& entry = entries_[i];
  const ImGuiIO& io = ImGui::GetIO();
  const BlockLayout& layout = entry.layout;
  const float room = layout.room, content = layout.width - layout.indent;
  const float most = content - room;
  const float thickness = 6 * look.scale;
  const ImVec2 min(origin.x + layout.indent, origin.y + layout.height - thickness);
  ImGui::SetCursorScreenPos(min);
  ImGui::PushID(static_cast<int>(i));
  ImGui::PushItemFlag(ImGuiItemFlags_NoNav, true);
  ImGui::InvisibleButton("scroll", {room, thickness});
  ImGui::PopItemFlag();
  ImGui::PopID();
  if (ImGui::IsItemActive()) entry.scroll_x += io.MouseDelta.x * content / room;
  const bool inside = ImGui::IsWindowHovered(ImGuiHoveredFlags_AllowWhenBlockedByActiveItem) &&
                      io.MousePos.y >= origin.y && io.MousePos.y < origin.y + layout.height;
  if (inside) {
    const float wheel = io.MouseWheelH + (io.KeyShift ? io.MouseWheel : 0);
    entry.scroll_x -= wheel * 4 * look.fonts[0].size;
  }
  entry.scroll_x = std::clamp(entry.scroll_x, 0.0f, std::max(0.0f, most));
  const float length = std::max(room * room / content, 4 * thickness);
  const float left = min.x + (room - length) * entry.scroll_x / most;
  ImGui::GetWindowDrawList()->AddRectFilled({left, min.y}, {left + length, min.y + thickness},
                                            look.colours.scroll_bar, thickness / 2);
}

}  // namespace infer::gui
