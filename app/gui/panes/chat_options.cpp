#include "gui/panes/chat_options.h"

#include <imgui/imgui.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "chat/named_templates.h"
#include "gui/format.h"
#include "gui/ui/ui.h"

namespace infer::gui {
namespace {

enum Constraint : size_t { kNone, kSchema, kGrammar };

/// The choices of chat templates: the model's own, Jinja, and those with names.
enum TemplateKind : size_t { kOwn, kJinja, kFirstNamed };
std::vector<std::string> template_choices() {
  std::vector<std::string> choices{"The model's own", "Jinja"};
  for (const chat::NamedTemplate& named : chat::named_templates()) choices.emplace_back(named.name);
  return choices;
}

/// A number of SamplingOptions: its name, what holds if it is empty, its range, what it does.
template <typename T>
bool number(const char* name, std::optional<T>& value, T preset, double low, double high,
            const char* help, std::string& problem) {
  std::string label = name;
  for (char& c : label) c = c == '_' ? ' ' : c;
  ui::label(label, ImGui::GetFontSize() * 9);
  ui::tooltip(help);
  double shown = value ? static_cast<double>(*value) : 0;
  bool set = value.has_value();
  const std::string hint = plain_number(preset) + ", or the model's";
  if (!ui::input_number(name, shown, set, hint, std::is_integral_v<T>)) return false;
  problem.clear();
  if (set && !(shown >= low && shown <= high)) {
    problem = label + ": expected " + plain_number(low) + " to " + plain_number(high) + ", not " +
              plain_number(shown);
    return false;
  }
  if (set) {
    value = static_cast<T>(shown);
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

void ChatOptions::read() {
  of_ = chat_.current();
  const ChatSettings& settings = chat_.settings();
  system_prompt_ = chat_.system_prompt();
  constraint_kind_ = !settings.json_schema.empty() ? kSchema
                     : !settings.grammar.empty()   ? kGrammar
                                                   : kNone;
  constraint_ = settings.json_schema + settings.grammar;
  tools_ = settings.tools;
  const std::vector<std::string> choices = template_choices();
  const auto named =
      std::find(choices.begin() + kFirstNamed, choices.end(), settings.chat_template);
  template_kind_ = settings.chat_template.empty() ? kOwn
                   : named == choices.end()       ? kJinja
                                                  : static_cast<size_t>(named - choices.begin());
  template_ = template_kind_ == kJinja ? settings.chat_template : "";
  settings_ = settings;
  edited_ = false;
  problem_.clear();
}

void ChatOptions::keep() {
  if (!std::exchange(edited_, false)) return;
  settings_.tools = tools_;
  settings_.chat_template = template_kind_ == kOwn     ? ""
                            : template_kind_ == kJinja ? template_
                                                       : template_choices()[template_kind_];
  settings_.json_schema = constraint_kind_ == kSchema ? constraint_ : "";
  settings_.grammar = constraint_kind_ == kGrammar ? constraint_ : "";
  chat_.configure(of_, system_prompt_, settings_);
}

void ChatOptions::draw() {
  const ui::Scope scope("options");
  if (of_ != chat_.current()) {
    keep();
    // A new conversation that has been stored meanwhile is the same one.
    read();
  }
  if (!edited_) settings_ = chat_.settings();
  // A field that is active belongs to its conversation.
  ImGui::PushID(static_cast<int>(of_));
  draw_all();
  ImGui::PopID();
}

void ChatOptions::draw_all() {
  bool left = false;  // a field: what it has is kept
  const auto lines = [&](const char* name, std::string& text, float height, const char* hint) {
    bool unused = false;
    edited_ = ui::input_lines(name, text, height, unused, {.hint = hint}) || edited_;
    left = ImGui::IsItemDeactivatedAfterEdit() || left;
  };
  const float line = ImGui::GetTextLineHeight();
  ui::heading("System prompt");
  lines("system prompt", system_prompt_, line * 6, "How the model should answer");
  draw_presets();
  ui::heading("Sampling");
  bool changed = draw_sampling();
  ui::heading("The answer must match");
  changed = ui::segments("constraint", constraint_kind_, {"Nothing", "JSON schema", "Grammar"}) ||
            changed;
  if (constraint_kind_ != kNone) {
    lines("constraint text", constraint_, line * 8,
          constraint_kind_ == kSchema ? "{\"type\": \"object\", …}" : "root ::= \"yes\" | \"no\"");
  }
  if (ui::fold("tools", "Tools")) {
    ui::faint(
        "A JSON array of functions, as in OpenAI's requests. The model may ask for them; you "
        "give the results.");
    lines("tools", tools_, line * 8, "[{\"type\": \"function\", …}]");
  }
  if (ui::fold("template", "Chat template", template_kind_ != kOwn)) {
    ui::faint(
        "It turns messages into the text that the model reads. Choose one if the model has none.");
    changed = ui::choice("chat template", template_kind_, template_choices()) || changed;
    if (template_kind_ == kJinja) {
      lines("jinja", template_, line * 8, "{%- for m in messages -%} …");
    }
  }
  changed = ui::checkbox("thinking", "Let the model think first", settings_.thinking) || changed;
  changed = ui::checkbox("drop oldest", "Leave out the oldest when full", settings_.drop_oldest) ||
            changed;
  edited_ = edited_ || changed;
  if (changed || left) keep();
}

void ChatOptions::draw_presets() {
  const auto& presets = chat_.presets();
  ui::heading("Presets");
  for (const conversations::Preset& preset : presets) {
    const ui::Scope scope(preset.name);
    if (ui::button("use", preset.name)) {
      keep();
      chat_.use_preset(preset.name);
      read();
    }
    ImGui::SameLine();
    if (ui::action("delete", "×", "Deletes this preset")) {
      chat_.delete_preset(preset.name);
      break;
    }
  }
  ui::input("preset name", preset_name_,
            {.hint = "Name of a new preset", .width = -ImGui::GetFontSize() * 6});
  ImGui::SameLine();
  const ui::Disabled disabled(preset_name_.empty());
  const bool replaces =
      std::ranges::find(presets, preset_name_, &conversations::Preset::name) != presets.end();
  if (ui::button("save preset", replaces ? "Replace" : "Save")) {
    chat_.save_preset(preset_name_);
    preset_name_.clear();
  }
}

bool ChatOptions::draw_sampling() {
  bool changed = false;
  SamplingOptions& sampling = settings_.sampling;
#define INFER_SAMPLING(type, name, preset, low, high, key, flags, value, help)            \
  if (is_usual(#name)) {                                                                  \
    changed = number(#name, sampling.name, preset, low, high, help, problem_) || changed; \
  }
#include "infer/samplers.def"
  ui::label("answer's length", ImGui::GetFontSize() * 9);
  double tokens = settings_.max_tokens;
  bool limited = settings_.max_tokens >= 0;
  if (ui::input_number("max tokens", tokens, limited, "until it ends", true)) {
    settings_.max_tokens =
        limited && tokens >= 0 && tokens < 1e9 ? static_cast<int32_t>(tokens) : -1;
    changed = true;
  }
  ui::label("seed", ImGui::GetFontSize() * 9);
  double seed = sampling.seed ? static_cast<double>(*sampling.seed) : 0;
  bool seeded = sampling.seed.has_value();
  if (ui::input_number("seed", seed, seeded, "a new one each time", true)) {
    constexpr double kMostSeed = 9007199254740992;  // beyond it the store's numbers are not exact
    problem_.clear();
    if (seeded && !(seed >= 0 && seed <= kMostSeed)) {
      problem_ = "seed: expected 0 to " + plain_number(kMostSeed) + ", not " + plain_number(seed);
    } else {
      sampling.seed.reset();
      if (seeded) sampling.seed = static_cast<uint64_t>(seed);
      changed = true;
    }
  }
  if (ui::fold("more", "More samplers")) {
#define INFER_SAMPLING(type, name, preset, low, high, key, flags, value, help)            \
  if (!is_usual(#name)) {                                                                 \
    changed = number(#name, sampling.name, preset, low, high, help, problem_) || changed; \
  }
#include "infer/samplers.def"
  }
  if (!problem_.empty()) ui::notice(ui::Tone::danger, problem_, "problem");
  return changed;
}

}  // namespace infer::gui
