#include "cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>

#include "cli/command_tree.h"
#include "cli/failure.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/words.h"

namespace infer::cli {
namespace {

/// What an option's variable holds: T of std::optional<T> and std::vector<T>.
template <typename T>
struct Held {
  using Type = T;
  static constexpr bool is_list = false;
};
template <typename T>
struct Held<std::optional<T>> : Held<T> {};
template <typename T>
struct Held<std::vector<T>> : Held<T> {
  static constexpr bool is_list = true;
};

std::string_view without_plus(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

/// Decimal digits alone: the parser would read 010 as 8 and 0x10 as 16.
template <typename T>
std::string check_number(std::string& text) {
  const std::string_view digits = without_plus(text);
  T value = 0;
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value);
  if (parsed.ec == std::errc::result_out_of_range && parsed.ptr == end) {
    return fmt::format("expected a number that fits, found '{}'", text);
  }
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return fmt::format("expected a {}number, found '{}'",
                       std::numeric_limits<T>::is_integer ? "whole " : "", text);
  }
  text = std::numeric_limits<T>::is_integer ? fmt::to_string(value) : std::string(digits);
  return {};
}

/// A whole text that is a number.
std::optional<double> real_number(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// "-ngl,--gpu-layers" as the parser takes it, which knows one letter after a dash: "--ngl,…".
std::string names_for_parser(std::string_view names, std::set<std::string>& single_dash) {
  std::string known;
  while (!names.empty()) {
    const size_t end = std::min(names.find(','), names.size());
    const std::string_view name = names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
    const bool negated = name.starts_with('!');
    const std::string_view plain = name.substr(negated ? 1 : 0);
    const bool single = plain.size() > 2 && plain[0] == '-' && plain[1] != '-';
    if (single) single_dash.emplace(plain.substr(1));
    known += fmt::format("{}{}{}{}", known.empty() ? "" : ",", negated ? "!" : "",
                         single ? "-" : "", plain);
  }
  return known;
}

/// "--ngl" in a message of the parser as "-ngl".
std::string with_typed_names(std::string message, const std::set<std::string>& single_dash) {
  for (const std::string& name : single_dash) {
    const std::string known = "--" + name;
    const size_t at = message.find(known);
    const size_t end = at + known.size();
    if (at != std::string::npos &&
        (end == message.size() || message[end] == ':' || message[end] == ' ')) {
      message.erase(at, 1);
    }
  }
  return message;
}

}  // namespace

std::string_view first_name(std::string_view names) { return names.substr(0, names.find(',')); }

Option Option::range(int64_t low, int64_t high) const {
  option_->check([low, high](const std::string& text) {
    int64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec == std::errc() && value >= low && value <= high) return std::string();
    return high >= std::numeric_limits<int32_t>::max()
               ? fmt::format("expected {} or more, found {}", low, text)
               : fmt::format("expected {} to {}, found {}", low, high, text);
  });
  return *this;
}

Option Option::real_range(double low, double high) const {
  option_->check([low, high](const std::string& text) {
    const std::optional<double> value = real_number(text);
    return value && *value >= low && *value <= high
               ? std::string()
               : fmt::format("expected {} to {}, found {}", low, high, text);
  });
  return *this;
}

Option Option::not_negative() const {
  option_->check([](const std::string& text) {
    const std::optional<double> value = real_number(text);
    return value && *value >= 0 && *value <= std::numeric_limits<double>::max()
               ? std::string()
               : fmt::format("expected 0 or more, found {}", text);
  });
  return *this;
}

Option Option::may_be_empty() const {
  declared_->may_be_empty.insert(option_);
  return *this;
}

Option Option::one_of(std::vector<std::string> choices) const {
  option_->check([choices](const std::string& text) {
    return std::ranges::count(choices, text) > 0
               ? std::string()
               : fmt::format("expected {}, found '{}'", joined(choices), text);
  });
  declared_->choices[option_] = std::move(choices);
  return *this;
}

