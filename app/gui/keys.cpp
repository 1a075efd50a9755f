#include "gui/keys.h"

#include <GLFW/glfw3.h>
#include <imgui/imgui.h>

namespace infer::gui {
namespace {

struct Keys {
  Shortcut shortcut;
  int key;  ///< GLFW's number
  bool control, shift;
};

constexpr Keys kKeys[] = {
    {Shortcut::new_conversation, GLFW_KEY_N, true, false},
    {Shortcut::search, GLFW_KEY_F, true, false},
    {Shortcut::open_model, GLFW_KEY_O, true, false},
    {Shortcut::send_stop, GLFW_KEY_ESCAPE, false, false},
    {Shortcut::regenerate, GLFW_KEY_R, true, false},
    {Shortcut::copy_answer, GLFW_KEY_C, true, true},
    {Shortcut::rename, GLFW_KEY_F2, false, false},
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

}  // namespace

std::span<const ShortcutHelp> shortcuts() { return kHelp; }

bool is_pressed(Shortcut shortcut) {
  const ImGuiIO& io = ImGui::GetIO();
  for (const Keys& keys : kKeys) {
    if (keys.shortcut != shortcut) continue;
    return io.KeyCtrl == keys.control && io.KeyShift == keys.shift && !io.KeyAlt &&
           ImGui::IsKeyPressed(keys.key, false);
  }
  return false;
}

}  // namespace infer::gui
