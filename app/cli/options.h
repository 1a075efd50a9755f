// How commands declare their options. The parser behind it is CLI11, which is large: only
// options.cpp and command_tree.cpp see it.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace infer::cli {

/// What a command does; returns the exit code, throws Failure.
using Action = std::function<int()>;

/// A command line and what it does.
using Example = std::pair<std::string, std::string>;

/// "--temp" of "--temp,--temperature": the name in messages.
std::string_view first_name(std::string_view names);

/// An option of a command line.
struct TypedOption {
  std::vector<std::string> names;  ///< all that the option has
  std::string typed;               ///< the one that was given
  std::string value;
};

/// What CLI11 does not keep: of declarations, and of the line that was read.
struct Declared {
  std::set<std::string> single_dash;  ///< names of several letters after one dash: "ngl"
  std::set<const CLI::Option*> may_be_empty;
  std::set<const CLI::Option*> separated_by_commas;
  std::map<const CLI::Option*, std::vector<std::string>> choices;
  std::map<const CLI::App*, std::vector<Example>> examples;
  std::map<const CLI::Option*, const CLI::Option*> in_place_of;
  std::map<const CLI::App*, std::vector<std::function<void()>>> before_running;
  std::vector<TypedOption> typed;
};

/// A declared option, with functions that add to its declaration. Copies refer to the same option.
class Option {
 public:
  Option(CLI::Option* option, Declared* declared) : option_(option), declared_(declared) {}

  /// The value, or every value of a list, is a whole number from `low` to `high`.
  Option range(int64_t low, int64_t high) const;
  /// The value is a number from `low` to `high`, whole or not.
  Option real_range(double low, double high) const;
  /// Bounds with a fraction would lose it here.
  template <std::floating_point Low, typename High>
  Option range(Low low, High high) const = delete;
  /// The value is a number, 0 or more.
  Option not_negative() const;
  /// Allows an empty value, which is refused otherwise.
  Option may_be_empty() const;
  Option one_of(std::vector<std::string> choices) const;
  /// Sets the values that the help lists and completion offers. Other values are allowed too.
  Option suggests(std::vector<std::string> choices) const;
  /// Several values may follow one flag, separated by commas.
  Option separated_by_commas() const;
  /// Replaces each value by change(value), which may throw Failure.
  Option replaced_by(std::string (*change)(const std::string& value)) const;
  Option required() const;
  Option excludes(Option other) const;
  /// If this option is given, a word without a flag is never a value of the other option.
  Option in_place_of(Option other) const;
  /// The help shows the present value of the variable as the default.
  Option show_default() const;

 private:
  CLI::Option* option_;
  Declared* declared_;
};

/// The options of one command. Copies refer to the same command.
class Options {
 public:
  Options(CLI::App* app, Declared* declared) : app_(app), declared_(declared) {}

  /// The same command; options declared with the result are under this heading of the help. The
  /// text must be a constant.
  Options group(const char* heading) const;

  /// "-p,--prompt", a flag with a value; "input", a value in its place; or "model,-m,--model",
  /// either. A name of several letters may stand after one dash ("-ngl"); it is then known after
  /// two as well. `value` is what the help calls the value; names with a meaning for completion:
  /// FILE, DEVICE, TYPE, COMMAND. `to` receives it, and lives as long as the parser. T: a string, a
  /// number, an optional of these, or a list, to which every flag adds one value. Of several flags
  /// for one value the last counts.
  template <typename T>
  Option add(const char* names, const char* value, T& to, const char* description) const;
  /// A flag without a value. It sets `to` to true. A name written "!--no-flag" sets it to false.
  void flag(const char* names, bool& to, const char* description) const;
  /// Calls `prepare` after the command line was read and before the command runs. It may throw
  /// Failure.
  void before_running(std::function<void()> prepare) const;
  /// A message about an option of the line that was read, with the name that was given. Messages of
  /// a Failure (usage) that leaves the command are changed so in any case.
  std::string as_typed(const std::string& message) const;
  /// Adds an example to the end of the help and of the manual page.
  void example(const char* line, const char* what) const;

 private:
  CLI::App* app_;
  Declared* declared_;
  const char* group_ = nullptr;
};

/// Takes a command line apart.
class Parser {
 public:
  Parser(const char* name, const char* description);
  ~Parser();
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  /// The options of a line without a command.
  Options options();
  Options add_command(const char* name, const char* description, Action run);
  /// The names of the commands, in the order of the help.
  std::vector<std::string> commands() const;

  void remove_help_flag();

  /// Parses the words. Returns the action of the command that the first word names, or one that
  /// prints its help. A parser without commands only sets its options. Throws Failure (usage).
  Action parse(const std::vector<std::string>& words);
  /// The options of a parser without commands.
  std::string help() const;

  const CLI::App& app() const { return *app_; }
  const Declared& declared() const { return declared_; }
  bool has_help_flag() const { return has_help_flag_; }

 private:
  std::unique_ptr<CLI::App> app_;
  Declared declared_;
  bool has_help_flag_ = true;
  Action chosen_;
};

}  // namespace infer::cli
