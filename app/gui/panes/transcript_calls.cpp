// The calls of tools in a message: what the model asks for, and what it gets.
#include <imgui/imgui.h>

#include <utility>

#include "gui/panes/transcript.h"
#include "gui/text/markdown.h"
#include "gui/text/sanitise.h"
#include "gui/ui/ui.h"

namespace infer::gui {

void Transcript::draw_calls(const ShownMessage& shown, Item& item, float width) {
  const auto& calls = shown.calls();
  item.calls.resize(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    const conversations::ToolCall& call = calls[i];
    Call& kept = item.calls[i];
    const ui::Scope scope("call", static_cast<int64_t>(i));
    ui::text("Asks for " + one_line(call.name, kNameBytes), "name");
    draw_code("arguments", kept.arguments, kept.arguments_bytes, call.arguments, width);
    if (!call.result.empty()) {
      ui::faint("→");
      draw_code("result", kept.result, kept.result_bytes, call.result, width);
    } else if (shown.live == nullptr) {
      bool submitted = false;
      std::string& typed = results_[{shown.message->id, i}];
      ui::input_lines("result", typed, ImGui::GetTextLineHeight() * 3, submitted,
                      {.hint = "The result of this call", .enter_submits = true});
      if ((ui::button("give", "Give the result", ui::Tone::primary) || submitted) &&
          !typed.empty()) {
        chat_.set_tool_result(shown.message->id, i, std::exchange(typed, {}));
        return;
      }
    }
  }
}

/// What a tool gets and gives: of any length, and mostly JSON.
void Transcript::draw_code(const char* name, std::unique_ptr<TextView>& view, size_t& have,
                           const std::string& text, float width) {
  if (text.empty()) return;
  if (view == nullptr) view = std::make_unique<TextView>();
  if (have != text.size()) {
    have = text.size();
    view->set(fenced(text, "json"));
  }
  const ui::Scope scope(name);  // for the button that copies
  draw_text("code", *view, width);
}

}  // namespace infer::gui
