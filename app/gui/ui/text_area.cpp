#include "gui/ui/text_area.h"

#include <imgui/imgui.h>
#include <imgui/imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "gui/text/clipboard.h"
#include "gui/text/paint.h"
#include "gui/text/text_edit.h"
#include "gui/theme.h"

namespace infer::gui::ui {
namespace {

using Step = TextEdit::Step;

constexpr float kLineSpacing = 1.1f;
constexpr size_t kMostKept = 16;
constexpr float kWheelLines = 3;

const TextLook* g_look = nullptr;

/// What a field shows, kept from frame to frame.
struct Shown {
  ImGuiID id = 0;
  Block block;
  BlockLayout layout;
  float width = 0;
  uint64_t generation = 0;
  float scroll = 0;
};
std::vector<Shown> g_shown;  // the one that was drawn last is the last one

/// The field that is edited, or was edited last.
struct Editing {
  ImGuiID id = 0;
  TextEdit edit;
  bool at_end = false;      ///< the caret is at the end of a line that goes on in the next one
  float column = -1;        ///< x that steps up and down keep; below 0: none
  bool drags_text = false;  ///< the mouse selects
  bool drags_bar = false;   ///< the mouse scrolls
  bool follows = false;     ///< the caret is to be in sight
};
Editing g_editing;

/// `repeats`: again and again while it is held.
bool pressed(ImGuiKey key, bool repeats = true) {
  const int index = ImGui::GetKeyIndex(key);
  return index >= 0 && ImGui::IsKeyPressed(index, repeats);
}
bool pressed_once(ImGuiKey key) { return pressed(key, false); }

/// What was typed. Characters of more than 16 bits are two surrogates (field_text.h).
std::string typed_text(const ImVector<ImWchar>& characters) {
  std::string text;
  char32_t high = 0;
  for (const ImWchar c : characters) {
    const char32_t before = std::exchange(high, c >= 0xD800 && c < 0xDC00 ? char32_t{c} : 0);
    if (high != 0) continue;
    const bool joins = before != 0 && c >= 0xDC00 && c < 0xE000;
    append_utf8(text, joins ? 0x10000 + ((before - 0xD800) << 10) + (c - 0xDC00) : char32_t{c});
  }
  return text;
}

class Field {
 public:
  Field(Shown& shown, ImRect inner)
      : shown_(shown), inner_(inner), measure_(*g_look, kNobody), edit_(g_editing.edit) {}

  void lay_out(const std::string& text) {
    const float width = inner_.GetWidth();
    if (shown_.block.text == text && shown_.width == width &&
        shown_.generation == g_look->generation && !shown_.layout.lines.empty()) {
      return;
    }
    shown_.block.text = text;
    shown_.block.spans = {{0, static_cast<uint32_t>(text.size())}};
    shown_.width = width;
    shown_.generation = g_look->generation;
    LayoutStyle style = g_look->style;
    style.line_spacing = kLineSpacing;
    infer::gui::lay_out(shown_.block, width, measure_, style, nullptr, shown_.layout);
  }

  /// The mouse, while the field has it. `clicked`: on the field, now.
  void take_mouse(bool clicked) {
    const ImGuiIO& io = ImGui::GetIO();
    if (clicked && on_bar(io.MousePos)) {
      g_editing.drags_bar = true;
      return;
    }
    if (clicked) press(io.MouseClickedCount[0]);
    if (!io.MouseDown[0]) g_editing.drags_text = g_editing.drags_bar = false;
    if (g_editing.drags_bar) {
      shown_.scroll += io.MouseDelta.y * content() / std::max(inner_.GetHeight(), 1.0f);
    } else if (g_editing.drags_text && ImGui::IsMouseDragging(ImGuiMouseButton_Left, 2)) {
      go_to(place_at(io.MousePos), true);
    }
  }

