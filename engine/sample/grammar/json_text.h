// How values are written as JSON: strings, numbers and the white space between them.
//
// White space is bounded, so that no model writes it for ever: after : at most one space; after ,
// { [ and before } ] at most one space, or a line feed and up to kMaxIndent spaces; none elsewhere,
// none around the text. Strings are UTF-8; characters that need no escape may have one (\uXXXX, in
// pairs beyond U+FFFF) in strings without a pattern only.
#pragma once

#include <optional>
#include <string>

#include "engine/sample/grammar/char_dfa.h"
#include "engine/sample/grammar/grammar.h"

namespace infer {

inline constexpr uint32_t kMaxIndent = 40;

/// A decimal number, exact.
struct Decimal {
  bool negative = false;
  std::string whole = "0";  ///< without leading zeros
  std::string fraction;     ///< without trailing zeros

  /// Of what std::to_string or std::to_chars writes; nothing beyond 400 digits.
  static std::optional<Decimal> parse(std::string_view text);
  bool is_zero() const { return whole == "0" && fraction.empty(); }
  bool is_integer() const { return fraction.empty(); }
};
/// −1, 0 or 1.
int compare(const Decimal& a, const Decimal& b);

struct NumberSpec {
  struct Bound {
    Decimal value;
    bool exclusive = false;
  };
  bool fractions = true;  ///< false: integers alone, written without fraction and exponent
  bool integers = true;   ///< false: numbers that are no integers alone (1.0 is one)
  std::optional<Bound> lower, upper;
  uint64_t multiple_of = 1;  ///< other than 1: integers alone
};

/// Digits of what is written: before and after the point, and of both together where there is a
/// bound or no integer is allowed, so that reading the number as a double rounds it past no bound
/// and to no integer.
inline constexpr uint32_t kMaxWholeDigits = 16;
inline constexpr uint32_t kMaxFractionDigits = 16;
inline constexpr uint32_t kMaxBoundedDigits = 15;

/// Writes a number from one node to another. False where the limits do not allow it: a multiple_of
/// or a bound that is too large.
bool emit_number(RuleGraph& graph, uint32_t from, const NumberSpec& spec, uint32_t to);

/// One character of a string, plain or escaped.
void emit_character(RuleGraph& graph, uint32_t from, uint32_t to);
/// The inside of a string whose characters the automaton reads.
void emit_string_body(RuleGraph& graph, uint32_t from, const CharDfa& characters, uint32_t to);
/// A colon and the value that the rule reads, to the end of the graph.
void emit_colon(RuleGraph& graph, uint32_t from, uint32_t value);
/// What may stand after , { [ and before } ].
void emit_white_space(RuleGraph& graph, uint32_t from, uint32_t to);

}  // namespace infer
