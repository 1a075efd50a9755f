// Images that commands take.
#include "cli/arguments.h"
#include "cli/failure.h"
#include "cli/hub_options.h"
#include "cli/output.h"

namespace infer::cli {

void declare_images(Options options, std::vector<std::string>& files) {
  options.add("--image", "FILE", files,
              "An image for the prompt, as PNG, JPEG or WebP. May be given several times. Read by "
              "--mmproj, or by what lies with the model");
}

void choose_vision(ModelArgs& model, const std::vector<std::string>& images) {
  if (images.empty() || !model.load.vision.empty()) return;
  model.load.vision = find_vision(model.path);
  // It may have been downloaded before the hub had what reads images, or by a program that left it.
  if (model.load.vision.empty() && !model.hub.model.empty() && !model.hub.offline) {
    model.path = pull_model(wanted_of(model.hub), model.hub.token, model.quiet).path;
    model.load.vision = find_vision(model.path);
  }
  if (model.load.vision.empty()) {
    throw Failure(
        kExitBadFile,
        fmt::format("--image: nothing reads images for {}: expected --mmproj FILE, or one "
                    "file mmproj*.gguf beside it",
                    printable(model.path)));
  }
  if (!model.quiet && model.load.vision != model.path) {
    note("images are read by {}", printable(model.load.vision));
  }
}

std::vector<ModelImage> read_images(Engine& engine, const std::vector<std::string>& files) {
  std::vector<ModelImage> images;
  for (const std::string& file : files) {
    const std::string bytes = read_input(file);
    images.push_back(must(engine.read_image(std::as_bytes(std::span(bytes)), file)));
  }
  return images;
}

}  // namespace infer::cli
