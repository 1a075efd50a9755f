// Grammars of JSON values: strings, numbers and the white space between them.
//
// White space is bounded, so that a model cannot write it for ever. After ":" at most one space.
// After "," "{" "[" and before "}" "]" at most one space, or a line feed and up to kMaxIndent
// spaces. None elsewhere and none around the text. Strings are UTF-8. A character that needs no
// escape may have one (\uXXXX, in pairs beyond U+FFFF) only in strings without a pattern.
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

  /// The value of a text that std::to_string or std::to_chars wrote; nothing beyond 400 digits.
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
  bool fractions = true;  ///< false: only integers, written without fraction and exponent
  bool integers = true;   ///< false: only numbers that are not integers (1.0 is an integer)
  std::optional<Bound> lower, upper;
  uint64_t multiple_of = 1;  ///< if not 1: only integers
};

/// Most digits of a number: before the point (as 64 bits hold them), after the point, and in both
/// together. The last limit holds if fractions are allowed and there is a bound, or integers are
/// not allowed: reading the number as a double then never rounds it beyond the bound or to an
/// integer. Integers have as many digits as their bounds if these have more, up to kMaxBoundDigits.
inline constexpr uint32_t kMaxWholeDigits = 19;
inline constexpr uint32_t kMaxBoundDigits = 60;
inline constexpr uint32_t kMaxFractionDigits = 16;
inline constexpr uint32_t kMaxBoundedDigits = 15;

/// Adds a number between two nodes. False if multiple_of or a bound is too large.
bool emit_number(RuleGraph& graph, uint32_t from, const NumberSpec& spec, uint32_t to);

/// One character of a string, plain or escaped.
void emit_character(RuleGraph& graph, uint32_t from, uint32_t to);
/// One character of these edges, whose targets do not count, escaped where it has to be.
void emit_characters(RuleGraph& graph, uint32_t from, const std::vector<CharDfa::Edge>& edges,
                     uint32_t to);
/// Stands for all characters that are read in a state of an automaton, which has no edges but to
/// itself.
struct StringLoop {
  uint32_t state;
  uint32_t rule;
};
/// The characters of a string, between the quotes; the automaton says which are allowed.
void emit_string_body(RuleGraph& graph, uint32_t from, const CharDfa& characters, uint32_t to,
                      std::optional<StringLoop> loop = {});
/// A colon and the value that the rule reads, to the end of the graph.
void emit_colon(RuleGraph& graph, uint32_t from, uint32_t value);
/// The white space allowed after , { [ and before } ].
void emit_white_space(RuleGraph& graph, uint32_t from, uint32_t to);

}  // namespace infer
