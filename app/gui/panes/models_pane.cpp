#include "gui/panes/models_pane.h"

#include <imgui/imgui.h>

#include <algorithm>

#include "gui/format.h"
#include "gui/text/sanitise.h"
#include "gui/theme.h"
#include "gui/ui/ui.h"

namespace infer::gui {
namespace {

/// The width that a plan needs, in font heights.
constexpr float kLeastPlan = 16;
// Of what files and their names say.
constexpr size_t kReasonBytes = 500;

std::string facts_text(const FileFacts& facts) {
  if (facts.architecture.empty()) return one_line(facts.status.message(), kReasonBytes);
  std::string text = one_line(facts.architecture, kFactBytes);
  if (!facts.file_type.empty()) text += ", " + one_line(facts.file_type, kFactBytes);
  if (facts.parameters > 0) text += ", " + count_text(facts.parameters) + " parameters";
  if (facts.context > 0) text += ", context " + std::to_string(facts.context);
  if (!facts.status.ok()) text += ". " + one_line(facts.status.message(), kReasonBytes);
  return text;
}

}  // namespace

void ModelsPane::choose(const std::string& path) {
  library_.describe(path);
  models_.plan(path);
}

void ModelsPane::draw() {
  const float width = ImGui::GetContentRegionAvail().x;
  float left = std::max(width * 0.42f, std::min(width, ImGui::GetFontSize() * 22));
  // In a narrow window the plan of what is chosen takes the place of the list.
  const bool narrow = width - left < ImGui::GetFontSize() * kLeastPlan;
  if (narrow && !models_.planned_path().empty()) return plan_.draw();
  if (narrow) left = width;
  if (ui::Area area("left", left, 0); area) {
    draw_filters();
    if (browsing_) {
      if (const std::string chosen = browser_.draw(); !chosen.empty()) choose(chosen);
    } else {
      draw_list();
    }
  }
  if (narrow) return;
  ImGui::SameLine();
  if (ui::Area area("right", 0, 0); area) plan_.draw();
}

void ModelsPane::draw_filters() {
  size_t where = browsing_ ? 1 : 0;
  if (ui::segments("where", where, {"Found here", "Browse folders"})) browsing_ = where == 1;
  if (browsing_) return;
  ui::input("filter", filter_.text, {.hint = "Filter by name, type or folder", .focus = focus_});
  focus_ = false;
  std::vector<std::string> architectures = library_.architectures();
  architectures.insert(architectures.begin(), "All architectures");
  architecture_ = std::min(architecture_, architectures.size() - 1);
  std::vector<std::string> labels;
  for (const std::string& name : architectures) labels.push_back(one_line(name, kFactBytes));
  ImGui::PushItemWidth(ImGui::GetFontSize() * 12);
  ui::checkbox("favourites", "Favourites only", filter_.favourites);
  ImGui::SameLine();
  if (ui::choice("architecture", architecture_, labels)) {
    filter_.architecture = architecture_ == 0 ? "" : architectures[architecture_];
  }
  ImGui::PopItemWidth();
}

void ModelsPane::draw_list() {
  if (ui::Area area("list", 0, 0, true); area) {
    if (filter_.text.empty() && !filter_.favourites) {
      draw_recent();
      draw_built_in();
    }
    const std::vector<LibraryModel> models = library_.models(filter_);
    if (library_.scanning()) ui::faint("Looking for models …", "scanning");
    if (models.empty() && !library_.scanning()) {
      ui::faint(
          "No models were found. Drop a GGUF file on the window, browse the folders, or add a "
          "folder below.",
          "none");
    }
    const float height = ImGui::GetTextLineHeight() * 2 + ImGui::GetStyle().FramePadding.y * 3;
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(models.size()), height + ImGui::GetStyle().ItemSpacing.y);
    while (clipper.Step()) {
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
        draw_model(models[static_cast<size_t>(i)]);
      }
    }
    draw_folders();
  }
}

