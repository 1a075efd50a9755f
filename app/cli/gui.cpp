// infer gui: the window.
#include "gui/gui.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "demo/demo_model.h"

namespace infer::cli {
namespace {

struct GuiArgs {
  std::vector<std::string> models;
  float scale = 0;
  bool own_window = false;
};

void declare_gui(Options options, GuiArgs& args) {
  options
      .add("model,-m,--model", "FILE", args.models,
           "Model to open; without it the one that was used last, or the built-in one. More can be "
           "opened in the window")
      .replaced_by(model_path_of);
  options
      .add("--scale", "X", args.scale,
           "Pixels for each unit of length, e.g. 2; default: as the monitor says")
      .real_range(0.5, 8);
  options.flag("--own-window", args.own_window,
               "Open a window even if another one is open; otherwise that one opens the model");
  options.example("infer gui", "chat with the built-in model");
  options.example("infer gui model.gguf", "open a model");
}

int run_gui(GuiArgs& args) {
  gui::GuiOptions options;
  options.built_in = demo::model_path();
  options.scale = args.scale;
  options.own_window = args.own_window;
  if (args.models.empty()) {
    if (std::string bundled = bundled_model(); !bundled.empty()) args.models = {std::move(bundled)};
  }
  for (const std::string& model : args.models) {
    if (model.starts_with("memory:")) {  // in a bundle, which only this process has open
      options.models.push_back(model);
      options.own_window = true;
    } else {  // a window that is open already has another working directory
      options.models.push_back(std::filesystem::absolute(model).string());
    }
  }
  // What is missing is a display or a library, and no fault of a file.
  if (const Status shown = gui::run_gui(options); !shown.ok()) {
    throw Failure(kExitRuntime, shown.message());
  }
  return kExitOk;
}

}  // namespace

void add_gui(Parser& parser) {
  add_command(parser, "gui", "Chat and look at models in a window", declare_gui, run_gui);
}

}  // namespace infer::cli
