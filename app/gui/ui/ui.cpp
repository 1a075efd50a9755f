#include "gui/ui/ui.h"

#include <imgui/imgui.h>
#include <imgui/imgui_internal.h>
#include <imgui/imgui_stdlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "gui/text/stand_ins.h"
#include "gui/text/utf8.h"
#include "gui/theme.h"
#include "gui/ui/field_text.h"
#include "gui/ui/tab_order.h"
#include "gui/ui/text_area.h"
#include "platform/history_file.h"

namespace infer::gui::ui {
namespace {

/// ImGui numbers the corners of the letters of one text with 16 bits.
constexpr size_t kMostText = 12'000;

/// ImGui gives a field back its first text when Escape ends it. This keeps what was typed.
class KeptText {
 public:
  KeptText(const std::string& id, const std::string& text) {
    ends_ = ImGui::IsKeyPressed(ImGui::GetKeyIndex(ImGuiKey_Escape)) &&
            ImGui::GetActiveID() == ImGui::GetID(id.c_str());
    if (ends_) typed_ = text;
  }
  /// After the field was drawn. Whether Escape has ended it.
  bool give_back(std::string& text) {
    if (ends_) text = std::move(typed_);
    return ends_;
  }

 private:
  bool ends_ = false;
  std::string typed_;
};

/// A label for ImGui: it shows no more than the text, whatever that has, and the name is the id.
std::string labelled(std::string_view label, std::string_view name) {
  std::string out;
  for (const char c : ShownText(label)) {
    // What follows two of these would be an id.
    if (c == '#' && !out.empty() && out.back() == '#') out += "\u200b";
    out += c;
  }
  if (!out.empty() && out.back() == '#') out += "\u200b";
  return out.append("###").append(name);
}

float width_of(float asked) {
  if (asked > 0) return asked;
  return std::max(ImGui::GetContentRegionAvail().x + (asked == -1 ? 0 : asked), 1.0f);
}

struct Colours {
  explicit Colours(Tone tone) {
    const Theme& t = theme();
    const auto push = [&](Rgb fill, Rgb label, float alpha) {
      ImGui::PushStyleColor(ImGuiCol_Button, colour(fill, alpha));
      ImGui::PushStyleColor(ImGuiCol_ButtonHovered, colour(fill, std::max(alpha * 0.85f, 0.25f)));
      ImGui::PushStyleColor(ImGuiCol_ButtonActive, colour(fill, std::max(alpha * 0.7f, 0.4f)));
      ImGui::PushStyleColor(ImGuiCol_Text, colour(label));
    };
    switch (tone) {
      case Tone::plain: push(t.raised, t.text, 1); break;
      case Tone::primary: push(t.accent, t.on_accent, 1); break;
      case Tone::quiet: push(t.raised, t.text, 0); break;
      case Tone::danger: push(t.raised, t.danger, 1); break;
    }
  }
  ~Colours() { ImGui::PopStyleColor(4); }
};

}  // namespace

bool button(std::string_view name, std::string_view label, Tone tone, float width) {
  const Colours colours(tone);
  const bool pressed =
      ImGui::Button(labelled(label, name).c_str(), {width == 0 ? 0 : width_of(width), 0});
  add_control("button", name, label);
  return pressed;
}

bool action(std::string_view name, std::string_view label, std::string_view hint) {
  const Colours colours(Tone::quiet);
  ImGui::PushStyleColor(ImGuiCol_Text, colour(theme().faint));
  const bool pressed = ImGui::SmallButton(labelled(label, name).c_str());
  ImGui::PopStyleColor();
  add_control("button", name, label);
  if (!hint.empty()) tooltip(hint);
  return pressed;
}

bool checkbox(std::string_view name, std::string_view label, bool& value) {
  const bool changed = ImGui::Checkbox(labelled(label, name).c_str(), &value);
  add_control("checkbox", name, label, value);
  return changed;
}

bool slider(std::string_view name, int64_t& value, int64_t least, int64_t most,
            const char* format) {
  ImGui::SetNextItemWidth(width_of(-1));
  const bool changed = ImGui::SliderScalar(labelled("", name).c_str(), ImGuiDataType_S64, &value,
                                           &least, &most, format, ImGuiSliderFlags_AlwaysClamp);
  add_control("slider", name, is_recording() ? std::to_string(value) : std::string());
  return changed;
}

bool slider(std::string_view name, float& value, float least, float most, const char* format) {
  ImGui::SetNextItemWidth(width_of(-1));
  const bool changed = ImGui::SliderFloat(labelled("", name).c_str(), &value, least, most, format,
                                          ImGuiSliderFlags_AlwaysClamp);
  add_control("slider", name, is_recording() ? std::to_string(value) : std::string());
  return changed;
}

bool choice(std::string_view name, size_t& index, const std::vector<std::string>& choices) {
  const std::string shown = index < choices.size() ? choices[index] : std::string();
  ImGui::SetNextItemWidth(width_of(-1));
  const bool open =
      ImGui::BeginCombo(labelled("", name).c_str(), ShownText(shown).string().c_str());
  bool changed = false;
  if (!open) {
    add_control("choice", name, shown);
    return false;
  }
  add_last_item("choice", name, shown);
  {
    const Scope scope(name);  // of the list, which ends first
    for (size_t i = 0; i < choices.size(); ++i) {
      if (ImGui::Selectable(labelled(choices[i], std::to_string(i)).c_str(), i == index)) {
        changed = i != index;
        index = i;
      }
      add_control("row", choices[i], choices[i], i == index);
    }
  }
  ImGui::EndCombo();
  return changed;
}

bool segments(std::string_view name, size_t& index, const std::vector<std::string>& choices) {
  const Scope scope(name);
  bool changed = false;
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {2 * scale(), ImGui::GetStyle().ItemSpacing.y});
  for (size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) ImGui::SameLine();
    const Colours colours(i == index ? Tone::primary : Tone::plain);
    if (ImGui::Button(labelled(choices[i], std::to_string(i)).c_str())) {
      changed = i != index;
      index = i;
    }
    add_control("segment", choices[i], choices[i], i == index);
  }
  ImGui::PopStyleVar();
  return changed;
}

