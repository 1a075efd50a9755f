#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>

#include "cli/failure.h"
#include "cli/output.h"

namespace infer::cli {

Option Option::range(int64_t low, int64_t high) const {
  option_->check(CLI::Range(low, high));
  return *this;
}

Option Option::not_negative() const {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

Option Option::one_of(std::vector<std::string> choices) const {
  option_->check(CLI::IsMember(std::move(choices)));
  return *this;
}

Option Option::one_of_ignoring_case(std::vector<std::string> choices) const {
  option_->check(CLI::IsMember(std::move(choices), CLI::ignore_case));
  return *this;
}

Option Option::separated_by_commas() const {
  option_->delimiter(',');
  return *this;
}

Option Option::last_counts() const {
  option_->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return *this;
}

Option Option::required() const {
  option_->required();
  return *this;
}

Option Option::excludes(Option other) const {
  option_->excludes(other.option_);
  return *this;
}

Option Option::show_default() const {
  option_->capture_default_str();
  return *this;
}

template <typename T>
Option Options::add(const char* names, const char* value, T& to, const char* description) const {
  CLI::Option* option = app_->add_option(names, to, description)->type_name(value);
  // Otherwise a list would take all words that follow.
  if (option->get_items_expected_max() > 1) option->allow_extra_args(false);
  return Option(option);
}

template Option Options::add(const char*, const char*, std::string&, const char*) const;
template Option Options::add(const char*, const char*, int32_t&, const char*) const;
template Option Options::add(const char*, const char*, int64_t&, const char*) const;
template Option Options::add(const char*, const char*, uint64_t&, const char*) const;
template Option Options::add(const char*, const char*, float&, const char*) const;
template Option Options::add(const char*, const char*, std::optional<std::string>&,
                             const char*) const;
template Option Options::add(const char*, const char*, std::optional<int32_t>&, const char*) const;
template Option Options::add(const char*, const char*, std::optional<float>&, const char*) const;
template Option Options::add(const char*, const char*, std::vector<std::string>&,
                             const char*) const;
template Option Options::add(const char*, const char*, std::vector<int32_t>&, const char*) const;

void Options::flag(const char* names, bool& to, const char* description) const {
  app_->add_flag(names, to, description);
}

Parser::Parser(const char* name, const char* description)
    : app_(std::make_unique<CLI::App>(description, name)) {
  app_->get_formatter()->column_width(36);
}

Parser::~Parser() = default;

Options Parser::options() { return Options(app_.get()); }

Options Parser::add_command(const char* name, const char* description, Action run) {
  app_->require_subcommand(1);
  CLI::App* command = app_->add_subcommand(name, description);
  command->callback([this, run = std::move(run)] { chosen_ = run; });
  return Options(command);
}

std::vector<std::string> Parser::commands() const {
  std::vector<std::string> names;
  for (const CLI::App* command : app_->get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

void Parser::set_version(const std::string& version) {
  app_->set_version_flag("--version", version);
}

void Parser::remove_help_flag() { app_->set_help_flag(); }

Action Parser::parse(std::vector<std::string> arguments) {
  std::ranges::reverse(arguments);  // as CLI11 wants them
  try {
    app_->parse(arguments);
  } catch (const CLI::Success& asked) {  // --help, --version
    std::ostringstream text;
    app_->exit(asked, text, text);
    std::string shown = text.str();
    while (shown.ends_with('\n')) shown.pop_back();
    return [shown] {
      print_line(shown);
      return kExitOk;
    };
  } catch (const CLI::ParseError& e) {
    usage(e.what());
  }
  return chosen_;
}

std::string Parser::help() const { return app_->help(); }

}  // namespace infer::cli
