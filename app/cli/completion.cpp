// infer completion: a script for a shell that completes commands, options and their values. All of
// it is made from the parser's own tree, so that a new option needs nothing here.
#include <fmt/ranges.h>

#include "cli/cli.h"
#include "cli/command_tree.h"
#include "cli/failure.h"
#include "cli/output_file.h"

namespace infer::cli {
namespace {

using Kind = ValueHint::Kind;
using Tree = std::vector<CommandHint>;

/// A word of a shell: in single quotes, those within it written '\''.
std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::to_string(fmt::join(words, " "));
}

std::string command_names(const Tree& tree) {
  std::string names;
  for (size_t i = 1; i < tree.size(); ++i) names += (i > 1 ? " " : "") + tree[i].name;
  return names;
}

std::string option_names(const CommandHint& command, bool with_value_only) {
  std::string names;
  for (const OptionHint& option : command.options) {
    if (with_value_only && option.value_name.empty()) continue;
    for (const std::string& name : option.names) names += (names.empty() ? "" : " ") + name;
  }
  return names;
}

std::string bash_reply(const ValueHint& value) {
  switch (value.kind) {
    case Kind::file: return "_infer_files";
    case Kind::choice: return fmt::format("_infer_words {}", shell_word(joined(value.choices)));
    case Kind::anything: break;
  }
  return ":";
}

std::string bash_script(const Tree& tree) {
  std::string commands;
  std::string values;
  std::string positionals;
  for (size_t i = 1; i < tree.size(); ++i) {
    const CommandHint& command = tree[i];
    commands += fmt::format("    {})\n      options={}\n      valued={} ;;\n", command.name,
                            shell_word(option_names(command, false)),
                            shell_word(" " + option_names(command, true) + " "));
    for (const OptionHint& option : command.options) {
      if (option.value_name.empty()) continue;
      std::string patterns;
      for (const std::string& name : option.names) {
        patterns += fmt::format("{}\"{} {}\"", patterns.empty() ? "" : "|", command.name, name);
      }
      values += fmt::format("    {}) {}; return ;;\n", patterns, bash_reply(option.value));
    }
    for (size_t p = 0; p < command.positionals.size(); ++p) {
      positionals += fmt::format("    \"{} {}\") {} ;;\n", command.name, p,
                                 bash_reply(command.positionals[p].value));
    }
  }
  // Names of files come a line each; they may hold spaces and stars.
  constexpr std::string_view kScript =
      R"(# bash completion of infer, made by 'infer completion bash'.
_infer_words() {{
  COMPREPLY=($(compgen -W "$1" -- "$cur"))
}}
_infer_files() {{
  local name
  compopt -o filenames 2>/dev/null
  while IFS= read -r name; do
    COMPREPLY+=("$name")
  done < <(compgen -f -- "$cur")
}}
_infer() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}"
  local command="${{COMP_WORDS[1]}}" options='' valued='' position=0 i word
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _infer_words {first}
    return
  fi
  case "$command" in
{commands}  esac
  case "$command $prev" in
{values}  esac
  if [[ $cur == -* ]]; then
    _infer_words "$options"
    return
  fi
  for ((i = 2; i < COMP_CWORD; i++)); do
    word="${{COMP_WORDS[i]}}"
    if [[ $valued == *" $word "* ]]; then
      ((i++))
    elif [[ $word != -* ]]; then
      ((position++))
    fi
  done
  case "$command $position" in
{positionals}    *) _infer_words "$options" ;;
  esac
}}
complete -F _infer infer
)";
  return fmt::format(
      fmt::runtime(kScript),
      fmt::arg("first", shell_word(command_names(tree) + " " + option_names(tree[0], false))),
      fmt::arg("commands", commands), fmt::arg("values", values),
      fmt::arg("positionals", positionals));
}

/// Text within _arguments' specifications: brackets, colons and backslashes are theirs.
std::string zsh_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string zsh_value(const OptionHint& option) {
  std::string value = ":" + zsh_text(option.value_name) + ":";
  if (option.value.kind == Kind::file) value += "_files";
  if (option.value.kind == Kind::choice) {
    value += fmt::format("({})", fmt::join(option.value.choices, " "));
  }
  return value;
}