bool input(std::string_view name, std::string& text, const InputOptions& options) {
  if (options.focus) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(width_of(options.width));
  ImGuiInputTextFlags flags = 0;
  if (options.enter_ends) flags |= ImGuiInputTextFlags_EnterReturnsTrue;
  if (options.read_only) flags |= ImGuiInputTextFlags_ReadOnly;
  if (options.secret) flags |= ImGuiInputTextFlags_Password;
  if (!options.secret) will_draw(text);
  const std::string id = labelled("", name);
  const std::string hint = ShownText(options.hint).string();
  KeptText kept(id, text);
  FieldText field(text);
  bool changed = ImGui::InputTextWithHint(id.c_str(), hint.c_str(), field.edited(),
                                          flags | field.flags(), FieldText::filter);
  field.give_back();
  if (kept.give_back(text)) changed = false;
  add_control("input", name, options.secret ? std::string_view("…") : std::string_view(text),
              ImGui::IsItemActive());
  return changed;
}

bool input_path(std::string_view name, std::string& path, const InputOptions& options) {
  bool changed = input(name, path, options);
  if (!changed && !ImGui::IsItemDeactivatedAfterEdit()) return false;
  if (ImGui::IsItemActive()) return changed;
  std::string full = platform::full_path(path);
  if (full != path) {
    path = std::move(full);
    changed = changed || !options.enter_ends;
  }
  return changed;
}

bool input_lines(std::string_view name, std::string& text, float height, bool& submitted,
                 const InputOptions& options) {
  will_draw(text);
  const std::string hint = ShownText(options.hint).string();
  const bool changed = text_area(labelled("", name).c_str(), text,
                                 {.width = width_of(options.width),
                                  .height = height,
                                  .hint = hint,
                                  .focus = options.focus,
                                  .read_only = options.read_only,
                                  .enter_submits = options.enter_submits},
                                 submitted);
  add_control("input", name, text, ImGui::IsItemActive());
  return changed;
}

