// Regular expressions of JSON Schema's `pattern`: the regular part of ECMA-262.
#pragma once

#include <string_view>

#include "engine/core/status.h"
#include "engine/sample/grammar/char_dfa.h"

namespace infer {

inline constexpr size_t kMaxPatternBytes = 16'384;
inline constexpr uint32_t kMaxPatternNesting = 200;

/// The strings of which some part matches `pattern`. Alternatives, groups (also named and
/// non-capturing), ^ and $, classes, \d \w \s and their complements, \p{…} for general categories,
/// escapes, and repetitions (greedy or not is the same here).
///
/// Where implementations differ about \d, \w and \s beyond ASCII, a string is in the set if all
/// agree that it matches. Errors: invalid_argument for what is no pattern, unsupported for
/// lookaround, backreferences, \b, other properties, and beyond the limits.
Result<CharDfa> compile_regex(std::string_view pattern, CharWork& work);

}  // namespace infer
