#include "gui/panes/folder_browser.h"

#include <imgui/imgui.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "gui/format.h"
#include "gui/text/sanitise.h"
#include "gui/theme.h"
#include "gui/ui/ui.h"
#include "platform/folders.h"

namespace infer::gui {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostEntries = 10'000;

}  // namespace

FolderBrowser::FolderBrowser(WakeFn wake) : read_(std::move(wake)) {}
FolderBrowser::~FolderBrowser() { task_.end(); }

FolderBrowser::Listing FolderBrowser::read(const std::string& folder) {
  Listing listing;
  listing.folder = folder;
  std::error_code failed;
  fs::directory_iterator at(folder, fs::directory_options::skip_permission_denied, failed);
  if (failed) {
    listing.failure = folder + ": " + failed.message();
    return listing;
  }
  for (; at != fs::directory_iterator(); at.increment(failed)) {
    Entry entry;
    entry.name = at->path().filename().string();
    if (entry.name.starts_with('.')) continue;
    std::error_code ignored;
    entry.is_folder = at->is_directory(ignored);
    if (entry.is_folder) {
      entry.is_model = fs::is_regular_file(at->path() / "config.json", ignored);
    } else {
      entry.is_model = entry.name.ends_with(".gguf") && at->is_regular_file(ignored);
      if (!entry.is_model) continue;
      entry.bytes = static_cast<int64_t>(at->file_size(ignored));
    }
    if (listing.entries.size() == kMostEntries) {
      listing.cut = true;
      break;
    }
    listing.entries.push_back(std::move(entry));
  }
  std::ranges::sort(listing.entries, [](const Entry& a, const Entry& b) {
    return a.is_folder != b.is_folder ? a.is_folder : a.name < b.name;
  });
  return listing;
}

void FolderBrowser::open(const std::string& folder) {
  wanted_ = folder;
  typed_ = folder;
  task_.submit([this, folder] { read_.push(read(folder)); });
}

void FolderBrowser::poll() {
  for (Listing& listing : read_.take()) {
    if (listing.folder == wanted_) shown_ = std::move(listing);
  }
}

std::string FolderBrowser::draw() {
  const ui::Scope scope("browser");
  if (!opened_) {
    opened_ = true;
    open(platform::home_folder().string());
  }
  std::string chosen;
  if (ui::button("up", "↑")) open(fs::path(wanted_).parent_path().string());
  ui::tooltip("The folder above");
  ImGui::SameLine();
  if (ui::input_path("path", typed_, {.hint = "Path of a folder or a model", .enter_ends = true})) {
    if (typed_.ends_with(".gguf")) {
      chosen = typed_;
    } else {
      open(typed_);
    }
  }
  if (!shown_.failure.empty()) ui::notice(ui::Tone::danger, shown_.failure, "failure");
  std::string enter;
  if (ui::Area area("entries", 0, 0, true); area) {
    if (shown_.entries.empty() && shown_.failure.empty()) {
      ui::faint("No models and no folders are here.", "empty");
    }
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(shown_.entries.size()));
    while (clipper.Step()) {
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
        const Entry& entry = shown_.entries[static_cast<size_t>(i)];
        const ui::Scope one(entry.name);
        const std::string path = (fs::path(shown_.folder) / entry.name).string();
        std::string label = (entry.is_folder ? "▸ " : "") + one_line(entry.name, kNameBytes);
        if (entry.is_model) label += entry.is_folder ? "   model" : "   " + bytes_text(entry.bytes);
        if (!ui::row("open", label, false)) continue;
        (entry.is_model ? chosen : enter) = path;
      }
    }
    if (shown_.cut) ui::faint("There are more entries than are shown.");
  }
  if (!enter.empty()) open(enter);
  return chosen;
}

}  // namespace infer::gui