  /// Keys that move the caret. They do the same in a text that cannot be changed.
  void take_moves() {
    const ImGuiIO& io = ImGui::GetIO();
    const bool selects = io.KeyShift;
    const auto move = [&](Step step) {
      edit_.move(step, selects);
      moved();
    };
    if (pressed(ImGuiKey_LeftArrow)) move(io.KeyCtrl ? Step::word_left : Step::left);
    if (pressed(ImGuiKey_RightArrow)) move(io.KeyCtrl ? Step::word_right : Step::right);
    if (pressed(ImGuiKey_UpArrow)) move_lines(-1, selects);
    if (pressed(ImGuiKey_DownArrow)) move_lines(1, selects);
    const int page = std::max(1, static_cast<int>(inner_.GetHeight() / line_height()) - 1);
    if (pressed(ImGuiKey_PageUp)) move_lines(-page, selects);
    if (pressed(ImGuiKey_PageDown)) move_lines(page, selects);
    if (pressed(ImGuiKey_Home)) {
      io.KeyCtrl ? move(Step::start) : go_to({line().begin, false}, selects);
    }
    if (pressed(ImGuiKey_End)) io.KeyCtrl ? move(Step::end) : go_to(end_of(line()), selects);
    if (io.KeyCtrl && pressed_once(ImGuiKey_A)) edit_.select_all();
    const bool copies =
        io.KeyCtrl && (pressed_once(ImGuiKey_C) || (pressed_once(ImGuiKey_Insert) && !io.KeyShift));
    if (copies && edit_.has_selection()) copy();
  }

  void take_changes(bool enter_adds) {
    ImGuiIO& io = ImGui::GetIO();
    const auto erase = [&](Step step) {
      edit_.erase(step);
      moved();
    };
    if (pressed(ImGuiKey_Backspace)) erase(io.KeyCtrl ? Step::word_left : Step::left);
    const bool cuts = (io.KeyCtrl && pressed_once(ImGuiKey_X)) ||
                      (io.KeyShift && !io.KeyCtrl && pressed(ImGuiKey_Delete));
    if (cuts && edit_.has_selection()) {
      copy();
      erase(Step::left);
    } else if (!cuts && pressed(ImGuiKey_Delete)) {
      erase(io.KeyCtrl ? Step::word_right : Step::right);
    }
    const auto insert = [&](std::string_view text) {
      edit_.insert(text);
      moved();
    };
    if ((io.KeyCtrl && pressed_once(ImGuiKey_V)) ||
        (io.KeyShift && pressed_once(ImGuiKey_Insert))) {
      if (const char* const pasted = ImGui::GetClipboardText(); pasted != nullptr) insert(pasted);
    }
    const bool again = io.KeyCtrl && (pressed(ImGuiKey_Y) || (io.KeyShift && pressed(ImGuiKey_Z)));
    if (again) {
      edit_.redo();
      moved();
    } else if (io.KeyCtrl && pressed(ImGuiKey_Z)) {
      edit_.undo();
      moved();
    }
    if (enter_adds && (pressed(ImGuiKey_Enter) || pressed(ImGuiKey_KeyPadEnter))) insert("\n");
    if (!io.KeyCtrl || io.KeyAlt) {  // Ctrl and Alt together are AltGr
      const std::string typed = typed_text(io.InputQueueCharacters);
      if (!typed.empty()) {
        edit_.type(typed);
        moved();
      }
    }
    io.InputQueueCharacters.resize(0);
  }

  void scroll(float lines) { shown_.scroll -= lines * kWheelLines * line_height(); }
  /// Brings the caret into sight if it has moved, and what is seen into the text.
  void settle(bool active) {
    const float height = inner_.GetHeight();
    if (active && g_editing.follows) {
      const Line& at = line();
      shown_.scroll = std::clamp(shown_.scroll, at.y + at.height - height, at.y);
      g_editing.follows = false;
    }
    shown_.scroll = std::clamp(shown_.scroll, 0.0f, std::max(0.0f, content() - height));
  }

