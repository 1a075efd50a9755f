// The commands and options as the parser knows them, in the form that completion scripts need.
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
  std::vector<std::string> names;  ///< as typed: "-m", "--model", "-ub"; none: a positional
  std::string description;
  std::string value_name;  ///< "FILE"; empty for a flag
  bool repeatable = false;
  ValueHint value;
};

struct CommandHint {
  std::string name;
  std::string description;
  std::vector<OptionHint> options;
  std::vector<OptionHint> positionals;  ///< in their order
};

/// The program itself (its name and options), then every command.
std::vector<CommandHint> command_tree(const Parser& parser);

}  // namespace infer::cli
