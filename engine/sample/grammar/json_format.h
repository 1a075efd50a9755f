// The formats of JSON Schema as sets of strings.
#pragma once

#include <string_view>

#include "engine/core/status.h"
#include "engine/sample/grammar/char_dfa.h"

namespace infer {

/// How a `format` is treated. `unknown`: it restricts nothing, since the standard does not define
/// it. `refused`: the standard defines it, but it is not implemented here.
enum class FormatKind : uint8_t { known, unknown, refused };
FormatKind format_kind(std::string_view name);

/// Strings of a known format; for some only the common ones (four-digit years, host names of
/// letters, digits and hyphens).
Result<CharDfa> format_language(std::string_view name, CharWork& work);

}  // namespace infer
