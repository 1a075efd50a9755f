// infer gui: the window.
#include "gui/gui.h"

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "demo/demo_model.h"

namespace infer::cli {
namespace {

struct GuiArgs {
  std::string model;
  double scale = 0;
  bool own_window = false;
};

void declare(Options options, GuiArgs& args) {
  options.add("-m,--model", "FILE", args.model,
              "A model to open; without it the built-in model. More can be opened in the window");
  options
      .add("--scale", "X", args.scale,
           "Pixels for each unit of length, e.g. 2; default: as the monitor says")
      .range(0.5, 8);
  options.flag("--own-window", args.own_window,
               "Open a window even if another one is open; otherwise that one opens the model");
  options.example("infer gui", "chat with the built-in model");
  options.example("infer gui -m model.gguf", "open a model");
}

int run(GuiArgs& args) {
  gui::GuiOptions options;
  if (!args.model.empty()) options.models.push_back(args.model);
  options.built_in = demo::model_path();
  options.scale = static_cast<float>(args.scale);
  options.own_window = args.own_window;
  must(gui::run_gui(options));
  return kExitOk;
}

}  // namespace

void add_gui(Parser& parser) {
  add_command(parser, "gui", "Chat and look at models in a window", declare, run);
}

}  // namespace infer::cli
