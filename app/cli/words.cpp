#include "cli/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "cli/arguments.h"
#include "cli/failure.h"
#include "cli/habits.h"
#include "cli/help.h"
#include "cli/output.h"

namespace infer::cli {
namespace {

/// Levenshtein 1966.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// The option of this name; "--ngl" is another spelling of "-ngl".
const OptionHint* find_option(const CommandHint& command, const std::string& name) {
  const auto has = [&](const std::string& wanted) {
    return std::ranges::find_if(command.options, [&](const OptionHint& option) {
      return std::ranges::count(option.names, wanted) > 0;
    });
  };
  auto found = has(name);
  if (found == command.options.end() && name.starts_with("--") && name.size() > 3) {
    found = has(name.substr(1));
  }
  return found == command.options.end() ? nullptr : &*found;
}

/// A name as the parser knows it: one letter after a dash, more after two.
std::string parser_name(const std::string& name) {
  const bool single = name.size() > 2 && name[1] != '-';
  return single ? "-" + name : name;
}

/// A word that begins with a dash: its name, and the value if that is part of the word.
struct Flag {
  std::string name;
  std::optional<std::string> value;
};

Flag take_apart(const CommandHint& command, const std::string& word) {
  const size_t equals = word.find('=');
  Flag flag{word.substr(0, equals), std::nullopt};
  if (equals != std::string::npos) flag.value = word.substr(equals + 1);
  if (word.starts_with("--") || find_option(command, flag.name) != nullptr) return flag;
  // "-n5" and "-t-1", but not "-no-cnv": what follows is no letter.
  const std::string letter = word.substr(0, 2);
  const size_t sign = word.size() > 3 && word[2] == '-' ? 3 : 2;
  if (word.size() > 2 && !is_letter(word[sign]) && word[sign] != '-' &&
      find_option(command, letter) != nullptr) {
    return {letter, word.substr(2)};
  }
  return flag;
}

/// Reads the words of one line.
class Reader {
 public:
  Reader(const CommandHint& command, std::span<const std::string> words)
      : command_(command), words_(words) {}

  CanonicalWords read() {
    while (at_ < words_.size() && !given_.help) {
      const std::string& word = words_[at_++];
      if (only_plain_ || word.size() < 2 || word[0] != '-') {
        plain_.push_back(word);
      } else if (word == "--") {
        only_plain_ = true;
      } else {
        take_flag(word);
      }
    }
    if (!given_.help) place_plain_words();
    return std::move(given_);
  }

 private:
  void take_flag(const std::string& word) {
    Flag flag = take_apart(command_, word);
    const OptionHint* option = find_option(command_, flag.name);
    if (option == nullptr) {
      if (take_habit(command_.name, flag.name, flag.value, words_, at_)) return;
      std::vector<std::string> names;
      for (const OptionHint& known : command_.options) {
        names.insert(names.end(), known.names.begin(), known.names.end());
      }
      usage(fmt::format("unknown option '{}'{}", flag.name, did_you_mean(flag.name, names)));
    }
    const std::string& name = option->names.back();
    if (name == "--help") {
      given_.help = true;
      return;
    }
    if (option->value_name.empty()) {
      if (flag.value) usage(fmt::format("{} takes no value", flag.name));
      given_.options.push_back({option->names, flag.name, ""});
      // The name that was given: another one of a flag may deny it.
      const bool as_typed = std::ranges::count(option->names, flag.name) > 0;
      given_.words.push_back(parser_name(as_typed ? flag.name : flag.name.substr(1)));
      return;
    }
    if (!flag.value) {
      if (at_ == words_.size()) {
        usage(fmt::format("{}: expected a value, {}", flag.name, option->value_name));
      }
      flag.value = words_[at_++];
    }
    add(*option, flag.name, *flag.value);
  }

  void add(const OptionHint& option, const std::string& shown, const std::string& value) {
    if (value.empty() && !option.may_be_empty) {
      usage(fmt::format("{}: the value is empty; leave {} out, or give a value", shown,
                        shown.starts_with('-') ? "the flag" : "it"));
    }
    if (option.separated_by_commas) (void)list_of(shown, value, ',');  // it refuses empty parts
    given_.options.push_back({option.names, shown, value});
    const std::string& other = option.in_place_of;
    if (!other.empty() && std::ranges::count(by_flag_, other) == 0) {
      // With a value, if an empty one, the parser expects no word there either.
      by_flag_.push_back(other);
      given_.words.insert(given_.words.end(), {parser_name(other), ""});
    }
    by_flag_.push_back(option.names.back());
    given_.words.push_back(parser_name(option.names.back()));
    given_.words.push_back(value);
  }

  /// Words that are no flags, in the places that are left.
  void place_plain_words() {
    std::vector<std::string> last;
    size_t place = 0;
    for (const std::string& word : plain_) {
      while (place < command_.positionals.size() && is_given(command_.positionals[place])) ++place;
      if (place == command_.positionals.size()) {
        usage(fmt::format("unexpected argument '{}'", printable(word, 100)));
      }
      const OptionHint& option = command_.positionals[place];
      const std::string shown = upper(option.place);
      if (option.names.empty()) {
        if (word.empty() && !option.may_be_empty) usage(shown + ": the value is empty");
        last.push_back(word);
      } else {
        const size_t before = by_flag_.size();
        add(option, shown, word);
        by_flag_.resize(before);
      }
      if (!option.repeatable) ++place;
    }
    if (last.empty()) return;
    given_.words.emplace_back("--");
    given_.words.insert(given_.words.end(), last.begin(), last.end());
  }

  bool is_given(const OptionHint& option) const {
    return !option.names.empty() && std::ranges::count(by_flag_, option.names.back()) > 0;
  }

  const CommandHint& command_;
  std::span<const std::string> words_;
  size_t at_ = 0;
  bool only_plain_ = false;
  std::vector<std::string> plain_;
  std::vector<std::string> by_flag_;  ///< names of the options that flags gave
  CanonicalWords given_;
};

}  // namespace

CanonicalWords canonical_words(const CommandHint& command, std::span<const std::string> words) {
  return Reader(command, words).read();
}

std::string as_typed(std::span<const TypedOption> options, std::string message) {
  const auto rename = [&](size_t at) {
    const size_t end = std::min(message.find_first_of(": ", at), message.size());
    const std::string name = message.substr(at, end - at);
    const TypedOption* found = nullptr;
    bool tells_value = false;  // of an option that was given twice
    for (const TypedOption& option : options) {
      if (std::ranges::count(option.names, name) == 0) continue;
      const bool tells =
          message.ends_with(" " + option.value) || message.ends_with(" '" + option.value + "'");
      if (tells || !tells_value) found = &option;
      tells_value = tells_value || tells;
    }
    if (found != nullptr) message.replace(at, name.size(), found->typed);
  };
  constexpr std::string_view kExcludes = " excludes ";
  if (const size_t at = message.find(kExcludes); at != std::string::npos) {
    rename(at + kExcludes.size());
  }
  rename(0);
  return message;
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  if (word.size() >= 4) {
    const auto goes_on = std::ranges::find_if(
        candidates, [&](const std::string& candidate) { return candidate.starts_with(word); });
    if (goes_on != candidates.end()) return *goes_on;
  }
  std::string found;
  size_t best = word.size() > 3 ? 3 : word.size() > 2 ? 2 : 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string meant = nearest(word, candidates);
  return meant.empty() ? meant : fmt::format(", did you mean '{}'?", meant);
}

}  // namespace infer::cli
