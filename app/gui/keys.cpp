#include "gui/keys.h"

#include <GLFW/glfw3.h>
#include <imgui/imgui.h>

#include <array>
#include <utility>

namespace infer::gui {
namespace {

struct Keys {
  Shortcut shortcut;
  int key;  ///< GLFW's number
  bool control, shift;
};

constexpr Keys kAllKeys[] = {
    {Shortcut::new_conversation, GLFW_KEY_N, true, false},
    {Shortcut::search, GLFW_KEY_F, true, false},
    {Shortcut::open_model, GLFW_KEY_O, true, false},
    {Shortcut::send_stop, GLFW_KEY_ESCAPE, false, false},
    {Shortcut::regenerate, GLFW_KEY_R, true, false},
    {Shortcut::copy_answer, GLFW_KEY_C, true, true},
    {Shortcut::rename, GLFW_KEY_F2, false, false},
    {Shortcut::menu, GLFW_KEY_MENU, false, false},
    {Shortcut::menu, GLFW_KEY_F10, false, true},
    {Shortcut::options, GLFW_KEY_B, true, false},
    {Shortcut::page_chat, GLFW_KEY_1, true, false},
    {Shortcut::page_models, GLFW_KEY_2, true, false},
    {Shortcut::page_insight, GLFW_KEY_3, true, false},
    {Shortcut::page_tools, GLFW_KEY_4, true, false},
    {Shortcut::page_settings, GLFW_KEY_5, true, false},
    {Shortcut::larger_font, GLFW_KEY_EQUAL, true, false},
    {Shortcut::smaller_font, GLFW_KEY_MINUS, true, false},
    {Shortcut::help, GLFW_KEY_F1, false, false},
    {Shortcut::quit, GLFW_KEY_Q, true, false},
};

constexpr ShortcutHelp kHelp[] = {
    {Shortcut::new_conversation, "Ctrl+N", "A new conversation"},
    {Shortcut::search, "Ctrl+F", "Search all conversations"},
    {Shortcut::rename, "F2", "Rename the conversation"},
    {Shortcut::menu, "Shift+F10", "The menu of the conversation that has the focus"},
    {Shortcut::send_stop, "Esc", "Stop the answer"},
    {Shortcut::regenerate, "Ctrl+R", "Another answer to the last question"},
    {Shortcut::copy_answer, "Ctrl+Shift+C", "Copy the last answer"},
    {Shortcut::options, "Ctrl+B", "Show or hide the settings of the conversation"},
    {Shortcut::open_model, "Ctrl+O", "Open a model"},
    {Shortcut::page_chat, "Ctrl+1", "Chat"},
    {Shortcut::page_models, "Ctrl+2", "Models"},
    {Shortcut::page_insight, "Ctrl+3", "Insight"},
    {Shortcut::page_tools, "Ctrl+4", "Tools"},
    {Shortcut::page_settings, "Ctrl+5", "Settings"},
    {Shortcut::larger_font, "Ctrl+=", "A larger font"},
    {Shortcut::smaller_font, "Ctrl+-", "A smaller font"},
    {Shortcut::help, "F1", "This list"},
    {Shortcut::quit, "Ctrl+Q", "Quit"},
};

/// The letters by the key that types them; and the signs of Ctrl+= and Ctrl+-.
constexpr int kTranslated = GLFW_KEY_LAST + 1;
std::array<int, kTranslated> identity() {
  std::array<int, kTranslated> keys{};
  for (int key = 0; key < kTranslated; ++key) keys[static_cast<size_t>(key)] = key;
  return keys;
}
std::array<int, kTranslated> g_keys = identity();

/// The key to press for the character that the key `us` types on a US keyboard.
int key_of(int us) { return g_keys[static_cast<size_t>(us)]; }

}  // namespace

void follow_layout(const std::function<const char*(int key)>& name) {
  std::array<int, kTranslated> keys = identity();
  const std::pair<int, int> ranges[] = {
      {GLFW_KEY_APOSTROPHE, GLFW_KEY_APOSTROPHE}, {GLFW_KEY_COMMA, GLFW_KEY_9},
      {GLFW_KEY_SEMICOLON, GLFW_KEY_SEMICOLON},   {GLFW_KEY_EQUAL, GLFW_KEY_EQUAL},
      {GLFW_KEY_A, GLFW_KEY_RIGHT_BRACKET},       {GLFW_KEY_GRAVE_ACCENT, GLFW_KEY_GRAVE_ACCENT},
      {GLFW_KEY_WORLD_1, GLFW_KEY_WORLD_2}};
  for (const auto& [first, last] : ranges) {
    for (int key = first; key <= last; ++key) {
      const char* const typed = name(key);
      if (typed == nullptr || typed[0] == 0 || typed[1] != 0) continue;
      const char c = typed[0];
      if (c >= 'a' && c <= 'z') keys[static_cast<size_t>(c - 'a' + GLFW_KEY_A)] = key;
      if (c == '-') keys[GLFW_KEY_MINUS] = key;
      // Where = needs Shift, + is mostly a key of its own.
      if (c == '=' || c == '+') keys[GLFW_KEY_EQUAL] = key;
    }
  }
  g_keys = keys;
  const std::pair<ImGuiKey, int> edits[] = {{ImGuiKey_A, GLFW_KEY_A}, {ImGuiKey_C, GLFW_KEY_C},
                                            {ImGuiKey_V, GLFW_KEY_V}, {ImGuiKey_X, GLFW_KEY_X},
                                            {ImGuiKey_Y, GLFW_KEY_Y}, {ImGuiKey_Z, GLFW_KEY_Z}};
  for (const auto& [edit, us] : edits) ImGui::GetIO().KeyMap[edit] = key_of(us);
}

std::span<const ShortcutHelp> shortcuts() { return kHelp; }

bool is_pressed(Shortcut shortcut) {
  const ImGuiIO& io = ImGui::GetIO();
  for (const Keys& keys : kAllKeys) {
    if (keys.shortcut != shortcut) continue;
    if (io.KeyCtrl == keys.control && io.KeyShift == keys.shift && !io.KeyAlt &&
        ImGui::IsKeyPressed(key_of(keys.key), false)) {
      return true;
    }
  }
  return false;
}

}  // namespace infer::gui
