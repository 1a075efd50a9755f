// Prepares the words of a command line for the parser. Tells flags, their values and positional
// arguments apart. Handles what the parser would misread: names of several letters after one dash,
// values that look like flags, empty values, flags of other programs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_tree.h"

namespace infer::cli {

struct CanonicalWords {
  std::vector<std::string> words;  ///< for the parser: every flag by a name that it knows
  std::vector<TypedOption> options;
  bool help = false;  ///< --help was given; nothing else counts
};

/// Takes the words after the command's name. Throws Failure (usage) for an unknown flag, a missing
/// value, an empty value where none is allowed, and for more words than expected.
CanonicalWords canonical_words(const CommandHint& command, std::span<const std::string> words);

/// A message that begins with any name of an option, "--threads: expected …", with the name that
/// was given. Also the second name in "-f excludes -p".
std::string as_typed(std::span<const TypedOption> options, std::string message);

/// The candidate that was probably meant, or nothing. It differs from `word` in at most two
/// letters, or starts with it.
std::string nearest(std::string_view word, std::span<const std::string> candidates);
/// ", did you mean 'run'?" or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace infer::cli
