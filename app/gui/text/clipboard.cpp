#include "gui/text/clipboard.h"

#include <imgui.h>
#include <imgui_internal.h>

#include <map>
#include <string_view>

#include "conversations/utf8.h"
#include "gui/text/stand_ins.h"

namespace infer::gui {
namespace {

/// What the contexts had before.
struct Functions {
  void (*set)(void* user, const char* text);
  const char* (*get)(void* user);
};
std::map<const ImGuiContext*, Functions> g_functions;

const Functions& functions() { return g_functions.at(ImGui::GetCurrentContext()); }

/// Whether a field of ImGui has the keyboard, and not another control.
bool is_for_field() {
  const ImGuiContext& g = *ImGui::GetCurrentContext();
  return g.ActiveId != 0 && g.ActiveId == g.InputTextState.ID;
}

void set_from_field(void* user, const char* text) {
  const bool converts = is_for_field() && has_stand_ins(text);
  functions().set(user, converts ? without_stand_ins(text).c_str() : text);
}

/// A text for a field of one line.
std::string in_one_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  std::string line;
  for (const char c : text) {
    if (c != '\r') line += c == '\n' || c == '\t' ? ' ' : c;
  }
  return line;
}

/// What a field pastes. Nothing rather than another text, where stand-ins are lacking.
const char* get_for_field(void* user) {
  static std::string pasted;
  const char* const text = functions().get(user);
  if (text == nullptr || !is_for_field()) return text;
  const ImGuiInputTextFlags flags = ImGui::GetCurrentContext()->InputTextState.Flags;
  std::string whole = conversations::valid_utf8(text);
  if ((flags & ImGuiInputTextFlags_Multiline) == 0) whole = in_one_line(whole);
  std::string_view edited;
  std::string space;
  if (!editable_text(whole, space, edited)) edited = {};
  pasted = edited;
  return pasted.c_str();
}

}  // namespace

void convert_clipboard() {
  ImGuiIO& io = ImGui::GetIO();
  g_functions[ImGui::GetCurrentContext()] = {io.SetClipboardTextFn, io.GetClipboardTextFn};
  io.SetClipboardTextFn = set_from_field;
  io.GetClipboardTextFn = get_for_field;
}

void copy_text(const std::string& text) {
  const ImGuiIO& io = ImGui::GetIO();
  const auto set =
      io.SetClipboardTextFn == set_from_field ? functions().set : io.SetClipboardTextFn;
  if (set != nullptr) set(io.ClipboardUserData, text.c_str());
}

}  // namespace infer::gui
