// infer list: the models that other programs have downloaded. And models given by such a name.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "bundle/bundle.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "hub/hub_files.h"
#include "hub/local_models.h"

namespace infer::cli {
namespace {

/// So many are named where a name is one of several.
constexpr size_t kNamed = 8;

struct ListArgs {
  std::string name;
  bool json = false;
};

void declare_list(Options options, ListArgs& args) {
  options.add("name", "NAME", args.name, "Only models with this in their names");
  options.flag("--json", args.json, "Print JSON");
  options.example("infer list", "the models of other programs on this machine");
  options.example("infer run -m llama3.2:1b -p Once", "use one of them, by a part of its name");
}

int run_list(ListArgs& args) {
  const std::vector<hub::LocalModel> models = hub::find_models(args.name);
  if (args.json) {
    Json json = Json::array();
    for (const hub::LocalModel& model : models) {
      json.push_back({{"name", model.name},
                      {"path", model.path},
                      {"source", model.source},
                      {"bytes", model.bytes}});
    }
    print_json(json);
    return kExitOk;
  }
  if (models.empty()) {
    note(
        "no model{} in the folders of LM Studio, llama.cpp, Hugging Face and ollama; set "
        "INFER_MODELS to search other folders",
        args.name.empty() ? "" : " of that name");
  }
  size_t width = 0;
  for (const hub::LocalModel& model : models) width = std::max(width, model.name.size());
  for (const hub::LocalModel& model : models) {
    say("{:<{}}  {:>11}  {}", model.name, std::min<size_t>(width, 80), human_bytes(model.bytes),
        model.source);
  }
  check_out();
  return kExitOk;
}

}  // namespace

std::string model_path_of(const std::string& given) {
  if (given.empty()) return given;
  if (const std::optional<bundle::Bundle> found = must(bundle::find(given))) {
    return must_read(bundle::model_path(*found));
  }
  std::error_code failed;
  const bool absent = !std::filesystem::exists(given, failed) && !failed;
  if (!absent || given.starts_with('/') || given.starts_with('.') || given.ends_with(".gguf")) {
    return given;
  }
  const std::vector<hub::LocalModel> found = hub::find_models(given);
  if (found.size() == 1) return found[0].path;
  if (found.empty()) {
    if (given.find('/') == std::string::npos || !hub::parse_model_name(given)) {
      return given;  // what opens it says that it is not there
    }
    throw Failure(kExitBadFile,
                  fmt::format("{}: no such file or directory, and no model of that name on this "
                              "machine; '-hf {}' takes it from Hugging Face",
                              given, given));
  }
  std::string names;
  for (size_t i = 0; i < std::min(found.size(), kNamed); ++i) {
    names += (i == 0 ? "" : ", ") + found[i].name;
  }
  throw Failure(kExitUsage,
                fmt::format("'{}' matches {} models: {}{}; give a longer part of the name", given,
                            found.size(), names, found.size() > kNamed ? ", …" : ""));
}

void add_list(Parser& parser) {
  add_command(parser, "list", "List the models of other programs on this machine", declare_list,
              run_list);
}

}  // namespace infer::cli
