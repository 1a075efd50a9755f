#include "gui/panes/insight_pane.h"

#include <imgui/imgui.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "gui/format.h"
#include "gui/panes/plan_view.h"
#include "gui/panes/plot_style.h"
#include "gui/plot/line_plot.h"
#include "gui/plot/page_map.h"
#include "gui/text/sanitise.h"
#include "gui/theme.h"
#include "gui/ui/ui.h"

namespace infer::gui {
namespace {

/// Seconds that the plots show.
constexpr double kShown = 120;
constexpr size_t kLegendBytes = 40;  ///< of a conversation in the legend
constexpr std::chrono::seconds kLongestGap{3};
float plot_height() { return ImGui::GetFontSize() * 10; }

/// What the counters of both samples have counted between them. A counter that one of them does not
/// have counts nothing.
std::optional<double> joules_between(const SystemSample& before, const SystemSample& now) {
  std::optional<double> sum;
  if (before.cpu_joules && now.cpu_joules) sum = *now.cpu_joules - *before.cpu_joules;
  for (const GpuTelemetry& gpu : now.gpus) {
    const auto same = std::ranges::find(before.gpus, gpu.name, &GpuTelemetry::name);
    if (same == before.gpus.end() || !same->joules || !gpu.joules) continue;
    sum = sum.value_or(0) + *gpu.joules - *same->joules;
  }
  return sum;
}

}  // namespace

void InsightPane::draw() {
  const std::optional<EngineStatistics> statistics = engine_.statistics();
  if (!statistics || models_.loaded() == nullptr) {
    ui::faint("Load a model to see where memory and time go.", "hint");
    draw_machine();
    return;
  }
  if (ui::Area area("all", 0, 0); area) {
    draw_badges(*statistics);
    draw_speed(*statistics);
    draw_memory();
    draw_cache(*statistics);
    draw_latencies(*statistics);
    draw_speculation();
    draw_machine();
    operations_.draw();
  }
}

void InsightPane::add(const SystemSample& sample) {
  const std::optional<EngineStatistics> statistics = engine_.statistics();
  const int64_t tokens = statistics ? statistics->generated_tokens : 0;
  joules_each_.reset();
  // Samples far apart are of another time, while this page was not shown.
  if (latest_ && sample.time - latest_->time < kLongestGap && tokens > tokens_) {
    const std::optional<double> joules = joules_between(*latest_, sample);
    if (joules && *joules > 0) joules_each_ = *joules / static_cast<double>(tokens - tokens_);
  }
  tokens_ = tokens;
  latest_ = sample;
}

/// What makes the model slower than it could be, and what to do.
void InsightPane::draw_badges(const EngineStatistics&) {
  const ui::Scope scope("badges");
  const Loaded& loaded = *models_.loaded();
  const auto badge = [](const char* name, const std::string& text) {
    ui::notice(ui::Tone::plain, "! " + text, name);
  };
  if (loaded.memory.spilled) {
    badge("spilled",
          "The weights do not fit into memory and are read from the file for every token. Close "
          "other programs, or load a smaller type of this model.");
  }
  const auto cpu = std::ranges::find(loaded.devices, std::string("cpu"), &DeviceDescription::name);
  if (cpu != loaded.devices.end() && loaded.options.threads > 0 &&
      loaded.options.threads < cpu->threads) {
    badge("threads", "Only " + std::to_string(loaded.options.threads) + " of " +
                         std::to_string(cpu->threads) +
                         " threads are used. Leave the number of threads empty under Settings.");
  }
  models_.ask_devices();
  if (const std::string best = models_.best_device(); best != "cpu" &&
                                                      loaded.options.device == "cpu" &&
                                                      !loaded.model->path.starts_with("memory:")) {
    badge("device", "The model runs on the processor, and " + best +
                        " is faster. Choose it under Models, in the plan of this model.");
  }
  if (!loaded.memory.refused.empty()) badge("refused", loaded.memory.refused.front());
  // The output counts as one more.
  const int64_t on_cpu = loaded.memory.layers + 1 - loaded.memory.gpu_layers;
  if (loaded.memory.gpu_layers > 0 && on_cpu > 0) {
    badge("layers", std::to_string(on_cpu) +
                        " layers are computed by the processor. A shorter context or a smaller "
                        "type of keys and values leaves more room on the graphics card.");
  }
  if (!latest_) return;
  if (latest_->cpu_throttled.value_or(0) > 0) {
    badge("cpu hot",
          "The processor is too hot and was slowed down. Better cooling makes it faster.");
  }
  for (const GpuTelemetry& gpu : latest_->gpus) {
    if (gpu.throttled && !gpu.throttled->empty()) {
      badge("gpu throttled", gpu.name + " is slowed down: " + *gpu.throttled + ".");
    }
  }
}

void InsightPane::line_plot(const char* name, const std::vector<std::string>& series, Unit unit,
                            double now) {
  std::vector<PlotSeries> lines;
  for (const std::string& one : series) {
    if (!metrics_.of(one).empty()) lines.push_back({one, metrics_.of(one), 0});
  }
  LinePlot plot;
  plot.series = lines;
  plot.unit = unit;
  plot.begin = now - kShown;
  plot.end = now;
  plot.longest_gap = 3 * Metrics::kInterval;
  draw_line_plot(name, plot, {ImGui::GetContentRegionAvail().x, plot_height()}, plot_style());
  ui::add_last_item("plot", name, {});
}

void InsightPane::draw_speed(const EngineStatistics& s) {
  ui::heading("Speed");
  ui::text("Answers " + figures(s.generated_tokens_per_s) + " tokens/s, prompts " +
               figures(s.prompt_tokens_per_s) + " tokens/s; " + std::to_string(s.calls_running) +
               " running, " + std::to_string(s.calls_waiting) + " waiting",
           "speed");
  line_plot("tokens/s", {"answer", "prompt"}, Unit::tokens_per_second, metrics_.last());
  ui::faint(std::to_string(s.prompt_tokens) + " tokens of prompts computed, " +
                std::to_string(s.prefix_tokens_found) + " of " + std::to_string(s.prefix_tokens) +
                " found in the cache; " + std::to_string(s.generated_tokens) + " generated",
            "totals");
}

void InsightPane::draw_memory() {
  ui::heading("Memory");
  draw_memory_bars(models_.memory(), models_.loaded()->devices, &models_.memory(), "memory");
  line_plot("memory over time", {"weights", "keys and values", "work space"}, Unit::bytes,
            metrics_.last());
}

void InsightPane::draw_cache(const EngineStatistics& s) {
  ui::heading("Cache of keys and values");
  const CachePages& pages = s.pages;
  cells_.clear();
  const auto fill = [this](int64_t count, uint8_t state) {
    cells_.insert(cells_.end(), static_cast<size_t>(std::max<int64_t>(count, 0)), state);
  };
  const Theme& t = theme();
  std::vector<PageState> states{{"free", packed(t.series[5])},
                                {"kept for the same beginning", packed(t.series[4])},
                                {"shared by conversations", packed(t.series[2])},
                                {"of other conversations", packed(t.series[7])}};
  constexpr size_t kColours[] = {0, 1, 3, 6};
  std::vector<std::string> names;
  names.reserve(std::size(kColours));
  int64_t own = 0;  // pages that one session holds alone
  int64_t others = 0;
  std::string owners;
  for (const SessionPages& session : s.session_pages) {
    own += session.held - session.shared;
    const int64_t conversation = engine_.conversation_of(session.session);
    if (conversation == 0 || names.size() == std::size(kColours)) {
      others += session.held - session.shared;
      continue;
    }
    std::string title = one_line(chat_.title_of(conversation), kLegendBytes);
    if (title.empty()) title = "a new conversation";
    names.push_back(ui::ShownText(title).string());
    states.push_back({names.back(), packed(t.series[kColours[names.size() - 1]])});
    fill(session.held - session.shared, static_cast<uint8_t>(states.size() - 1));
    owners += (owners.empty() ? "" : ", ") + title + ": " + std::to_string(session.held);
    if (session.shared > 0) owners += " (" + std::to_string(session.shared) + " shared)";
  }
  fill(others, 3);
  fill(pages.running + pages.idle - own, 2);  // each counts once
  fill(pages.kept, 1);
  fill(pages.free, 0);
  PageMap map;
  map.cells = cells_;
  map.states = states;
  const float width = ImGui::GetContentRegionAvail().x;
  const PlotTheme style = plot_style();
  draw_page_map("pages", map, {width, page_map_height(map, width, plot_height(), style)}, style);
  ui::add_last_item("map", "pages", std::to_string(pages.total));
  const int64_t page = models_.memory().page_bytes;
  ui::text(std::to_string(pages.total) + " pages of " + bytes_text(page) +
               " (64 tokens each): " + std::to_string(pages.running) + " running, " +
               std::to_string(pages.idle) + " resting, " + std::to_string(pages.kept) + " kept, " +
               std::to_string(pages.free) + " free",
           "page counts");
  if (!owners.empty()) ui::faint("Pages of conversations: " + owners, "page owners");
  if (page <= 0) return;
  // Pages of several kinds have several sizes.
  constexpr int64_t kMiB = 1 << 20;
  ui::label("Size, MiB", ImGui::GetFontSize() * 8);
  const int64_t now = std::max<int64_t>(1, models_.memory().kv / kMiB);
  int64_t wanted = resizing_ ? cache_bytes_ / kMiB : now;
  if (ui::slider("cache size", wanted, 1, std::max<int64_t>(now * 2, 64))) {
    cache_bytes_ = wanted * kMiB;
    resizing_ = true;
  }
  if (resizing_ && ImGui::IsItemDeactivated()) {
    models_.resize_cache(cache_bytes_);
    resizing_ = false;
  }
  ui::faint("The size can be changed at any time; conversations keep what they have.");
}

void InsightPane::draw_latencies(const EngineStatistics& s) {
  const auto draw = [](const char* name, const char* title, const infer::Histogram& h) {
    if (h.counts.empty() || h.counts.back() == 0) return;
    const ui::Scope scope(name);
    const auto count = static_cast<double>(h.counts.back());
    ui::text(std::string(title) + ": mean " + seconds_text(h.sum / count), "mean");
    int64_t before = 0;
    for (size_t i = 0; i < h.counts.size(); ++i) {
      const int64_t here = h.counts[i] - std::exchange(before, h.counts[i]);
      if (here == 0) continue;
      const std::string range =
          i < h.bounds.size() ? "up to " + seconds_text(h.bounds[i]) : "longer";
      ui::progress("bar " + std::to_string(i), static_cast<double>(here) / count,
                   range + ": " + std::to_string(here));
    }
  };
  if (!ui::fold("latencies", "Time to the first token and between tokens")) return;
  draw("first token", "Time to the first token", s.first_token_seconds);
  draw("next token", "Time from one token to the next", s.next_token_seconds);
}

void InsightPane::see(const EngineEvent& event) {
  if (std::holds_alternative<Loaded>(event)) speculation_ = {};
  const auto* const ended = std::get_if<AnswerEnded>(&event);
  if (ended == nullptr) return;
  const SpeculationStatistics& s = ended->result.speculation;
  speculation_.drafted += s.drafted;
  speculation_.accepted += s.accepted;
  speculation_.tokens += s.tokens;
  speculation_.seconds += s.seconds;
  speculation_.draft_seconds += s.draft_seconds;
  speculation_.plain_seconds += s.plain_seconds;
  if (speculation_.places.size() < s.places.size()) speculation_.places.resize(s.places.size());
  for (size_t i = 0; i < s.places.size(); ++i) {
    speculation_.places[i].reached += s.places[i].reached;
    speculation_.places[i].accepted += s.places[i].accepted;
  }
}

void InsightPane::draw_speculation() {
  const SpeculationStatistics& s = speculation_;
  if (s.drafted == 0) return;
  const ui::Scope scope("speculation");
  ui::heading("Speculation");
  ui::text(std::to_string(s.accepted) + " of " + std::to_string(s.drafted) +
               " proposed tokens were right (" +
               percent_text(static_cast<double>(s.accepted) / static_cast<double>(s.drafted)) + ")",
           "shares");
  if (s.seconds > 0 && s.plain_seconds > 0) {
    const double gain = s.plain_seconds / s.seconds;
    ui::text(gain >= 1 ? "It pays: answers are " + figures(gain) + " times as fast as without"
                       : "It does not pay: answers take " + figures(1 / gain) +
                             " times as long as without. Load the model without drafters.",
             "pays");
  }
  for (size_t i = 0; i < s.places.size(); ++i) {
    const SpeculationStatistics::Place& place = s.places[i];
    if (place.reached == 0) continue;
    const double share = static_cast<double>(place.accepted) / static_cast<double>(place.reached);
    ui::progress("place " + std::to_string(i + 1), share,
                 "token " + std::to_string(i + 1) + ": " + percent_text(share) + " of " +
                     std::to_string(place.reached));
  }
}

void InsightPane::draw_machine() {
  if (!latest_) return;
  const ui::Scope scope("machine");
  ui::heading("This machine");
  const SystemSample& m = *latest_;
  const auto line = [](const char* label, const std::string& value) {
    ui::label(label, ImGui::GetFontSize() * 12);
    ui::text(value, label);
  };
  if (m.machine_cpu) line("Processor", percent_text(*m.machine_cpu));
  if (m.process_resident) line("This program", bytes_text(*m.process_resident));
  if (m.memory_available && m.memory_total) {
    line("Free memory", bytes_text(*m.memory_available) + " of " + bytes_text(*m.memory_total));
  }
  if (m.cpu_celsius) line("Temperature", figures(*m.cpu_celsius) + " °C");
  if (m.cpu_mhz) line("Clock", figures(*m.cpu_mhz / 1000) + " GHz");
  if (joules_each_) line("Energy", figures(*joules_each_) + " J a token, all programs together");
  if (m.cpu_watts) {
    line("Power", figures(*m.cpu_watts) + " W");
  } else if (!m.no_energy.empty()) {
    ui::faint(m.no_energy, "no energy");
  }
  for (size_t i = 0; i < m.gpus.size(); ++i) {
    const GpuTelemetry& gpu = m.gpus[i];
    const ui::Scope one("gpu", static_cast<int64_t>(i));
    std::string text;
    const auto add = [&text](const std::string& part) {
      text += (text.empty() ? "" : ", ") + part;
    };
    if (gpu.busy) add(percent_text(*gpu.busy) + " busy");
    if (gpu.memory_used && gpu.memory_total) {
      add(bytes_text(*gpu.memory_used) + " of " + bytes_text(*gpu.memory_total));
    }
    if (gpu.celsius) add(figures(*gpu.celsius) + " °C");
    if (gpu.watts) {
      const std::string limit = gpu.watts_limit ? " of " + figures(*gpu.watts_limit) : "";
      add(figures(*gpu.watts) + limit + " W");
    }
    if (gpu.core_mhz) add(figures(*gpu.core_mhz) + " MHz");
    line(gpu.name.c_str(), text);
  }
}

}  // namespace infer::gui
