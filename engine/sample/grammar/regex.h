// Regular expressions of JSON Schema's `pattern`: the regular part of ECMA-262.
#pragma once

#include <string_view>

#include "engine/core/status.h"
#include "engine/sample/grammar/char_dfa.h"

namespace infer {

inline constexpr size_t kMaxPatternBytes = 16'384;
inline constexpr uint32_t kMaxPatternNesting = 200;

/// The strings that contain a match of `pattern`. Understood: alternatives, groups (also named and
/// non-capturing), ^ and $, classes, \d \w \s and their complements, \p{…} for general categories,
/// escapes, and repetitions (greedy or not is the same here).
///
/// Implementations differ about \d, \w and \s beyond ASCII. A string is in the set only if all of
/// them agree that it matches. Errors: invalid_argument for a text that is not a pattern;
/// unsupported for lookaround, backreferences, \b, other properties, and if a limit is exceeded.
Result<CharDfa> compile_regex(std::string_view pattern, CharWork& work);

}  // namespace infer
