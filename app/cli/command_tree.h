// The commands and options as the parser knows them, in the form that the help, the manual,
// completion scripts and the reading of words need.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"

namespace infer::cli {

/// What may stand in an argument's place.
struct ValueHint {
  enum class Kind { anything, file, choice };
  Kind kind = Kind::anything;
  std::vector<std::string> choices;
};

struct OptionHint {
  std::vector<std::string> names;  ///< as typed: "-m", "--model", "-ub"; none: a positional alone
  std::string place;               ///< "model": also, or only, a word without a flag; else empty
  std::string in_place_of;  ///< a name of the option that is not expected where this is given
  std::string description;
  std::string group;          ///< the heading of the help
  std::string value_name;     ///< "FILE"; empty for a flag
  std::string default_value;  ///< empty: none is shown
  bool repeatable = false;
  bool required = false;
  bool may_be_empty = false;
  bool separated_by_commas = false;
  bool lists_choices = false;  ///< the help lists value.choices
  ValueHint value;
};

struct CommandHint {
  std::string name;
  std::string description;
  std::vector<OptionHint> options;
  std::vector<OptionHint> positionals;  ///< in their order; with names: a flag can say it as well
  std::vector<Example> examples;
};

/// The headings of the help for options that are of no group.
inline constexpr const char* kOwnGroup = "Options";

/// The program itself (its name and options), then every command.
std::vector<CommandHint> command_tree(const Parser& parser);
/// One command, which exists; empty: the program itself.
CommandHint command_hint(const Parser& parser, const std::string& name);

}  // namespace infer::cli
