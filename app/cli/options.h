// How commands declare their options. The parser behind it is CLI11, which is large: only
// options.cpp and command_tree.cpp see it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace infer::cli {

/// What a command does; returns the exit code, throws Failure.
using Action = std::function<int()>;

/// An option that was declared, to say more about it. Copies mean the same option.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  /// The value, or every value of a list, is a whole number from `low` to `high`.
  Option range(int64_t low, int64_t high) const;
  /// The value is a number, 0 or more.
  Option not_negative() const;
  Option one_of(std::vector<std::string> choices) const;
  Option one_of_ignoring_case(std::vector<std::string> choices) const;
  /// Several values may follow one flag, with commas between.
  Option separated_by_commas() const;
  /// Of several flags the last counts. Otherwise two are refused, but for lists.
  Option last_counts() const;
  Option required() const;
  Option excludes(Option other) const;
  /// The help shows what the variable holds now.
  Option show_default() const;

 private:
  CLI::Option* option_;
};

/// The options of one command. Copies mean the same command.
class Options {
 public:
  explicit Options(CLI::App* app) : app_(app) {}

  /// "-p,--prompt", a flag with a value; or "input", a value in its place. `value` is what the help
  /// calls the value; names with a meaning for completion: FILE, DEVICE, TYPE. `to` receives it,
  /// and lives as long as the parser. T: a string, a number, an optional of these, or a list, to
  /// which every flag adds one value.
  template <typename T>
  Option add(const char* names, const char* value, T& to, const char* description) const;
  /// A flag without a value: true where it is given.
  void flag(const char* names, bool& to, const char* description) const;

 private:
  CLI::App* app_;
};

/// Takes a command line apart.
class Parser {
 public:
  Parser(const char* name, const char* description);
  ~Parser();
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  /// Those before any command.
  Options options();
  /// A command, of which exactly one has to be given.
  Options add_command(const char* name, const char* description, Action run);
  /// The names of the commands, in the order of the help.
  std::vector<std::string> commands() const;
  /// Adds --version, which prints this.
  void set_version(const std::string& version);
  void remove_help_flag();

  /// What the command does that is named; for --help and --version what prints them. Throws Failure
  /// (usage).
  Action parse(std::vector<std::string> arguments);
  std::string help() const;

  const CLI::App& app() const { return *app_; }

 private:
  std::unique_ptr<CLI::App> app_;
  Action chosen_;
};

}  // namespace infer::cli
