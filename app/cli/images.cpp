// Images that commands take.
#include "cli/arguments.h"
#include "cli/failure.h"

namespace infer::cli {

void declare_images(Options options, std::vector<std::string>& files) {
  options.add("--image", "FILE", files,
              "An image for the prompt, as PNG, JPEG or WebP; with --mmproj. May be given several "
              "times");
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
