#include "gui/panes/chat_options.h"

#include <imgui/imgui.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "gui/format.h"
#include "gui/ui/ui.h"

namespace infer::gui {
namespace {

enum Constraint : size_t { kNone, kSchema, kGrammar };

/// A number of SamplingOptions: its name, what holds if it is empty, and what it does.
template <typename T>
bool number(const char* name, std::optional<T>& value, double preset, const char* help) {
  std::string label = name;
  for (char& c : label) c = c == '_' ? ' ' : c;
  ui::label(label, ImGui::GetFontSize() * 9);
  ui::tooltip(help);
  double shown = value ? static_cast<double>(*value) : 0;
  bool set = value.has_value();
  const std::string hint = plain_number(preset) + ", or the model's";
  if (!ui::input_number(name, shown, set, hint, std::is_integral_v<T>)) return false;
  if (set) {
    // The library says what a number may be; here it has to be one of the type.
    constexpr double kMost = std::is_integral_v<T> ? std::numeric_limits<T>::max() : 1e30;
    value = static_cast<T>(std::clamp(shown, -kMost, kMost));
  } else {
    value.reset();
  }
  return true;
}

bool is_usual(std::string_view name) {
  return name == "temperature" || name == "top_k" || name == "top_p" || name == "min_p" ||
         name == "repeat_penalty";
}

}  // namespace

void ChatOptions::draw() {
  const ui::Scope scope("options");
  ChatSettings settings = chat_.settings();
  if (of_ != chat_.current()) {
    of_ = chat_.current();
    system_prompt_ = chat_.system_prompt();
    constraint_kind_ = !settings.json_schema.empty() ? kSchema
                       : !settings.grammar.empty()   ? kGrammar
                                                     : kNone;
    constraint_ = settings.json_schema + settings.grammar;
    tools_ = settings.tools;
  }
  bool unused = false;
  const float line = ImGui::GetTextLineHeight();
  ui::heading("System prompt");
  ui::input_lines("system prompt", system_prompt_, line * 6, unused,
                  {.hint = "How the model should answer"});
  bool changed = ImGui::IsItemDeactivatedAfterEdit();
  draw_presets();
  ui::heading("Sampling");
  changed = draw_sampling(settings) || changed;
  ui::heading("The answer must match");
  changed = draw_constraint(settings) || changed;
  if (ui::fold("tools", "Tools")) {
    ui::faint(
        "A JSON array of functions, as in OpenAI's requests. The model may ask for them; you "
        "give the results.");
    ui::input_lines("tools", tools_, line * 8, unused, {.hint = "[{\"type\": \"function\", …}]"});
    if (ImGui::IsItemDeactivatedAfterEdit()) {
      settings.tools = tools_;
      changed = true;
    }
  }
  changed = ui::checkbox("thinking", "Let the model think first", settings.thinking) || changed;
  changed = ui::checkbox("drop oldest", "Leave out the oldest when full", settings.drop_oldest) ||
            changed;
  if (changed) chat_.configure(system_prompt_, std::move(settings));
}

void ChatOptions::draw_presets() {
  const auto& presets = chat_.presets();
  ui::heading("Presets");
  for (const conversations::Preset& preset : presets) {
    const ui::Scope scope(preset.name);
    if (ui::button("use", preset.name)) {
      chat_.use_preset(preset.name);
      of_ = -1;
    }
    ImGui::SameLine();
    if (ui::action("delete", "×", "Deletes this preset")) {
      chat_.delete_preset(preset.name);
      break;
    }
  }
  ui::input("preset name", preset_name_,
            {.hint = "Name of a new preset", .width = -ImGui::GetFontSize() * 5});
  ImGui::SameLine();
  const ui::Disabled disabled(preset_name_.empty());
  if (ui::button("save preset", "Save")) {
    chat_.save_preset(preset_name_);
    preset_name_.clear();
  }
}

bool ChatOptions::draw_sampling(ChatSettings& settings) {
  bool changed = false;
#define INFER_SAMPLING(type, name, preset, low, high, key, flags, value, help)                     \
  if (is_usual(#name)) {                                                                           \
    changed = number(#name, settings.sampling.name, static_cast<double>(preset), help) || changed; \
  }
#include "infer/samplers.def"
  ui::label("answer's length", ImGui::GetFontSize() * 9);
  double tokens = settings.max_tokens;
  bool limited = settings.max_tokens >= 0;
  if (ui::input_number("max tokens", tokens, limited, "until it ends", true)) {
    settings.max_tokens =
        limited && tokens >= 0 && tokens < 1e9 ? static_cast<int32_t>(tokens) : -1;
    changed = true;
  }
  ui::label("seed", ImGui::GetFontSize() * 9);
  double seed = settings.sampling.seed ? static_cast<double>(*settings.sampling.seed) : 0;
  bool seeded = settings.sampling.seed.has_value();
  if (ui::input_number("seed", seed, seeded, "a new one each time", true)) {
    settings.sampling.seed.reset();
    if (seeded && seed >= 0) settings.sampling.seed = static_cast<uint64_t>(seed);
    changed = true;
  }
  if (!ui::fold("more", "More samplers")) return changed;
#define INFER_SAMPLING(type, name, preset, low, high, key, flags, value, help)                     \
  if (!is_usual(#name)) {                                                                          \
    changed = number(#name, settings.sampling.name, static_cast<double>(preset), help) || changed; \
  }
#include "infer/samplers.def"
  return changed;
}

bool ChatOptions::draw_constraint(ChatSettings& settings) {
  bool changed =
      ui::segments("constraint", constraint_kind_, {"Nothing", "JSON schema", "Grammar"});
  if (constraint_kind_ != kNone) {
    bool unused = false;
    ui::input_lines("constraint text", constraint_, ImGui::GetTextLineHeight() * 8, unused,
                    {.hint = constraint_kind_ == kSchema ? "{\"type\": \"object\", …}"
                                                         : "root ::= \"yes\" | \"no\""});
    changed = ImGui::IsItemDeactivatedAfterEdit() || changed;
  }
  if (!changed) return false;
  settings.json_schema = constraint_kind_ == kSchema ? constraint_ : "";
  settings.grammar = constraint_kind_ == kGrammar ? constraint_ : "";
  return true;
}

}  // namespace infer::gui