  void draw(bool active) {
    ImDrawList& list = *ImGui::GetWindowDrawList();
    // A caret at the left edge is seen, and letters that lean over the right one.
    list.PushClipRect({inner_.Min.x - 2 * scale_of(), inner_.Min.y},
                      {inner_.Max.x + 2 * scale_of(), inner_.Max.y}, true);
    const ImVec2 origin = this->origin();
    PaintedBlock painted{shown_.block, shown_.layout, origin};
    if (active) {
      const TextRange range = edit_.selected();
      painted.selected = {range.begin, range.end, false};
    }
    Painter(list, *g_look, measure_).paint(painted);
    if (active) {
      const Line& at = line();
      const float x = std::floor(origin.x + std::min(x_of(at, edit_.caret()), inner_.GetWidth()));
      const ImVec2 top(x, origin.y + at.y);
      list.AddRectFilled(top, {x + std::max(1.0f, std::floor(scale_of())), top.y + at.height},
                         g_look->colours.text);
      ImGui::GetCurrentContext()->PlatformImePos = top;
    }
    list.PopClipRect();
    if (content() <= inner_.GetHeight()) return;
    const float share = inner_.GetHeight() / content();
    const float length = std::max(inner_.GetHeight() * share, 12 * scale_of());
    const float room = inner_.GetHeight() - length;
    const float y = inner_.Min.y + room * shown_.scroll / (content() - inner_.GetHeight());
    const float right = inner_.Max.x + bar_width();
    list.AddRectFilled({right - 4 * scale_of(), y}, {right, y + length}, g_look->colours.scroll_bar,
                       2 * scale_of());
  }

  float content() const { return shown_.layout.height; }
  static float bar_width() { return 8 * scale_of(); }
  bool on_bar(ImVec2 point) const {
    return content() > inner_.GetHeight() && point.x >= inner_.Max.x;
  }

 private:
  /// A place of the caret. `at_end`: of the line before, where the next one begins there.
  struct Place {
    size_t offset = 0;
    bool at_end = false;
  };

  static float scale_of() { return g_look->scale; }
  float line_height() const { return shown_.layout.lines.front().height; }
  ImVec2 origin() const { return {inner_.Min.x, std::floor(inner_.Min.y - shown_.scroll)}; }

  size_t line_number() const {
    size_t i = line_of(shown_.layout, edit_.caret());
    if (g_editing.at_end && i > 0 && shown_.layout.lines[i].begin == edit_.caret()) --i;
    return i;
  }
  const Line& line() const { return shown_.layout.lines[line_number()]; }
  bool breaks(const Line& line) const {
    return line.end > line.begin && shown_.block.text[line.end - 1] == '\n';
  }
  Place end_of(const Line& line) const {
    if (breaks(line)) return {line.end - size_t{1}, false};
    return {line.end, line.end < shown_.block.text.size()};
  }

  /// x of a place in a line. Blanks at its end are in no run.
  float x_of(const Line& line, size_t offset) const {
    const std::vector<Run>& runs = shown_.layout.runs;
    size_t from = line.begin;
    float x = line.x;
    for (size_t i = line.first_run; i < line.first_run + line.runs; ++i) {
      const Run& run = runs[i];
      if (run.begin <= offset && offset <= run.end) {
        return x_in_run(shown_.block, line, run, offset, measure_);
      }
      if (run.end < from) continue;
      from = run.end;
      x = run.right_to_left ? run.x : run.x + run.width;
    }
    const std::string& text = shown_.block.text;
    for (; from < offset; ++from) {
      x += cluster_width(text, from, from + 1, Face::body, x - line.x, measure_);
    }
    return x;
  }

