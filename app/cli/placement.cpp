#include "cli/placement.h"

#include <charconv>

#include "cli/arguments.h"
#include "cli/failure.h"
#include "cli/output.h"

namespace infer::cli {
namespace {

constexpr int32_t kAllLayers = 1 << 20;

/// A number of layers; "all" and "auto" (−1) as well.
int32_t layers_of(const char* flag, const std::string& text) {
  if (text == "auto") return -1;
  if (text == "all") return kAllLayers;
  int32_t layers = -1;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, layers);
  if (parsed.ec != std::errc() || parsed.ptr != end || layers < 0) {
    usage(fmt::format("{}: expected a number of layers, all or auto, found '{}'", flag, text));
  }
  return layers;
}

}  // namespace

void declare_placement(Options options, PlacementArgs& args) {
  options.flag("-cmoe,--cpu-moe", args.cpu_moe, "The same as --n-cpu-moe all");
  options.add("-ot,--override-tensor", "PATTERN=DEVICE", args.overrides,
              "The device for the part of a layer (attention, feed-forward, experts) that has a "
              "tensor whose name contains this regular expression; several separated by commas, "
              "e.g. 'blk\\.[0-3]\\.ffn=CPU'");
}

void apply_placement(const PlacementArgs& args, LoadOptions& load) {
  if (!args.gpu_layers.empty()) load.gpu_layers = layers_of("-ngl", args.gpu_layers);
  if (!args.n_cpu_moe.empty()) load.cpu_experts = layers_of("--n-cpu-moe", args.n_cpu_moe);
  if (args.cpu_moe) load.cpu_experts = kAllLayers;
  for (const std::string& list : args.overrides) {
    for (const std::string& item : list_of("-ot", list, ',')) {
      const size_t equals = item.rfind('=');
      if (equals == std::string::npos || equals == 0 || equals + 1 == item.size()) {
        usage(fmt::format("-ot: expected PATTERN=DEVICE, found '{}'", item));
      }
      load.placements.push_back({item.substr(0, equals), item.substr(equals + 1)});
    }
  }
}

std::string fitting_options(const std::string& path, const LoadOptions& options) {
  const Result<std::vector<Alternative>> found = alternatives(path, options);
  std::string text;
  if (!found) return text;
  for (const Alternative& alternative : *found) {
    switch (alternative.kind) {
      case Alternative::Kind::cache_type: text += "; with -ctk q8_0 -ctv q8_0 it fits"; break;
      case Alternative::Kind::context: break;  // the library's message says how long
      case Alternative::Kind::gpu_layers:
        text += fmt::format(
            "; with -ngl auto it fits, with {} of {} layers and output on other "
            "devices than the CPU",
            alternative.plan.gpu_layers, alternative.plan.layers + 1);
        break;
      case Alternative::Kind::spill: text += "; with --spill it runs from the file, slowly"; break;
      case Alternative::Kind::memory:
        text += fmt::format(
            "; it fits with --memory {}M if so much is free beside what --reserve keeps",
            (alternative.options.memory_limit + (1 << 20) - 1) >> 20);
        break;
    }
  }
  return text;
}

}  // namespace infer::cli
