#include "cli/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/arguments.h"
#include "infer/infer.hpp"

namespace infer::cli {
namespace {

/// The members of CLI::IsMember, which CLI11 gives as part of the type: "TEXT:{f32,f16}".
std::vector<std::string> members(const std::string& type) {
  std::vector<std::string> found;
  const size_t open = type.find(":{");
  const size_t close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return found;
  for (size_t at = open + 2; at < close;) {
    const size_t end = std::min(type.find(',', at), close);
    found.push_back(type.substr(at, end - at));
    at = end + 1;
  }
  return found;
}

ValueHint value_hint(const std::string& type) {
  using Kind = ValueHint::Kind;
  if (std::vector<std::string> fixed = members(type); !fixed.empty()) {
    return {Kind::choice, std::move(fixed)};
  }
  if (type == "FILE") return {Kind::file, {}};
  // What one would not restrict on the command line, but can list.
  std::vector<std::string> names;
  if (type == "DEVICE") {
    for (const DeviceDescription& device : devices()) names.push_back(device.name);
  } else if (type == "TYPE") {
    names = synth_types();
  }
  if (names.empty()) return {};
  return {Kind::choice, std::move(names)};
}

OptionHint option_hint(const CLI::Option& option) {
  OptionHint hint;
  for (const std::string& name : option.get_snames()) hint.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) {
    hint.names.push_back("--" + name);
    if (is_single_dash_name(name)) hint.names.push_back("-" + name);
  }
  hint.description = option.get_description();
  // Takes values in several places, e.g. --logit-bias.
  hint.repeatable = option.get_items_expected_max() > 1;
  if (option.get_items_expected_max() == 0) return hint;  // a flag
  const std::string type = option.get_type_name();
  hint.value = value_hint(type);
  hint.value_name = type.substr(0, type.find(':'));
  return hint;
}

CommandHint command_hint(const CLI::App& app) {
  CommandHint command{app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    OptionHint hint = option_hint(*option);
    if (option->get_positional()) {
      command.positionals.push_back(hint);
      command.positionals.back().names.clear();
    }
    if (option->nonpositional()) command.options.push_back(std::move(hint));
  }
  return command;
}

}  // namespace

std::vector<CommandHint> command_tree(const Parser& parser) {
  const CLI::App& app = parser.app();
  std::vector<CommandHint> tree{command_hint(app)};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    tree.push_back(command_hint(*command));
  }
  return tree;
}

}  // namespace infer::cli