  Place place_in(const Line& line, float x) const {
    size_t at = offset_at(shown_.block, shown_.layout, x, line.y + line.height / 2, measure_);
    const Place last = end_of(line);
    const std::string& text = shown_.block.text;
    while (at < last.offset && is_blank(text[at]) &&
           x > (x_of(line, at) + x_of(line, at + 1)) / 2) {
      ++at;
    }
    return at >= last.offset ? last : Place{at, false};
  }
  Place place_at(ImVec2 point) const {
    const float y = point.y - origin().y;
    const size_t i = std::min(first_visible(shown_.layout, y), shown_.layout.lines.size() - 1);
    return place_in(shown_.layout.lines[i], point.x - inner_.Min.x);
  }

  void moved() {
    g_editing.at_end = false;
    g_editing.column = -1;
    g_editing.follows = true;
    lay_out(edit_.text());
  }
  void go_to(Place place, bool selects) {
    edit_.move_to(place.offset, selects);
    moved();
    g_editing.at_end = place.at_end;
  }
  void move_lines(int lines, bool selects) {
    const auto count = static_cast<int>(shown_.layout.lines.size());
    const int to = static_cast<int>(line_number()) + lines;
    const float column = g_editing.column >= 0 ? g_editing.column : x_of(line(), edit_.caret());
    if (to < 0 || to >= count) {
      edit_.move(to < 0 ? Step::start : Step::end, selects);
      moved();
    } else {
      go_to(place_in(shown_.layout.lines[static_cast<size_t>(to)], column), selects);
    }
    g_editing.column = column;
  }

  void press(int clicks) {
    const Place place = place_at(ImGui::GetIO().MousePos);
    if (clicks == 2) {
      edit_.select_word(place.offset);
    } else if (clicks >= 3) {
      edit_.select_paragraph(place.offset);
    } else {
      go_to(place, ImGui::GetIO().KeyShift);
    }
    g_editing.drags_text = clicks <= 1;
  }

  void copy() const { copy_text(std::string(edit_.selected_text())); }

  static inline const std::function<void(char32_t)> kNobody;