Option Option::suggests(std::vector<std::string> choices) const {
  declared_->choices[option_] = std::move(choices);
  return *this;
}

Option Option::separated_by_commas() const {
  option_->delimiter(',');
  declared_->separated_by_commas.insert(option_);
  return *this;
}

Option Option::replaced_by(std::string (*change)(const std::string&)) const {
  const auto replace = [change](std::string& value) {
    value = change(value);
    return std::string();
  };
  option_->transform(CLI::Validator(replace, ""));
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

Option Option::in_place_of(Option other) const {
  declared_->in_place_of[option_] = other.option_;
  return *this;
}

Option Option::show_default() const {
  option_->capture_default_str();
  return *this;
}

Options Options::group(const char* heading) const {
  Options same = *this;
  same.group_ = heading;
  return same;
}

template <typename T>
Option Options::add(const char* names, const char* value, T& to, const char* description) const {
  using Value = typename Held<T>::Type;
  CLI::Option* option =
      app_->add_option(names_for_parser(names, declared_->single_dash), to, description)
          ->type_name(value);
  if (group_ != nullptr) option->group(group_);
  if constexpr (Held<T>::is_list) {
    option->allow_extra_args(false);  // otherwise a list would take all words that follow
  } else {
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  if constexpr (!std::is_same_v<Value, std::string>) {
    option->transform(CLI::Validator(check_number<Value>, ""));
  }
  return {option, declared_};
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
  CLI::Option* option =
      app_->add_flag(names_for_parser(names, declared_->single_dash), to, description);
  if (group_ != nullptr) option->group(group_);
}

void Options::before_running(std::function<void()> prepare) const {
  declared_->before_running[app_].push_back(std::move(prepare));
}

std::string Options::as_typed(const std::string& message) const {
  return cli::as_typed(declared_->typed, message);
}

void Options::example(const char* line, const char* what) const {
  declared_->examples[app_].emplace_back(line, what);
}

Parser::Parser(const char* name, const char* description)
    : app_(std::make_unique<CLI::App>(description, name)) {
  app_->set_help_flag();  // help.h prints it
}

Parser::~Parser() = default;

Options Parser::options() { return {app_.get(), &declared_}; }

Options Parser::add_command(const char* name, const char* description, Action run) {
  app_->require_subcommand(1);
  CLI::App* command = app_->add_subcommand(name, description);
  command->set_help_flag();
  command->callback([this, command, run = std::move(run)] {
    chosen_ = [prepare = declared_.before_running[command], run] {
      for (const auto& step : prepare) step();
      return run();
    };
  });
  return {command, &declared_};
}

std::vector<std::string> Parser::commands() const {
  std::vector<std::string> names;
  for (const CLI::App* command : app_->get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

void Parser::remove_help_flag() { has_help_flag_ = false; }

Action Parser::parse(const std::vector<std::string>& words) {
  const bool has_commands = !commands().empty();
  const CommandHint command = command_hint(*this, has_commands ? words.front() : std::string());
  const size_t first = has_commands ? 1 : 0;
  const CanonicalWords given =
      canonical_words(command, std::span(words).subspan(std::min(first, words.size())));
  declared_.typed = given.options;
  if (given.help) {
    return [command] {
      say_line(help_text(command));
      return kExitOk;
    };
  }
  std::vector<std::string> reversed(given.words.rbegin(), given.words.rend());  // as CLI11 has them
  if (has_commands) reversed.push_back(words.front());
  try {
    app_->parse(reversed);
  } catch (const CLI::ParseError& e) {
    usage(as_typed(declared_.typed, with_typed_names(e.what(), declared_.single_dash)));
  }
  // What is found later is told by the same names.
  return [this, action = chosen_] {
    try {
      return action();
    } catch (const Failure& failure) {
      if (failure.exit_code() != kExitUsage) throw;
      usage(as_typed(declared_.typed, failure.what()));
    }
  };
}

std::string Parser::help() const { return help_text(command_hint(*this, "")); }

}  // namespace infer::cli
