// The help that commands print, and the manual pages, made from the parser's own tree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command_tree.h"

namespace infer::cli {

/// In lines of as many columns as COLUMNS says, otherwise 80, without the last line feed.
std::string help_text(const CommandHint& command);
/// The program's own: its commands.
std::string program_help(const std::vector<CommandHint>& tree);

/// A page for man(1), in roff. `index`: of the tree; 0 is the program's own.
std::string manual_page(const std::vector<CommandHint>& tree, size_t index);
/// "infer", "infer-run": what the page is called.
std::string manual_name(const CommandHint& command);

/// What stands in an argument's place is shown in capitals.
std::string upper(std::string_view text);
/// "[--flag]… [MODEL] [PROMPT]": what follows the command's name.
std::string synopsis(const CommandHint& command);
/// The options' headings in the order of the help; positionals without flags have none.
std::vector<std::string> headings(const CommandHint& command);
/// What the help says of an option: with the values it takes and the one it has otherwise.
std::string described(const OptionHint& option);

}  // namespace infer::cli
