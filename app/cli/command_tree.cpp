#include "cli/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "infer/jobs.hpp"

namespace infer::cli {
namespace {

ValueHint value_hint(const CLI::Option& option, const Declared& declared) {
  using Kind = ValueHint::Kind;
  if (const auto fixed = declared.choices.find(&option); fixed != declared.choices.end()) {
    return {Kind::choice, fixed->second};
  }
  const std::string type = option.get_type_name();
  if (type == "FILE") return {Kind::file, {}};
  // What one would not restrict on the command line, but can list. Of devices the kinds: a script
  // may be installed on other machines than the one that it was made on.
  if (type == "DEVICE") return {Kind::choice, {"cpu", "vulkan"}};
  if (type == "TYPE") return {Kind::choice, synth_types()};
  return {};
}

std::vector<std::string> names_of(const CLI::Option& option, const Declared& declared) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) {
    names.push_back((declared.single_dash.contains(name) ? "-" : "--") + name);
  }
  // Short ones first.
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return !name.starts_with("--"); });
  return names;
}

OptionHint option_hint(const CLI::Option& option, const Declared& declared) {
  OptionHint hint;
  hint.names = names_of(option, declared);
  const auto replaced = declared.in_place_of.find(&option);
  if (replaced != declared.in_place_of.end()) {
    hint.in_place_of = names_of(*replaced->second, declared).back();
  }
  if (option.get_positional()) hint.place = option.get_name(true);
  hint.description = option.get_description();
  hint.group = option.get_group();
  hint.default_value = option.get_default_str();
  // Takes values in several places, e.g. --logit-bias.
  hint.repeatable = option.get_items_expected_max() > 1;
  hint.required = option.get_required();
  hint.may_be_empty = declared.may_be_empty.contains(&option);
  hint.separated_by_commas = declared.separated_by_commas.contains(&option);
  if (option.get_items_expected_max() == 0) return hint;  // a flag
  hint.value = value_hint(option, declared);
  hint.lists_choices = declared.choices.contains(&option);
  hint.value_name = option.get_type_name();
  return hint;
}

CommandHint hint_of(const CLI::App& app, const Parser& parser) {
  const Declared& declared = parser.declared();
  CommandHint command{app.get_name(), app.get_description(), {}, {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    OptionHint hint = option_hint(*option, declared);
    if (hint.value_name == "COMMAND") hint.value = {ValueHint::Kind::choice, parser.commands()};
    if (option->get_positional()) command.positionals.push_back(hint);
    if (option->nonpositional()) command.options.push_back(std::move(hint));
  }
  if (parser.has_help_flag()) {
    command.options.push_back({{"-h", "--help"}, "", "", "Print this help", kOwnGroup});
  }
  const auto examples = declared.examples.find(&app);
  if (examples != declared.examples.end()) command.examples = examples->second;
  return command;
}

}  // namespace

std::vector<CommandHint> command_tree(const Parser& parser) {
  const CLI::App& app = parser.app();
  std::vector<CommandHint> tree{hint_of(app, parser)};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    tree.push_back(hint_of(*command, parser));
  }
  return tree;
}

CommandHint command_hint(const Parser& parser, const std::string& name) {
  const CLI::App& app = parser.app();
  return hint_of(name.empty() ? app : *app.get_subcommand(name), parser);
}

}  // namespace infer::cli