/// Keeps what numbers are made of. A comma is a point, as on many keypads.
int filter_number(ImGuiInputTextCallbackData* data) {
  if (data->EventChar == ',') data->EventChar = '.';
  const bool ascii = data->EventChar < 0x80;
  return ascii && std::strchr("0123456789.+-eE", static_cast<int>(data->EventChar)) != nullptr ? 0
                                                                                               : 1;
}

bool input_number(std::string_view name, double& value, bool& set, std::string_view hint,
                  bool whole) {
  std::string shown;
  if (set) {
    char digits[32];
    const auto end = whole ? std::to_chars(digits, digits + sizeof(digits),
                                           static_cast<int64_t>(std::llround(value)))
                           : std::to_chars(digits, digits + sizeof(digits), value,
                                           std::chars_format::general, 6);
    shown.assign(digits, end.ptr);
  }
  // Half a number is none: what is typed counts when the field is left. Only one field is active.
  static ImGuiID typed_in = 0;
  static std::string typed;
  std::string text = shown;
  ImGui::SetNextItemWidth(width_of(-1));
  if (ImGui::InputTextWithHint(labelled("", name).c_str(), ShownText(hint).string().c_str(), &text,
                               ImGuiInputTextFlags_CallbackCharFilter, filter_number)) {
    typed_in = ImGui::GetItemID();
    typed = text;
  }
  add_control("input", name, text.empty() ? hint : std::string_view(text), ImGui::IsItemActive());
  if (!ImGui::IsItemDeactivatedAfterEdit() || typed_in != ImGui::GetItemID()) return false;
  if (typed == shown) return false;
  if (typed.empty()) {
    set = false;
    return true;
  }
  double parsed = 0;
  const auto [end, error] = std::from_chars(typed.data(), typed.data() + typed.size(), parsed);
  if (error != std::errc() || end != typed.data() + typed.size() || !std::isfinite(parsed)) {
    return false;
  }
  parsed = whole ? std::round(std::clamp(parsed, -1e18, 1e18)) : parsed;
  if (set && parsed == value) return false;
  value = parsed;
  set = true;
  return true;
}

bool row(std::string_view name, std::string_view label, bool chosen, float height) {
  const float tall = height > 0 ? height : ImGui::GetFrameHeight();
  const bool pressed = ImGui::Selectable(labelled("", name).c_str(), chosen,
                                         ImGuiSelectableFlags_AllowItemOverlap, {0, tall});
  const ImVec2 least = ImGui::GetItemRectMin();
  const ImVec2 most = ImGui::GetItemRectMax();
  if (height <= 0) {
    const float pad = ImGui::GetStyle().FramePadding.x;
    line_at(least.x + pad, (least.y + most.y - ImGui::GetFontSize()) / 2, most.x - pad,
            ImGui::GetColorU32(ImGuiCol_Text), label);
  }
  add_control("row", name, label, chosen);
  return pressed;
}

void line_at(float x, float y, float right, unsigned colour, std::string_view text) {
  const ShownLine shown(text, right - x);
  ImGui::GetWindowDrawList()->AddText({x, y}, colour, shown.begin(), shown.end());
}

bool fold(std::string_view name, std::string_view label, bool open_at_first) {
  const bool open = ImGui::CollapsingHeader(labelled(label, name).c_str(),
                                            open_at_first ? ImGuiTreeNodeFlags_DefaultOpen : 0);
  add_control("fold", name, label, open);
  return open;
}

void progress(std::string_view name, double share, std::string_view label) {
  ImGui::ProgressBar(static_cast<float>(std::clamp(share, 0.0, 1.0)), {width_of(-1), 0},
                     ShownText(label).string().c_str());
  add_last_item("progress", name, label);
}

void text(std::string_view text, std::string_view name) {
  const ShownText shown(first_bytes(text, kMostText));
  ImGui::TextUnformatted(shown.begin(), shown.end());
  if (!name.empty()) add_last_item("text", name, text);
}