  Shown& shown_;
  ImRect inner_;
  FontMeasure measure_;
  TextEdit& edit_;
};

Shown& shown_of(ImGuiID id) {
  const auto found = std::ranges::find(g_shown, id, &Shown::id);
  if (found != g_shown.end()) {
    std::rotate(found, found + 1, g_shown.end());
  } else {
    if (g_shown.size() == kMostKept) g_shown.erase(g_shown.begin());
    g_shown.emplace_back().id = id;
  }
  return g_shown.back();
}

/// Whether the field gets the keyboard in this frame.
bool is_called(ImGuiID id) {
  const ImGuiContext& g = *ImGui::GetCurrentContext();
  return g.NavActivateInputId == id ||
         (g.NavActivateId == id && g.NavInputSource == ImGuiInputSource_Keyboard) ||
         (g.LastItemData.StatusFlags & ImGuiItemStatusFlags_FocusedByTabbing) != 0;
}

void activate(ImGuiID id) {
  ImGuiWindow* const window = ImGui::GetCurrentWindow();
  ImGui::SetActiveID(id, window);
  ImGui::SetFocusID(id, window);
  ImGui::FocusWindow(window);
  if (g_editing.id != id) g_editing = {.id = id, .edit = {}, .follows = true};
}

/// Keys that would otherwise move to other controls, or close what is open.
void keep_keys() {
  ImGuiContext& g = *ImGui::GetCurrentContext();
  g.ActiveIdAllowOverlap = !g.IO.MouseDown[0];  // else nothing else could be clicked
  g.ActiveIdUsingNavDirMask = ~0u;
  g.ActiveIdUsingNavInputMask |= 1u << ImGuiNavInput_Cancel;
  for (const ImGuiKey key : {ImGuiKey_Home, ImGuiKey_End, ImGuiKey_PageUp, ImGuiKey_PageDown}) {
    g.ActiveIdUsingKeyInputMask |= ImU64{1} << key;
  }
  g.WantTextInputNextFrame = 1;
}

}  // namespace

void set_text_look(const TextLook* look) { g_look = look; }

float text_area_height() { return g_shown.empty() ? 0 : g_shown.back().layout.height; }
float text_area_line() {
  return g_shown.empty() || g_shown.back().layout.lines.empty()
             ? ImGui::GetTextLineHeight()
             : g_shown.back().layout.lines.front().height;
}

bool text_area(const char* name, std::string& text, const TextArea& area, bool& submitted) {
  submitted = false;
  ImGuiContext& g = *ImGui::GetCurrentContext();
  ImGuiWindow* const window = ImGui::GetCurrentWindow();
  if (window->SkipItems) return false;
  const ImGuiStyle& style = ImGui::GetStyle();
  const ImGuiID id = window->GetID(name);
  const ImVec2 corner = window->DC.CursorPos;
  const ImRect frame(corner, {corner.x + area.width, corner.y + area.height});
  ImGui::ItemSize(frame, style.FramePadding.y);
  const bool drawn = ImGui::ItemAdd(frame, id, &frame, ImGuiItemFlags_Inputable);
  const bool disabled = (g.LastItemData.InFlags & ImGuiItemFlags_Disabled) != 0;
  if (!drawn && g.ActiveId != id && !area.focus) return false;

  ImRect inner(frame.Min.x + style.FramePadding.x, frame.Min.y + style.FramePadding.y,
               frame.Max.x - style.FramePadding.x - Field::bar_width(),
               frame.Max.y - style.FramePadding.y);
  inner.Max = {std::max(inner.Max.x, inner.Min.x + 1), std::max(inner.Max.y, inner.Min.y + 1)};
  Field field(shown_of(id), inner);
  const bool hovered = ImGui::ItemHoverable(frame, id);
  const bool clicked = hovered && g.IO.MouseClicked[0];
  if (!disabled && (clicked || area.focus || is_called(id))) activate(id);
  if (g.ActiveId == id && g.IO.MouseClicked[0] && !hovered && !area.focus) ImGui::ClearActiveID();

  bool changed = false;
  if (g.ActiveId == id) {
    keep_keys();
    if (g_editing.edit.text() != text) g_editing.edit.reset(text);
    field.lay_out(text);
    field.take_mouse(clicked);
    const bool sends = area.enter_submits && !g.IO.KeyShift && !g.IO.KeyCtrl;
    submitted = sends && (pressed_once(ImGuiKey_Enter) || pressed_once(ImGuiKey_KeyPadEnter));
    field.take_moves();
    if (!area.read_only) {
      field.take_changes(!sends);
      changed = g_editing.edit.text() != text;
      if (changed) text = g_editing.edit.text();
    }
    if (submitted || pressed_once(ImGuiKey_Escape)) ImGui::ClearActiveID();
  }
  if (hovered) {
    g.MouseCursor =
        field.on_bar(g.IO.MousePos) ? ImGuiMouseCursor_Arrow : ImGuiMouseCursor_TextInput;
  }
  field.lay_out(text);
  if (hovered && field.content() > inner.GetHeight()) {
    ImGui::SetItemUsingMouseWheel();
    field.scroll(g.IO.MouseWheel);
  }
  const bool active = g.ActiveId == id;
  field.settle(active);
  if (drawn) {
    ImGui::RenderNavHighlight(frame, id);
    ImGui::RenderFrame(frame.Min, frame.Max, ImGui::GetColorU32(ImGuiCol_FrameBg), true,
                       style.FrameRounding);
    field.draw(active);
    if (text.empty() && !active && !area.hint.empty()) {
      window->DrawList->AddText(inner.Min, packed(theme().faint), area.hint.data(),
                                area.hint.data() + area.hint.size());
    }
  }
  if (changed) ImGui::MarkItemEdited(id);
  return changed;
}

}  // namespace infer::gui::ui
