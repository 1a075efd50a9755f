// Manual pages, for man(1). infer man writes them.
#include <fmt/format.h>

#include <algorithm>

#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "infer/infer.hpp"

namespace infer::cli {
namespace {

/// Text as roff takes it: its own characters escaped, none of its commands at a line's begin.
std::string roff(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const bool begin = escaped.empty() || escaped.back() == '\n';
    if (begin && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

std::string page_head(const std::string& name, std::string_view what) {
  // No date: the same program gives the same page.
  return fmt::format(".TH {} 1 \"\" \"infer {}\"\n.SH NAME\n{} \\- {}\n", upper(name), version(),
                     roff(name), roff(what));
}

std::string option_entry(const OptionHint& option) {
  std::string names;
  for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + bold(name);
  if (option.names.empty()) names = italic(upper(option.place));
  if (!option.value_name.empty() && !option.names.empty()) names += " " + italic(option.value_name);
  return fmt::format(".TP\n{}\n{}\n", names, roff(described(option)));
}

std::string examples_section(const std::vector<Example>& examples) {
  std::string text = examples.empty() ? "" : ".SH EXAMPLES\n";
  for (const auto& [line, what] : examples) {
    text += fmt::format(".TP\n{}\n{}\n", bold(line), roff(what));
  }
  return text;
}

std::string exit_codes() {
  constexpr std::pair<const char*, const char*> kCodes[] = {
      {"0", "Done; also when the reader of stdout goes away."},
      {"1", "Failed while running."},
      {"2", "Wrong usage."},
      {"3", "The model or an input file is absent, broken or unsupported."},
      {"4", "Does not fit into memory."},
      {"5", "No such device, or it failed."},
      {"129, 130, 143", "Ended by SIGHUP, Ctrl-C, SIGTERM; a second one ends at once."}};
  std::string text = ".SH EXIT STATUS\n";
  for (const auto& [code, what] : kCodes) {
    text += fmt::format(".TP\n{}\n{}\n", bold(code), roff(what));
  }
  return text;
}

std::string see_also(const std::vector<CommandHint>& tree, size_t without) {
  std::string text;
  for (size_t i = 0; i < tree.size(); ++i) {
    if (i == without) continue;
    text += fmt::format("{}{} (1)", text.empty() ? ".SH SEE ALSO\n.BR " : ",\n.BR ",
                        roff(manual_name(tree[i])));
  }
  return text + "\n";
}

}  // namespace

std::string manual_name(const CommandHint& command) {
  return command.name == "infer" ? command.name : "infer-" + command.name;
}

std::string manual_page(const std::vector<CommandHint>& tree, size_t index) {
  const CommandHint& command = tree[index];
  const std::string name = manual_name(command);
  std::string page = page_head(name, command.description);
  page += ".SH SYNOPSIS\n";
  if (index == 0) {
    page += bold("infer") + " " + italic("COMMAND") + " [" + italic("OPTIONS") + "]\n";
    page += ".SH COMMANDS\n";
    for (size_t i = 1; i < tree.size(); ++i) {
      page += fmt::format(".TP\n{}\n{}\n", bold(tree[i].name), roff(tree[i].description));
    }
  } else {
    page += bold("infer " + command.name) + " " + roff(synopsis(command)) + "\n";
    std::string places;
    for (const OptionHint& option : command.positionals) {
      if (option.names.empty()) places += option_entry(option);
    }
    if (!places.empty()) page += ".SH ARGUMENTS\n" + places;
  }
  for (const std::string& heading : headings(command)) {
    std::string entries;
    for (const OptionHint& option : command.options) {
      if (option.group == heading) entries += option_entry(option);
    }
    if (!entries.empty()) page += fmt::format(".SH {}\n{}", roff(upper(heading)), entries);
  }
  return page + examples_section(command.examples) + exit_codes() + see_also(tree, index);
}

namespace {

struct ManualArgs {
  std::string command;
  std::string folder;
};

int run_manual(const Parser& parser, const ManualArgs& args) {
  const std::vector<CommandHint> tree = command_tree(parser);
  if (!args.folder.empty()) {
    for (size_t i = 0; i < tree.size(); ++i) {
      replace_file(fmt::format("{}/{}.1", args.folder, manual_name(tree[i])), manual_page(tree, i));
    }
    return kExitOk;
  }
  const auto asked = std::ranges::find(tree, args.command.empty() ? tree[0].name : args.command,
                                       &CommandHint::name);
  if (asked == tree.end()) usage(fmt::format("there is no command '{}'", args.command));
  write_out(manual_page(tree, static_cast<size_t>(asked - tree.begin())));
  return kExitOk;
}

}  // namespace

void add_manual(Parser& parser) {
  const auto args = std::make_shared<ManualArgs>();
  const Options options = parser.add_command("man", "Print a manual page, for man -l -",
                                             [&parser, args] { return run_manual(parser, *args); });
  options.add("command", "COMMAND", args->command, "Command; without it infer itself");
  options.add("--folder", "FOLDER", args->folder, "Write all pages into this folder");
  options.example("infer man run | man -l -", "read the manual of a command that is not installed");
}

}  // namespace infer::cli