void cut(std::string_view text, float width, std::string_view name) {
  const ShownLine shown(first_bytes(text, kMostText), width);
  ImGui::TextUnformatted(shown.begin(), shown.end());
  if (!name.empty()) add_last_item("text", name, shown.text());
}

void wrapped(std::string_view shown, std::string_view name) {
  ImGui::PushTextWrapPos(0);
  text(shown, name);
  ImGui::PopTextWrapPos();
}

void faint(std::string_view shown, std::string_view name) {
  ImGui::PushStyleColor(ImGuiCol_Text, colour(theme().faint));
  wrapped(shown, name);
  ImGui::PopStyleColor();
}

void heading(std::string_view shown, std::string_view name) {
  ImGui::Dummy({0, 4 * scale()});
  ImGui::PushStyleColor(ImGuiCol_Text, colour(theme().text));
  ImGui::SetWindowFontScale(1.15f);
  text(shown, name);
  ImGui::SetWindowFontScale(1);
  ImGui::PopStyleColor();
}

void notice(Tone tone, std::string_view shown, std::string_view name) {
  const Theme& t = theme();
  const Rgb rgb = tone == Tone::danger ? t.danger : tone == Tone::primary ? t.good : t.warning;
  ImGui::PushStyleColor(ImGuiCol_Text, colour(rgb));
  wrapped(shown, name);
  ImGui::PopStyleColor();
}

void tooltip(std::string_view text) {
  if (!ImGui::IsItemHovered()) return;
  const ShownText shown(first_bytes(text, kMostText));
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(ImGui::GetFontSize() * 28);
  ImGui::TextUnformatted(shown.begin(), shown.end());
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

void label(std::string_view text, float width) {
  const ShownText shown(text);
  const float start = ImGui::GetCursorPosX();
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted(shown.begin(), shown.end());
  ImGui::SameLine(start + (width > 0 ? width : ImGui::GetFontSize() * 10));
}

Area::Area(std::string_view name, float width, float height, bool framed) : scope_(name) {
  // Flattened: arrow keys move into it and out of it.
  visible_ = ImGui::BeginChild("area", {width, height}, framed, ImGuiWindowFlags_NavFlattened);
}
Area::~Area() { ImGui::EndChild(); }

void open_dialog(std::string_view name) {
  const Scope scope(name);
  ImGui::OpenPopup("###dialog");
}

Dialog::Dialog(std::string_view name, std::string_view title, float width) : scope_(name) {
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float wide = std::min(width, screen.x * 0.95f);
  ImGui::SetNextWindowPos({screen.x / 2, screen.y / 2}, ImGuiCond_Always, {0.5f, 0.5f});
  ImGui::SetNextWindowSizeConstraints({wide, 0}, {wide, screen.y * 0.95f});
  open_ = ImGui::BeginPopupModal(labelled(title, "dialog").c_str(), nullptr,
                                 ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoMove);
  if (open_ && ImGui::IsKeyPressed(ImGui::GetKeyIndex(ImGuiKey_Escape))) close();
}
Dialog::~Dialog() {
  if (open_) ImGui::EndPopup();
}
void Dialog::close() { ImGui::CloseCurrentPopup(); }

bool is_popup_open() { return ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopup); }

Menu::Menu(std::string_view name, bool opens) : scope_(name) {
  if (opens) ImGui::OpenPopup("menu");
  open_ = ImGui::BeginPopup("menu");
}
Menu::~Menu() {
  if (open_) ImGui::EndPopup();
}

bool menu_item(std::string_view name, std::string_view label, std::string_view shortcut,
               bool enabled) {
  const bool pressed =
      ImGui::MenuItem(labelled(label, name).c_str(),
                      shortcut.empty() ? nullptr : std::string(shortcut).c_str(), false, enabled);
  add_control("menu item", name, label);
  return pressed;
}

Disabled::Disabled(bool off) : off_(off) { ImGui::BeginDisabled(off); }
Disabled::~Disabled() { ImGui::EndDisabled(); }

}  // namespace infer::gui::ui
