// Grammars as text, in the notation of llama.cpp (GBNF).
//
//     root ::= "yes" | "no" | number     # the whole text; comments run to the end of the line
//     number ::= [1-9] [0-9]{0,5}
//
// Rules: name ::= alternatives separated by |. Elements: "literal", [characters] with ranges and
// [^…] for all others, . for any character, names, ( groups ); each may be followed by * + ? {m}
// {m,} {m,n}. Escapes: \n \r \t \" \\ \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH, always a code point. A
// rule ends with its line, except inside groups and around |.
//
// An element can also be a token: <[1000]> is the token with this id, <name> the token with this
// spelling in the vocabulary (brackets included), !<[1000]> and !<name> any other token. Such an
// element reads one whole token, whatever its bytes, also a control token. It starts where a token
// starts, so the text before it must end with a token. No element reads a token that ends a text;
// such a token is allowed when root is complete.
//
// %special "text" reads this text, or in place of any part of it the control token that is spelt
// so; where such a token ends a text, nothing need be read for it. %until "text" reads what comes
// up to the first such text, and that text; if it is a control token, other control tokens may come
// before it. %json SCHEMA reads a value that satisfies the JSON schema, an object or true; in
// %json "name" SCHEMA messages about it begin with the name.
#pragma once

#include <memory>
#include <string_view>

#include "engine/core/status.h"
#include "engine/sample/grammar/grammar.h"

namespace infer {

class Tokenizer;

/// Bounds on the text; the compiled size is bounded by kMaxGrammarSize.
inline constexpr size_t kMaxGbnfBytes = size_t{1} << 20;
inline constexpr uint32_t kMaxGbnfNesting = 200;
inline constexpr uint32_t kMaxGbnfRepeat = 100'000;

/// Errors: invalid_argument, with line and column, for a text that is not a grammar, missing or
/// repeated rules, tokens that are not in the vocabulary or end a text, left recursion, and a
/// grammar that no text matches; unsupported if a limit is exceeded, and for tokens without a
/// tokenizer. The tokenizer is used only during the call.
Result<std::shared_ptr<const CompiledGrammar>> compile_gbnf(std::string_view text,
                                                            const Tokenizer* tokenizer = nullptr);

}  // namespace infer
