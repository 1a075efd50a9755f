#include "gui/panes/settings_pane.h"

#include <imgui/imgui.h>

#include <algorithm>

#include "gui/ui/ui.h"

namespace infer::gui {
namespace {

constexpr double kGiB = 1 << 30;

/// Chooses one of these texts.
bool choose(const char* name, std::string& value, const std::vector<std::string>& values,
            const std::vector<std::string>& labels) {
  const auto found = std::ranges::find(values, value);
  auto index = static_cast<size_t>(found == values.end() ? 0 : found - values.begin());
  if (!ui::choice(name, index, labels)) return false;
  value = values[index];
  return true;
}

bool number(const char* name, int64_t& value, int64_t unset, const char* hint, double unit = 1) {
  double shown = static_cast<double>(value) / unit;
  bool set = value != unset;
  if (!ui::input_number(name, shown, set, hint, unit == 1)) return false;
  value = set && shown >= 0 && shown * unit < 9e18 ? static_cast<int64_t>(shown * unit) : unset;
  return true;
}

}  // namespace

void SettingsPane::draw() {
  if (!read_) {
    read_ = true;
    system_prompt_ = store_.get().system_prompt;
  }
  if (ui::Area area("all", std::min(ImGui::GetContentRegionAvail().x, ImGui::GetFontSize() * 46),
                    0);
      area) {
    Settings settings = store_.get();
    bool changed = draw_look(settings);
    changed = draw_loading(settings) || changed;
    changed = draw_chat(settings) || changed;
    draw_files();
    if (changed) store_.set(std::move(settings));
    for (const std::string& problem : store_.problems()) {
      ui::notice(ui::Tone::danger, problem, "problem");
    }
  }
}

bool SettingsPane::draw_look(Settings& settings) {
  ui::heading("Look");
  ui::label("Theme", ImGui::GetFontSize() * 14);
  bool changed = choose("theme", settings.theme, {"system", "light", "dark", "contrast"},
                        {"As the system", "Light", "Dark", "High contrast"});
  ui::label("Font size", ImGui::GetFontSize() * 14);
  auto size = static_cast<int64_t>(settings.font_size);
  if (ui::slider("font size", size, 8, 48)) {
    settings.font_size = static_cast<float>(size);
    changed = true;
  }
  return changed;
}

bool SettingsPane::draw_loading(Settings& settings) {
  ui::heading("Loading models");
  ui::faint("These hold for models that are loaded from now on.");
  bool changed = false;
  const float width = ImGui::GetFontSize() * 14;
  models_.ask_devices();
  std::vector<std::string> names{{}};
  std::vector<std::string> labels{"The best one (" + models_.best_device() + ")"};
  for (const DeviceDescription& device : models_.devices()) {
    if (!device.unusable.empty()) continue;
    names.push_back(device.name);
    labels.push_back(device.name + ": " + device.description);
  }
  if (std::ranges::find(names, settings.device) == names.end()) {
    names.push_back(settings.device);
    labels.push_back(settings.device);
  }
  ui::label("Device", width);
  changed = choose("device", settings.device, names, labels) || changed;
  ui::label("Threads", width);
  int64_t threads = settings.threads;
  if (number("threads", threads, 0, "all that this process may use")) {
    settings.threads = static_cast<int32_t>(std::min<int64_t>(threads, kMostThreads));
    changed = true;
  }
  ui::label("Context, tokens", width);
  changed = number("context", settings.context, 0, "as much as fits") || changed;
  ui::label("Keys and values", width);
  changed = choose("cache type", settings.cache_type, {"f16", "q8_0", "q4_0", "auto", "f32"},
                   {"f16", "q8_0, half as large", "q4_0, a quarter as large",
                    "f16, or q8_0 if only that fits", "f32"}) ||
            changed;
  ui::label("Most memory, GiB", width);
  changed = number("memory", settings.memory_limit, 0, "what is free", kGiB) || changed;
  ui::label("Memory left free, GiB", width);
  changed = number("reserve", settings.reserve, -1, "5 %", kGiB) || changed;
  return changed;
}

bool SettingsPane::draw_chat(Settings& settings) {
  ui::heading("New conversations");
  bool submitted = false;
  ui::input_lines("system prompt", system_prompt_, ImGui::GetTextLineHeight() * 5, submitted,
                  {.hint = "System prompt"});
  if (!ImGui::IsItemDeactivatedAfterEdit()) return false;
  settings.system_prompt = system_prompt_;
  return true;
}

void SettingsPane::draw_files() {
  ui::heading("All conversations");
  ui::faint("Imports this program's JSON, and exports of ChatGPT and LM Studio.");
  const float width = ImGui::GetFontSize() * 6;
  const auto row = [&](const char* name, std::string& path, const char* hint, const char* label) {
    const ui::Scope scope(name);
    const bool entered =
        ui::input_path("path", path, {.hint = hint, .width = -width, .enter_ends = true});
    ImGui::SameLine();
    const ui::Disabled disabled(path.empty());
    return (ui::button("do", label, ui::Tone::plain, -1) || entered) && !path.empty();
  };
  if (row("import", import_, "Path of a JSON file", "Import")) chat_.import(import_);
  const char* label = guard_.asks(export_) ? "Replace it" : "Export";
  if (row("export", export_, "Path of a new JSON file", label) && guard_.may_write(export_)) {
    chat_.export_to(export_, {});
  }
  guard_.draw(export_);
}

}  // namespace infer::gui
