#include "gui/gui.h"

#include <atomic>
#include <filesystem>
#include <memory>
#include <utility>

#include "gui/app.h"
#include "gui/host/settings_store.h"
#include "gui/host/single_instance.h"
#include "gui/window.h"

namespace infer::gui {

Status run_gui(const GuiOptions& options) {
  std::atomic<Window*> shown = nullptr;
  const auto wake = [&shown] {
    if (Window* const window = shown; window != nullptr) window->wake();
  };
  std::unique_ptr<SingleInstance> instance;
  if (!options.own_window) {
    Result<std::unique_ptr<SingleInstance>> opened =
        SingleInstance::open(instance_folder(), {options.models}, wake);
    if (opened && !(*opened)->first()) return {};
    if (opened) instance = *std::move(opened);  // otherwise a window of its own will do
  }
  const Result<std::string> store = conversations::default_path();
  if (!store) return store.error();
  const std::filesystem::path settings = settings_path();
  const Settings before = read_settings(settings);
  const WindowOptions wanted{.width = before.width,
                             .height = before.height,
                             .maximised = before.maximised,
                             .scale = options.scale};
  Result<std::unique_ptr<Window>> window = Window::open(wanted);
  if (!window) return window.error();
  shown = window->get();
  AppOptions app_options;
  if (!options.models.empty()) app_options.model = options.models.front();
  app_options.built_in = options.built_in;
  app_options.store = *store;
  app_options.settings = settings.string();
  {
    App app(**window, std::move(app_options));
    const auto open = [&](const OpenRequest& request) {
      (*window)->raise();
      if (!request.paths.empty()) app.drop(request.paths);
    };
    while ((*window)->turn(app, Window::kForever)) {
      if (instance != nullptr) instance->poll(open);
    }
  }
  // No other thread may wake a window that is gone.
  instance.reset();
  shown = nullptr;
  return {};
}

}  // namespace infer::gui
