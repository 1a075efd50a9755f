// The rules of grammars for calls whose arguments stand between tags. The forms are those of
// calls.h.
#pragma once

#include <string>
#include <string_view>

#include "engine/core/status.h"
#include "engine/text/output/call_text.h"
#include "engine/text/output/output_format.h"

namespace infer::calls {

/// A text as an element of a grammar.
std::string as_literal(std::string_view text);
/// The same of a mark, any part of which may be a special token. An empty one is an empty text.
std::string mark(std::string_view text);

/// How a form writes a call: `open` NAME `named`, its arguments, `close`. White space may stand
/// around each argument: `key` KEY `keyed`, `of_text` or `of_json`, VALUE, `ends`.
struct TagForm {
  ParseCalls parse;
  std::string_view open, named, close;
  std::string_view key, keyed;
  std::string_view of_text, of_json;  ///< before a value that is a text, and before another one
  std::string_view ends;
  bool apart = false;   ///< white space may stand behind `keyed`
  bool breaks = false;  ///< a line break at each end of a value belongs to the tags
  bool types_values() const { return of_text != of_json; }
};

/// Null: the form has no tags, or arguments that are tags in turn.
const TagForm* find_tag_form(ParseCalls parse);

/// What the rules of all tools of a request may still take.
struct RuleBudget {
  int schemas = 200'000;             ///< looked at, each time anew that one refers to them
  int64_t bytes = int64_t{1} << 20;  ///< of values' rules; so many are read in a grammar
};

/// The arguments of a tool that are an object of the schema `parameters`, in the order of its
/// properties. A text is free, unless the schema lists its values. Refers to the rule `ws`.
/// invalid_argument: the schema cannot be kept. unsupported: the budget is used up.
Result<std::string> tagged_arguments(const TagForm& form, const std::string& tool,
                                     const Json& parameters, RuleBudget& budget);
/// Any arguments.
std::string any_tagged_arguments(const TagForm& form);

}  // namespace infer::calls
