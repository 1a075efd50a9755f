// Numbers from and to text as Python reads and writes them, whatever the locale of the process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/core/status.h"

namespace infer::jinja {

/// Nothing if it is no integer of that base (0: by its prefix); fails if it has more than 64 bits.
Result<std::optional<int64_t>> parse_integer(std::string_view text, int base);
std::optional<double> parse_real(std::string_view text);
/// The number that decimal digits with an optional sign, point and exponent stand for: infinity or
/// zero where it is out of a double's range. Nothing if the text is not of that form.
std::optional<double> decimal_number(std::string_view digits);
/// A finite number ≥ 0 as C's printf writes it with %.<precision><type>, type one of e f g;
/// `alternate`: with %#.
std::string real_digits(double value, char type, int precision, bool alternate);

}  // namespace infer::jinja
