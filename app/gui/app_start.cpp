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
    restored_model_.clear();
    settings_.set(std::move(settings));
  } else if (const auto* failed = std::get_if<LoadFailed>(&event)) {
    if (restored_model_.empty() || failed->path != restored_model_) return;
    Settings settings = settings_.get();
    settings.last_model = std::exchange(restored_model_, {});
    settings_.set(std::move(settings));
    const bool cancelled = failed->status.code() == StatusCode::cancelled;
    if (!cancelled && !options_.built_in.empty()) {
      models_.load(options_.built_in, models_.options());
    }
  }
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
    models_.load(options_.model, models_.options());
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
    models_.load(waiting, models_.options());
  }
}

/// A new conversation has the chat template that was chosen for the model.
void App::set_chat_defaults() {
  ChatSettings settings = chat_settings(seen_);
  if (const Loaded* const loaded = models_.loaded(); loaded != nullptr) {
    const auto chosen = seen_.templates.find(loaded->model->path);
    if (chosen != seen_.templates.end()) settings.chat_template = chosen->second;
  }
  chat_.set_defaults(seen_.system_prompt, settings);
}

}  // namespace infer::gui
