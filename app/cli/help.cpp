#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cli/arguments.h"
#include "platform/folders.h"

namespace infer::cli {
namespace {

constexpr size_t kNamesWidth = 26;

size_t columns() {
  const std::string set = platform::variable("COLUMNS");
  size_t width = 0;
  (void)std::from_chars(set.data(), set.data() + set.size(), width);
  return width == 0 ? 80 : std::clamp<size_t>(width, 50, 200);
}

/// Of UTF-8: characters, each of which takes one column here.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// The text in lines that fit, all but the first indented.
std::string wrapped(std::string_view text, size_t indent) {
  const size_t width = columns() - 1;
  std::string lines;
  size_t column = indent;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool first = column == indent;
    if (!first && column + 1 + width_of(word) > width) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += width_of(word);
  }
  return lines;
}

/// Names in their column, what they mean beside or below.
std::string entry(const std::string& names, const std::string& what) {
  std::string line = "  " + names;
  if (width_of(line) + 2 > kNamesWidth) {
    line = "  " + wrapped(names, 6) + "\n" + std::string(kNamesWidth, ' ');
  } else {
    line.append(kNamesWidth - width_of(line), ' ');
  }
  return line + wrapped(what, kNamesWidth) + "\n";
}

std::string names_of(const OptionHint& option) {
  std::string names;
  for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + name;
  return names + (option.value_name.empty() ? "" : " " + option.value_name);
}

std::string examples_text(const std::vector<Example>& examples) {
  std::string text;
  if (!examples.empty()) text += "\nExamples:\n";
  for (const auto& [line, what] : examples) {
    text += fmt::format("  # {}\n  {}\n", what, wrapped(line, 6));
  }
  return text;
}

}  // namespace

std::string upper(std::string_view text) {
  std::string shown(text);
  std::ranges::transform(shown, shown.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - ('a' - 'A')) : c;
  });
  return shown;
}

std::string synopsis(const CommandHint& command) {
  std::string line = command.options.empty() ? "" : "[OPTIONS]";
  for (const OptionHint& option : command.positionals) {
    const std::string name = upper(option.place);
    line += (line.empty() ? "" : " ") + (option.required ? name : "[" + name + "]") +
            (option.repeatable ? "..." : "");
  }
  return line;
}

std::vector<std::string> headings(const CommandHint& command) {
  std::vector<std::string> found{
      kOwnGroup,         kModelGroup,  kTemplateGroup, kSamplingGroup, kConstraintGroup,
      kSpeculationGroup, kMemoryGroup, kServerGroup,   kAccessGroup,   kOutputGroup};
  std::erase_if(found, [&](const std::string& heading) {
    return std::ranges::count(command.options, heading, &OptionHint::group) == 0;
  });
  return found;
}

std::string described(const OptionHint& option) {
  std::string text = option.description;
  const auto told = [&](const std::string& choice) {
    return (option.description + option.value_name).find(choice) != std::string::npos;
  };
  if (option.lists_choices && !std::ranges::all_of(option.value.choices, told)) {
    text += ": ";
    for (const std::string& choice : option.value.choices) {
      text += (text.ends_with(": ") ? "" : ", ") + choice;
    }
  }
  std::string value = option.default_value;
  std::erase_if(value, [](char c) { return c == '[' || c == ']'; });  // around a list
  if (!value.empty()) text += fmt::format(" (default: {})", value);
  // Where neither the description nor the value's name says so.
  const bool says_so = told("several") || told("repeatable") || told("…");
  if (option.repeatable && !says_so) text += " (may be given several times)";
  return text;
}

std::string help_text(const CommandHint& command) {
  std::string text;
  if (!command.description.empty()) text += wrapped(command.description, 0) + "\n\n";
  text += wrapped(fmt::format("Usage: infer {} {}", command.name, synopsis(command)), 7) + "\n";
  std::string places;
  for (const OptionHint& option : command.positionals) {
    if (option.names.empty()) places += entry(upper(option.place), described(option));
  }
  if (!places.empty()) text += "\nArguments:\n" + places;
  for (const std::string& heading : headings(command)) {
    std::string entries;
    for (const OptionHint& option : command.options) {
      if (option.group == heading) entries += entry(names_of(option), described(option));
    }
    if (!entries.empty()) text.append("\n").append(heading).append(":\n").append(entries);
  }
  text += examples_text(command.examples);
  text.pop_back();
  return text;
}

std::string program_help(const std::vector<CommandHint>& tree) {
  std::string text = wrapped(tree[0].description, 0) + "\n\nUsage: infer COMMAND [OPTIONS]\n";
  text += "\nCommands:\n";
  for (size_t i = 1; i < tree.size(); ++i) {
    text += fmt::format("  {:<14}", tree[i].name) + wrapped(tree[i].description, 16) + "\n";
  }
  text += "\nOptions:\n";
  for (const OptionHint& option : tree[0].options) {
    text += fmt::format("  {:<14}", names_of(option)) + wrapped(described(option), 16) + "\n";
  }
  text += examples_text(tree[0].examples);
  return text + "\n'infer help COMMAND' shows the options of a command.";
}

}  // namespace infer::cli
