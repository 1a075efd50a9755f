#include "gui/panes/tools_pane.h"

#include <imgui/imgui.h>

#include <algorithm>

#include "gui/format.h"
#include "gui/ui/ui.h"

namespace infer::gui {
namespace {

void line(const char* label, const std::string& value, const char* name) {
  ui::label(label, ImGui::GetFontSize() * 14);
  ui::text(value, name);
}

void draw(const BenchReport& report) {
  line("Device", report.device, "device");
  line("Memory, read", figures(report.read_bandwidth_gb_s) + " GB/s", "bandwidth");
  line("8-bit products", figures(report.int8_mac_g_s) + " · 10⁹ a second", "products");
  if (report.prompt_mac_g_s > 0) {
    line("16-bit products", figures(report.prompt_mac_g_s) + " · 10⁹ a second", "matrices");
  }
  if (!report.energy_unknown.empty()) ui::faint(report.energy_unknown, "energy");
  constexpr ImGuiTableFlags kFlags = ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerH;
  if (!ImGui::BeginTable("results", 5, kFlags)) return;
  for (const char* head : {"what", "tokens/s", "spread", "of the ceiling", "J a token"}) {
    ImGui::TableSetupColumn(head);
  }
  ImGui::TableHeadersRow();
  for (size_t i = 0; i < report.results.size(); ++i) {
    const BenchResult& result = report.results[i];
    const ui::Scope scope("result", static_cast<int64_t>(i));
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ui::text((result.prefill ? "prompt of " : "answer of ") + std::to_string(result.tokens) +
                 " tokens" +
                 (result.batch > 1 ? ", " + std::to_string(result.batch) + " at once" : ""),
             "what");
    ImGui::TableNextColumn();
    ui::text(figures(result.tokens_per_s), "rate");
    ImGui::TableNextColumn();
    ui::text(percent_text(result.spread));
    ImGui::TableNextColumn();
    const char* bound = result.bound == BenchBound::bandwidth    ? " of the memory's"
                        : result.bound == BenchBound::arithmetic ? " of the arithmetic"
                                                                 : "";
    ui::text(percent_text(result.fraction) + bound, "fraction");
    ImGui::TableNextColumn();
    const double rate = result.tokens_per_s;
    ui::text(result.watts > 0 && rate > 0 ? figures(result.watts / rate) : "unknown", "joules");
  }
  ImGui::EndTable();
}

void draw(const SelftestReport& report) {
  ui::notice(report.failed == 0 ? ui::Tone::primary : ui::Tone::danger,
             std::to_string(report.passed) + " cases passed, " + std::to_string(report.failed) +
                 " failed, " + std::to_string(report.unsupported) + " are not supported here",
             "result");
  for (const std::string& failure : report.failures) ui::wrapped(failure, "failure");
}

void draw(const QuantizeReport& report) {
  line("Weights", bytes_text(report.source_bytes) + " → " + bytes_text(report.bytes), "bytes");
  line("Bits for each weight", figures(report.bits_per_weight), "bits");
}

void draw(const ConvertReport& report) {
  line("Architecture", report.architecture, "architecture");
  line("Weights", std::to_string(report.tensors) + " tensors, " + bytes_text(report.bytes),
       "bytes");
}

void draw(const ImportanceReport& report) {
  line("Text", std::to_string(report.tokens) + " tokens", "tokens");
  line("Weights measured", std::to_string(report.weights), "weights");
}

void draw(const std::monostate&) {}

}  // namespace

void ToolsPane::draw() {
  ui::segments("tool", tool_, {"Benchmark", "Selftest", "Quantise", "Convert", "Importance"});
  ImGui::Dummy({0, ImGui::GetFontSize() / 2});
  if (ui::Area area("form", 0, 0); area) {
    switch (tool_) {
      case kBench: draw_bench(); break;
      case kSelftest: draw_selftest(); break;
      case kQuantize: draw_quantize(); break;
      case kConvert: draw_convert(); break;
      default: draw_importance();
    }
    draw_running();
    draw_report();
  }
}

void ToolsPane::draw_file(const char* name, const char* label, std::string& path,
                          const char* hint) {
  ui::label(label, ImGui::GetFontSize() * 10);
  ui::input_path(name, path, {.hint = hint});
}

bool ToolsPane::draw_start(const char* label, bool ready, const std::string& output) {
  guard_.draw(output);
  const ui::Disabled disabled(!ready || jobs_.is_running());
  const bool asks = guard_.asks(output);
  return ui::button("start", asks ? "Replace it" : label, ui::Tone::primary) &&
         (output.empty() || guard_.may_write(output));
}

void ToolsPane::draw_bench() {
  ui::faint(
      "Measures how fast a model reads a prompt and writes an answer, and which part of what "
      "this machine could do that is.");
  if (input_.empty() && models_.loaded() != nullptr) input_ = models_.loaded()->model->path;
  draw_file("model", "Model", input_, "path of a model");
  bool set = true;
  ui::label("Prompt, tokens");
  ui::input_number("prompt", prompt_, set, "256", true);
  ui::label("Answer, tokens");
  ui::input_number("tokens", tokens_, set, "32", true);
  ui::label("Repeats");
  ui::input_number("repeats", repeats_, set, "3", true);
  if (!draw_start("Measure", !input_.empty())) return;
  BenchJob job;
  job.models = {input_};
  if (models_.loaded() != nullptr) job.options.load = models_.loaded()->options;
  job.options.load.context = 0;
  job.options.prompt_tokens = {static_cast<int32_t>(std::clamp(prompt_, 1.0, 1e6))};
  job.options.generate_tokens = {static_cast<int32_t>(std::clamp(tokens_, 1.0, 1e6))};
  job.options.repeats = static_cast<int32_t>(std::clamp(repeats_, 1.0, 1000.0));
  jobs_.start("Measuring " + short_name(input_), std::move(job));
}

void ToolsPane::draw_selftest() {
  ui::faint("Compares every operation of the device in use with a plain reference.");
  if (!draw_start("Test this machine", true)) return;
  SelftestJob job;
  if (models_.loaded() != nullptr) job.options.device = models_.loaded()->options.device;
  jobs_.start("Testing", std::move(job));
}

void ToolsPane::draw_quantize() {
  ui::faint("Writes a model with weights of fewer bits: smaller and faster, a little less exact.");
  draw_file("model", "Model", input_, "path of a model with 16 or 32 bits");
  ui::label("Type", ImGui::GetFontSize() * 10);
  static const std::vector<std::string> types = quantize_types();
  ui::choice("type", type_, types);
  draw_file("importance", "Importance", importance_, "file of an importance matrix, or nothing");
  draw_file("output", "New file", output_, "path of the new file");
  ui::checkbox("requantize", "Also weights that are quantised already (adds errors)", requantize_);
  if (!draw_start("Quantise", !input_.empty() && !output_.empty(), output_)) return;
  QuantizeJob job{input_, output_, {}};
  job.options.type = types[type_];
  job.options.importance = importance_;
  job.options.allow_requantize = requantize_;
  jobs_.start("Quantising " + short_name(input_) + " to " + types[type_], std::move(job));
}

void ToolsPane::draw_convert() {
  ui::faint("Writes a model folder of Hugging Face as one GGUF file.");
  draw_file("model", "Folder", input_, "path of a folder with config.json");
  ui::label("Type", ImGui::GetFontSize() * 10);
  static const std::vector<std::string> types{"auto", "f32", "f16", "bf16"};
  ui::choice("type", convert_type_, types);
  draw_file("output", "New file", output_, "path of the new file");
  if (!draw_start("Convert", !input_.empty() && !output_.empty(), output_)) return;
  ConvertJob job{input_, output_, {}};
  job.options.type = types[convert_type_];
  jobs_.start("Converting " + short_name(input_), std::move(job));
}

void ToolsPane::draw_importance() {
  ui::faint("Measures with a text which weights matter most, for quantising to few bits.");
  draw_file("model", "Model", input_, "path of a model");
  draw_file("text", "Text", text_, "path of a text file");
  draw_file("output", "New file", output_, "path of the new file");
  if (!draw_start("Measure", !input_.empty() && !text_.empty() && !output_.empty(), output_))
    return;
  jobs_.start("Measuring " + short_name(input_), ImportanceJob{input_, text_, output_, {}});
}

void ToolsPane::draw_running() {
  if (!jobs_.is_running()) return;
  const ui::Scope scope("running");
  ui::heading(jobs_.title(), "title");
  ui::progress("progress", jobs_.progress(), percent_text(jobs_.progress()));
  if (ui::button("cancel", "Cancel", ui::Tone::danger)) jobs_.cancel();
}

void ToolsPane::draw_report() {
  const JobEnded* const last = jobs_.last();
  if (last == nullptr) return;
  const ui::Scope scope("report");
  ui::heading(jobs_.title() + (last->status.ok() ? ": done in " + seconds_text(last->seconds) : ""),
              "title");
  if (!last->status.ok()) ui::notice(ui::Tone::danger, last->status.message(), "failure");
  std::visit([](const auto& report) { gui::draw(report); }, last->report);
}

}  // namespace infer::gui
