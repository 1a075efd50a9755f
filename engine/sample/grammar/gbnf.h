// Grammars as text, in the notation of llama.cpp (GBNF).
//
//     root ::= "yes" | "no" | number     # the whole text; comments run to the end of the line
//     number ::= [1-9] [0-9]{0,5}
//
// Rules: name ::= alternatives separated by |. Elements: "literal", [characters] with ranges and
// [^…] for all others, . for any character, names, ( groups ); each may be followed by * + ? {m}
// {m,} {m,n}. Escapes: \n \r \t \" \\ \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH, always a code point. A
// rule ends with its line, except inside groups and around |. Tokens by name (<name>, <[id]>) are
// refused.
#pragma once

#include <memory>
#include <string_view>

#include "engine/core/status.h"
#include "engine/sample/grammar/grammar.h"

namespace infer {

/// Bounds on the text; the compiled size is bounded by kMaxGrammarSize.
inline constexpr size_t kMaxGbnfBytes = size_t{1} << 20;
inline constexpr uint32_t kMaxGbnfNesting = 200;
inline constexpr uint32_t kMaxGbnfRepeat = 100'000;

/// Errors: invalid_argument with line and column for text that is no grammar, for rules that are
/// not there or twice, for left recursion and for a grammar that no text matches; unsupported
/// beyond the limits and for tokens by name.
Result<std::shared_ptr<const CompiledGrammar>> compile_gbnf(std::string_view text);

}  // namespace infer
