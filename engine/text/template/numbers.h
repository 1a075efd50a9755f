// Numbers from text as Python's int() and float() read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/core/status.h"

namespace infer::jinja {

/// Nothing if it is no integer of that base (0: by its prefix); fails if it has more than 64 bits.
Result<std::optional<int64_t>> parse_integer(std::string_view text, int base);
std::optional<double> parse_real(std::string_view text);

}  // namespace infer::jinja