void ModelsPane::draw_model(const LibraryModel& model) {
  const ui::Scope scope(model.file.path);
  const ImVec2 padding = ImGui::GetStyle().FramePadding;
  const float height = ImGui::GetTextLineHeight() * 2 + padding.y * 3;
  const bool loaded =
      models_.loaded() != nullptr && models_.loaded()->model->path == model.file.path;
  const float start = ImGui::GetCursorPosX();
  const std::string name = one_line(model.file.name, kNameBytes);
  if (ui::row("choose", name, models_.planned_path() == model.file.path, height)) {
    choose(model.file.path);
  }
  const ImVec2 least = ImGui::GetItemRectMin();
  const ImVec2 most = ImGui::GetItemRectMax();
  const float star = ImGui::GetFontSize() * 2;
  const bool on_star = ImGui::GetIO().MousePos.x >= most.x - star;
  if (ImGui::IsItemHovered() && ImGui::IsMouseDoubleClicked(0) && !on_star) {
    choose(model.file.path);
    models_.load_planned();
  }
  if (model.facts == nullptr) library_.describe(model.file.path);
  ImDrawList& draw = *ImGui::GetWindowDrawList();
  const std::string size = bytes_text(model.file.bytes);
  const float size_width = ImGui::CalcTextSize(size.c_str()).x;
  const auto line = [&](float y, float right, unsigned colour, const std::string& text) {
    ui::line_at(least.x + padding.x, y, right, colour, text);
  };
  const float upper = least.y + padding.y;
  const float lower = upper + ImGui::GetTextLineHeight() + padding.y;
  const float right = most.x - star - size_width - padding.x;
  line(upper, right, packed(loaded ? theme().accent : theme().text), name);
  draw.AddText({right, upper}, packed(theme().faint), size.c_str());
  const std::string facts = model.facts == nullptr ? "…" : facts_text(*model.facts);
  const bool unusable = model.facts != nullptr && !model.facts->status.ok();
  line(lower, most.x - star, packed(unusable ? theme().danger : theme().faint), facts);
  ui::add_rectangle("text", "facts", facts, least.x, lower, most.x - star, most.y);
  ImGui::SameLine(start + (most.x - least.x) - star);
  if (ui::action("favourite", model.favourite ? "★" : "☆", "Favourite")) {
    Settings settings = settings_.get();
    toggle_favourite(settings, model.file.path);
    library_.set_favourites(settings.favourites);
    settings_.set(std::move(settings));
  }
}

void ModelsPane::draw_recent() {
  const std::vector<std::string>& recent = settings_.get().recent;
  if (recent.empty() || !ui::fold("recent", "Recent", true)) return;
  const ui::Scope scope("recent list");
  for (size_t i = 0; i < std::min<size_t>(recent.size(), 5); ++i) {
    const ui::Scope one("recent", static_cast<int64_t>(i));
    if (ui::row("choose", short_name(recent[i]), models_.planned_path() == recent[i])) {
      choose(recent[i]);
    }
    ui::tooltip(recent[i]);
  }
}

void ModelsPane::draw_built_in() {
  if (built_in_.empty()) return;
  const bool chosen = models_.planned_path() == built_in_;
  if (ui::row("built in", "The built-in model", chosen)) models_.plan(built_in_);
}

void ModelsPane::draw_folders() {
  if (!ui::fold("folders", "Folders that are searched")) return;
  const ui::Scope scope("folder list");
  Settings settings = settings_.get();
  bool changed = false;
  for (size_t i = 0; i < settings.folders.size(); ++i) {
    const ui::Scope one("folder", static_cast<int64_t>(i));
    if (ui::action("remove", "×", "Do not search this folder")) {
      settings.folders.erase(settings.folders.begin() + static_cast<std::ptrdiff_t>(i));
      changed = true;
      break;
    }
    ImGui::SameLine();
    ui::text(one_line(settings.folders[i], kNameBytes), "path");
  }
  const bool entered = ui::input_path(
      "new", new_folder_,
      {.hint = "Path of a folder", .width = -ImGui::GetFontSize() * 4, .enter_ends = true});
  ImGui::SameLine();
  if ((ui::button("add", "Add") || entered) && !new_folder_.empty()) {
    settings.folders.push_back(new_folder_);
    new_folder_.clear();
    changed = true;
  }
  for (const hub::SkippedPath& skipped : library_.skipped()) {
    ui::faint(one_line(skipped.path + ": " + skipped.reason, kReasonBytes));
  }
  if (!changed) return;
  library_.scan(settings.folders);
  settings_.set(std::move(settings));
}

}  // namespace infer::gui
