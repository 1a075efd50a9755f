// How the window begins, and what it keeps for the next start.
#include <filesystem>
#include <system_error>
#include <utility>

#include "gui/app.h"

namespace infer::gui {

/// Without one in the command line the one that was used last is loaded again.
void App::choose_model() {
  const std::string last = seen_.last_model;
  if (!options_.model.empty()) return;
  options_.model = options_.built_in;
  if (last.empty()) return;
  std::error_code unknown;
  if (!std::filesystem::exists(last, unknown)) {
    return toasts_.fail(last + " is not there any more: the built-in model is used.");
  }
  options_.model = restored_model_ = last;
  // If loading it ends the program, the next start is without it.
  seen_.last_model.clear();
  settings_.set(seen_);
}

/// The model that the next start loads.
void App::see_model(const EngineEvent& event) {
  if (const auto* loaded = std::get_if<Loaded>(&event)) {
    if (loaded->model->path.starts_with("memory:")) return;
    Settings settings = settings_.get();
    add_recent(settings, loaded->model->path);
    settings.last_model = loaded->model->path;
    const LoadOptions& options = loaded->options;
    choose_for(settings.visions, loaded->model->path, options.vision,
               find_vision(loaded->model->path));
    choose_for(settings.drafts, loaded->model->path, options.draft_model);
    restored_model_.clear();
    settings_.set(std::move(settings));
  } else if (const auto* failed = std::get_if<LoadFailed>(&event)) {
    if (models_.loading_path() == failed->path) return;  // it is tried in another way
    const bool restored = !restored_model_.empty() && failed->path == restored_model_;
    if (restored) {
      Settings settings = settings_.get();
      settings.last_model = std::exchange(restored_model_, {});
      settings_.set(std::move(settings));
    }
    if (failed->status.code() == StatusCode::cancelled || options_.built_in.empty()) return;
    const bool built_in = failed->path == options_.built_in;
    if (!restored && (!built_in || std::exchange(built_in_failed_, true))) return;
    toasts_.tell("The built-in model takes its place. Settings has how models are loaded.");
    // As it always can be: what failed may be due to the settings.
    LoadOptions usual;
    usual.device = "cpu";
    models_.load(options_.built_in, usual);
  }
}

/// What was chosen when the model was loaded last, if it is still there, else what lies beside it.
Companions App::companions_of(const std::string& path) const {
  Companions with;
  std::error_code unknown;
  const auto draft = seen_.drafts.find(path);
  if (draft != seen_.drafts.end() && std::filesystem::exists(draft->second, unknown)) {
    with.draft = draft->second;
  }
  const auto vision = seen_.visions.find(path);
  const bool chosen = vision != seen_.visions.end() &&
                      (vision->second.empty() || std::filesystem::exists(vision->second, unknown));
  with.vision = chosen ? vision->second : find_vision(path);
  with.is_found = !chosen && !with.vision.empty();
  return with;
}

void App::remember_conversation() {
  const Id current = chat_.current();
  if (current == seen_conversation_ || !chat_.unsaved().empty()) return;
  seen_conversation_ = current;
  Settings settings = settings_.get();
  settings.last_conversation = current;
  settings_.set(std::move(settings));
}

void App::remember_window() {
  Settings settings = settings_.get();
  settings.maximised = window_.is_maximised();
  if (!settings.maximised) window_.size(settings.width, settings.height);
  if (!restored_model_.empty()) settings.last_model = restored_model_;
  settings_.set(std::move(settings));
}

/// The best device has to be known first, but not for a model that runs anywhere.
void App::start_model() {
  if (!seen_.device.empty() || options_.model == options_.built_in) {
    models_.load_usual(options_.model);
    return;
  }
  waiting_model_ = options_.model;
  models_.ask_devices();
}

/// With the first answer: what is chosen later stays.
void App::choose_device() {
  if (std::exchange(device_chosen_, true)) return;
  if (seen_.device.empty() && models_.best_device() != models_.options().device) {
    models_.options().device = models_.best_device();
    models_.plan_again();
  }
  const std::string waiting = std::exchange(waiting_model_, {});
  // The user may have loaded another one meanwhile.
  if (!waiting.empty() && models_.phase() == ModelState::Phase::none) {
    models_.load_usual(waiting);
  }
}

}  // namespace infer::gui
