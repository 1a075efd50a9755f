#include "gui/panes/plan_view.h"

#include <imgui/imgui.h>

#include <algorithm>
#include <utility>

#include "gui/format.h"
#include "gui/panes/plot_style.h"
#include "gui/plot/stacked_bar.h"
#include "gui/text/sanitise.h"
#include "gui/theme.h"
#include "gui/ui/ui.h"

namespace infer::gui {
namespace {

const std::vector<std::string> kCacheTypes{"f16", "q8_0", "q4_0", "f32", "auto"};

/// Grows in steps of the same ratio: contexts are rarely wanted to the token.
constexpr int64_t kMostContext = int64_t{1} << 20;
/// Of what a file says about itself.

float label_width() { return ImGui::GetFontSize() * 11; }

std::string label_of(const Alternative& alternative) {
  const LoadOptions& o = alternative.options;
  switch (alternative.kind) {
    case Alternative::Kind::cache_type:
      return "Keys and values as " + o.cache_type_k + " (context " +
             std::to_string(alternative.plan.context) + ")";
    case Alternative::Kind::context: return "A context of " + std::to_string(o.context) + " tokens";
    case Alternative::Kind::gpu_layers:
      return std::to_string(o.gpu_layers) + " layers on " + o.device + ", the others on the CPU";
    case Alternative::Kind::spill: return "Weights stay in the file (slow)";
    case Alternative::Kind::memory: return "With " + bytes_text(o.memory_limit) + " of free memory";
  }
  return {};
}

/// "12.3 to 20.1"; what is not known is not shown.
std::string range_text(const SpeedRange& range) {
  return range.high > 0 ? figures(range.low) + " to " + figures(range.high) : "unknown";
}

int64_t bytes_of(const DeviceMemoryReport& device) {
  return device.weights + device.kv + device.activations + device.scratch + device.other +
         device.draft;
}

int64_t bytes_on(const MemoryReport& memory, const std::string& device) {
  const auto found = std::ranges::find(memory.devices, device, &DeviceMemoryReport::device);
  return found == memory.devices.end() ? 0 : bytes_of(*found);
}

void draw_speed(const SpeedEstimate& speed) {
  if (!speed.unknown.empty()) return ui::faint("Speed is not known: " + speed.unknown, "speed");
  if (speed.generation.high <= 0) return;
  ui::wrapped("Expected: " + range_text(speed.generation) + " tokens/s, " +
                  range_text(speed.generation_full) + " with a full context; a prompt of " +
                  std::to_string(speed.prompt_tokens) + " tokens " + range_text(speed.prompt) +
                  " tokens/s.",
              "speed");
  for (const DeviceSpeed& device : speed.devices) {
    const bool measured = device.source == DeviceSpeed::Source::measured;
    ui::faint("From " + figures(device.read_bandwidth_gb_s) + " GB/s of " + device.device +
                  (measured ? ", measured here" : ", by its specification"),
              "speed source");
  }
  if (!speed.note.empty()) ui::faint(speed.note, "speed note");
}

/// A field for a path; true once it was changed. `shown`: what the field holds meanwhile.
bool edit_path(const char* label, const char* name, const char* hint, std::string& shown,
               std::string& path) {
  ui::label(label, label_width());
  ui::input_path(name, shown, {.hint = hint});
  if (ImGui::IsItemDeactivatedAfterEdit()) {
    path = shown;
    return true;
  }
  if (!ImGui::IsItemActive()) shown = path;
  return false;
}

}  // namespace

void draw_memory_bars(const MemoryReport& memory, const std::vector<DeviceDescription>& devices,
                      const MemoryReport* loaded, const char* name) {
  const ui::Scope scope(name);
  const PlotTheme style = plot_style();
  const Theme& t = theme();
  for (const DeviceMemoryReport& device : memory.devices) {
    const ui::Scope one(device.device);
    const int64_t used = bytes_of(device);
    const int64_t work = device.activations + device.scratch;
    // What the system counts as used is this program's and that of all others.
    int64_t total = device.available;
    int64_t others = 0;
    const auto now = std::ranges::find(devices, device.device, &DeviceDescription::name);
    if (now != devices.end() && now->memory_total > 0) {
      const int64_t own = loaded == nullptr ? 0 : bytes_on(*loaded, device.device);
      total = now->memory_total;
      others = std::max<int64_t>(0, total - now->memory_free - own);
    }
    const int64_t free = std::max<int64_t>(0, total - others - used);
    std::string label = device.device + ": " + bytes_text(used) + " of " + bytes_text(total);
    if (!device.computes.empty()) label += ", computes " + device.computes;
    ui::wrapped(label, "label");
    const std::pair<BarPart, const char*> parts[] = {
        {{"weights", static_cast<double>(device.weights), packed(t.series[0])}, "weights"},
        {{"keys and values", static_cast<double>(device.kv), packed(t.series[1])}, "kv"},
        {{"work space", static_cast<double>(work), packed(t.series[2])}, "work"},
        {{"draft model", static_cast<double>(device.draft), packed(t.series[3])}, "draft"},
        {{"program", static_cast<double>(device.other), packed(t.series[6])}, "other"},
        {{"other programs", static_cast<double>(others), packed(t.series[4])}, "others"},
        {{"free", static_cast<double>(free), packed(t.series[5])}, "free"},
    };
    std::vector<BarPart> shown;
    for (const auto& [part, part_name] : parts) {
      if (part.value > 0) shown.push_back(part);
    }
    const StackedBar bar{shown, static_cast<double>(total), Unit::bytes};
    draw_stacked_bar("bar", bar, ImGui::GetContentRegionAvail().x, style);
    for (const auto& [part, part_name] : parts) {
      ui::add_last_item("bar", part_name, bytes_text(static_cast<int64_t>(part.value)));
    }
    ImGui::Dummy({0, 6 * scale()});
  }
}

void PlanView::draw() {
  const ui::Scope scope("plan");
  if (models_.planned_path().empty()) {
    plans_away_ = false;
    draw_loaded();
    return;
  }
  ui::heading(short_name(models_.planned_path()), "title");
  models_.ask_devices();
  const Planned* const planned = models_.planned();
  if (planned == nullptr) return ui::faint("Reading the file …", "reading");
  if (planned->model != nullptr) draw_facts(*planned->model);
  if (planned->model == nullptr) {
    ui::notice(ui::Tone::danger, planned->status.message(), "failure");
    if (ui::button("close", "Close")) models_.close_plan();
    return;
  }
  if (draw_options()) models_.plan_again();
  ImGui::Dummy({0, 6 * scale()});
  if (planned->status.ok()) {
    ui::notice(ui::Tone::primary,
               planned->plan.spilled
                   ? "Fits, but the weights have to be read from the file again and again: slow."
                   : "Fits: " + bytes_text(planned->plan.total) + ", context " +
                         std::to_string(planned->plan.longest) + " tokens.",
               "verdict");
    draw_speed(planned->speed);
    draw_memory_bars(planned->plan, models_.devices(),
                     models_.loaded() != nullptr ? &models_.memory() : nullptr, "memory");
  } else {
    ui::notice(ui::Tone::danger, planned->status.message(), "verdict");
    draw_alternatives(*planned);
  }
  {
    const bool loading = models_.phase() == ModelState::Phase::loading;
    const ui::Disabled disabled(!planned->status.ok() || models_.is_planning() || loading ||
                                !planned->absent.empty());
    if (ui::button("load", "Load", ui::Tone::primary)) models_.load_planned();
  }
  ImGui::SameLine();
  if (ui::button("close", "Close")) models_.close_plan();
  draw_loading();
}

void PlanView::draw_loading() {
  if (models_.phase() != ModelState::Phase::loading) return;
  ui::text("Loading " + short_name(models_.loading_path()), "loading");
  ui::progress(
      "progress", models_.progress(),
      models_.is_waiting() ? "waits for answers to end" : percent_text(models_.progress()));
  if (ui::button("cancel", "Cancel", ui::Tone::danger)) models_.cancel_load();
}

void PlanView::draw_facts(const ModelDescription& model) {
  std::string text = one_line(model.architecture, kFactBytes) + ", " +
                     one_line(model.file_type, kFactBytes) + ", " + count_text(model.parameters) +
                     " parameters, " + bytes_text(model.weight_bytes) +
                     " of weights, trained for " + std::to_string(model.context) + " tokens";
  ui::faint(text, "facts");
  if (!model.unsupported.empty()) {
    ui::notice(ui::Tone::danger, "This version cannot run it: " + model.unsupported, "unsupported");
  }
}

/// The devices that are here, and any other one by its name or its numbers.
bool PlanView::draw_device() {
  LoadOptions& options = models_.options();
  std::vector<std::string> names, labels;
  for (const DeviceDescription& device : models_.devices()) {
    if (!device.unusable.empty()) continue;
    names.push_back(device.name);
    labels.push_back(device.name + ": " + device.description);
  }
  if (std::ranges::find(names, options.device) == names.end()) {
    names.push_back(options.device);
    labels.push_back(options.device);
  }
  labels.emplace_back("A device that is not here …");
  const auto found = std::ranges::find(names, options.device);
  size_t chosen = plans_away_ ? names.size() : static_cast<size_t>(found - names.begin());
  ui::label("Device", label_width());
  bool changed = ui::choice("device", chosen, labels);
  if (changed) {
    plans_away_ = chosen == names.size();
    if (!plans_away_) options.device = names[chosen];
    models_.plan_on(plans_away_ ? absent_ : "");
  }
  if (!plans_away_) return changed;
  ui::label("Its name or numbers", label_width());
  if (ui::input("absent", absent_, {.hint = "RTX 4090, or 24G,1008GB/s", .enter_ends = true})) {
    models_.plan_on(absent_);
  }
  return false;
}

bool PlanView::draw_options() {
  LoadOptions& options = models_.options();
  const Planned& planned = *models_.planned();
  bool changed = draw_device();
  ui::label("Context, tokens", label_width());
  int64_t context = options.context > 0 ? options.context : planned.plan.context;
  const int64_t most = std::clamp<int64_t>(planned.model->context, 256, kMostContext);
  context = std::clamp<int64_t>(context, 256, most);
  if (ui::slider("context", context, 256, most)) {
    options.context = context / 64 * 64;
    changed = true;
  }
  ui::label("Keys and values", label_width());
  const auto found = std::ranges::find(kCacheTypes, options.cache_type_k);
  auto type = static_cast<size_t>(found == kCacheTypes.end() ? 0 : found - kCacheTypes.begin());
  if (ui::choice("cache type", type, kCacheTypes)) {
    options.cache_type_k = options.cache_type_v = kCacheTypes[type];
    changed = true;
  }
  if (planned.plan.devices.size() > 1) {
    ui::label("Layers on GPUs", label_width());
    int64_t layers = options.gpu_layers >= 0 ? options.gpu_layers : planned.plan.gpu_layers;
    if (ui::slider("gpu layers", layers, 0, std::max<int64_t>(planned.model->layers + 1, 1))) {
      options.gpu_layers = static_cast<int32_t>(layers);
      changed = true;
    }
  }
  ui::label("Tokens a step", label_width());
  int64_t rows = options.batch_rows;
  if (ui::slider("batch", rows, 16, 2048)) {
    options.batch_rows = static_cast<int32_t>(rows);
    changed = true;
  }
  changed = edit_path("Draft model", "draft", "path of a small model, or nothing", draft_,
                      options.draft_model) ||
            changed;
  changed = edit_path("Images", "vision", "path of a file that reads images (mmproj), or nothing",
                      vision_, options.vision) ||
            changed;
  return changed;
}

void PlanView::draw_alternatives(const Planned& planned) {
  const ui::Scope scope("alternatives");
  if (!planned.alternatives.empty()) ui::text("It would fit with:");
  for (size_t i = 0; i < planned.alternatives.size(); ++i) {
    const Alternative& alternative = planned.alternatives[i];
    const ui::Scope one("alternative", static_cast<int64_t>(i));
    if (alternative.kind == Alternative::Kind::memory) {
      ui::text(label_of(alternative), "need");
    } else if (ui::button("apply", label_of(alternative))) {
      models_.apply(alternative);
      return;
    }
  }
}

void PlanView::draw_loaded() {
  draw_loading();
  const Loaded* const loaded = models_.loaded();
  if (loaded == nullptr) {
    ui::faint("Choose a model to see what it needs.", "hint");
    if (!models_.failure().empty()) ui::notice(ui::Tone::danger, models_.failure(), "failure");
    return;
  }
  ui::heading(models_.name(), "title");
  draw_facts(*loaded->model);
  std::string text = "Loaded in " + seconds_text(loaded->seconds) + ". ";
  if (models_.planned_bytes() > 0)
    text += "Planned " + bytes_text(models_.planned_bytes()) + ", in";
  ui::faint(text + (models_.planned_bytes() > 0 ? " use " : "In use ") +
                bytes_text(models_.memory().total) + ":",
            "loaded");
  draw_memory_bars(models_.memory(), loaded->devices, &models_.memory(), "memory");
  if (ui::button("unload", "Unload")) models_.unload();
}

}  // namespace infer::gui