std::string zsh_script(const Tree& tree) {
  std::string descriptions;
  std::string cases;
  for (size_t i = 1; i < tree.size(); ++i) {
    const CommandHint& command = tree[i];
    descriptions += fmt::format(
        "    {}\n", shell_word(zsh_text(command.name) + ":" + zsh_text(command.description)));
    cases += fmt::format("    {})\n      _arguments", command.name);
    for (const OptionHint& option : command.options) {
      for (const std::string& name : option.names) {
        // One specification a name; all names of an option exclude each other unless repeatable.
        std::string spec =
            option.repeatable ? "*" : fmt::format("({})", fmt::join(option.names, " "));
        spec += fmt::format("{}[{}]", name, zsh_text(option.description));
        if (!option.value_name.empty()) spec += zsh_value(option);
        cases += " \\\n        " + shell_word(spec);
      }
    }
    for (size_t p = 0; p < command.positionals.size(); ++p) {
      const OptionHint& positional = command.positionals[p];
      cases += " \\\n        " + shell_word(fmt::format("{}{}", p + 1, zsh_value(positional)));
    }
    cases += " ;;\n";
  }
  return fmt::format(
      "#compdef infer\n# zsh completion of infer, made by 'infer completion zsh'.\n"
      "_infer() {{\n  local -a commands=(\n{}  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    if [[ $words[2] == -* ]]; then\n      compadd -- {}\n    else\n"
      "      _describe command commands\n    fi\n    return\n  fi\n"
      "  local command=$words[2]\n  shift words\n  ((CURRENT--))\n"
      "  case $command in\n{}  esac\n}}\n"
      "if [[ $funcstack[1] == _infer ]]; then\n  _infer \"$@\"\nelse\n  compdef _infer infer\nfi\n",
      descriptions, option_names(tree[0], false), cases);
}

/// Within single quotes fish reads \\ and \' alone.
std::string fish_quoted(std::string_view text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') word += '\\';
    word += c;
  }
  return word + "'";
}

std::string fish_value(const ValueHint& value) {
  switch (value.kind) {
    case Kind::file: return " -r -F";
    case Kind::choice: return fmt::format(" -x -a {}", fish_quoted(joined(value.choices)));
    case Kind::anything: break;
  }
  return " -x";
}

std::string fish_options(const CommandHint& command, const std::string& start) {
  std::string script;
  for (const OptionHint& option : command.options) {
    script += start;
    for (const std::string& name : option.names) {
      const bool is_long = name.starts_with("--");
      const char* flag = is_long ? "-l" : name.size() == 2 ? "-s" : "-o";
      script += fmt::format(" {} {}", flag, name.substr(is_long ? 2 : 1));
    }
    if (!option.value_name.empty()) script += fish_value(option.value);
    script += fmt::format(" -d {}\n", fish_quoted(option.description));
  }
  return script;
}

std::string fish_script(const Tree& tree) {
  const std::string first = "complete -c infer -n __fish_use_subcommand";
  std::string script =
      "# fish completion of infer, made by 'infer completion fish'.\n"
      "complete -c infer -f\n";
  script += fish_options(tree[0], first);
  for (size_t i = 1; i < tree.size(); ++i) {
    const CommandHint& command = tree[i];
    script +=
        fmt::format("{} -a {} -d {}\n", first, command.name, fish_quoted(command.description));
    const std::string start =
        fmt::format("complete -c infer -n '__fish_seen_subcommand_from {}'", command.name);
    script += fish_options(command, start);
    for (const OptionHint& positional : command.positionals) {
      if (positional.value.kind == Kind::file) script += start + " -F\n";
      if (positional.value.kind == Kind::choice) {
        script += start + " -a " + fish_quoted(joined(positional.value.choices)) + "\n";
      }
    }
  }
  return script;
}

struct CompletionArgs {
  std::string shell;
  std::string output = "-";
};

int run_completion(const Parser& parser, const CompletionArgs& args) {
  const Tree tree = command_tree(parser);
  replace_file(args.output, args.shell == "bash"  ? bash_script(tree)
                            : args.shell == "zsh" ? zsh_script(tree)
                                                  : fish_script(tree));
  return kExitOk;
}

}  // namespace

void add_completion(Parser& parser) {
  const auto args = std::make_shared<CompletionArgs>();
  const Options options =
      parser.add_command("completion", "Print a script that completes in a shell",
                         [&parser, args] { return run_completion(parser, *args); });
  options.add("shell", "SHELL", args->shell, "Shell that will read the script")
      .required()
      .one_of({"bash", "zsh", "fish"});
  options.add("-o,--output", "FILE", args->output, "Where to write it; '-': stdout").show_default();
  options.example("source <(infer completion bash)", "complete in this shell");
}

}  // namespace infer::cli
