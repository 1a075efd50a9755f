// The formats of JSON Schema as sets of strings.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "engine/core/status.h"
#include "engine/sample/grammar/char_dfa.h"

namespace infer {

/// How a `format` is treated. `unknown`: it restricts nothing, since the standard does not define
/// it. `refused`: the standard defines it, but it is not implemented here.
enum class FormatKind : uint8_t { known, unknown, refused };
FormatKind format_kind(std::string_view name);

/// Strings of a known format. Which ones are left out is in docs/sampling.md.
struct FormatLanguage {
  /// Strings of up to this length are in `all` if they are in `uncounted`.
  static constexpr uint32_t kUncountedLength = 63;

  CharDfa all;
  /// Where `all` counts the characters of parts: without that it has few states, which a limit on
  /// the whole length multiplies.
  std::optional<CharDfa> uncounted;
};
Result<std::shared_ptr<const FormatLanguage>> format_language(std::string_view name);

}  // namespace infer
