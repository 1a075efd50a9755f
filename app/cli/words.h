// The words of a command line, before the parser sees them: which are flags, which their values,
// and which stand for themselves. What the parser would misread is settled here: names of several
// letters after one dash, values that look like flags, empty values, flags of other programs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_tree.h"

namespace infer::cli {

struct CanonicalWords {
  std::vector<std::string> words;  ///< for the parser: every flag by a name that it knows
  bool help = false;               ///< --help was given; nothing else counts
};

/// The words after a command's name. Throws Failure (usage) for a flag that is not known, one
/// without its value, an empty value where none may be, a word too many.
CanonicalWords canonical_words(const CommandHint& command, std::span<const std::string> words);

/// The candidate that was probably meant, or nothing: at most two letters differ, or it goes on.
std::string nearest(std::string_view word, std::span<const std::string> candidates);
/// ", did you mean 'run'?" or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace infer::cli
