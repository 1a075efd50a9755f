// Pieces of text that the forms of calls are made of.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/output/calls.h"

namespace infer::calls {

using Json = nlohmann::ordered_json;

inline constexpr int kMaxDepth = 100;  // of values: writing one takes stack for each level

/// Without the white space of JSON at both ends.
std::string_view trimmed(std::string_view text);

/// Takes what lies before `mark` off the front, and the mark; nothing if it does not come.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view mark);
/// Takes a mark off the front, and white space before it. False: something else is there.
bool take(std::string_view& text, std::string_view mark);
/// Takes one JSON object or array off the front, by its brackets; white space before it too.
std::optional<std::string_view> take_json(std::string_view& text);

/// Nothing if the text is not JSON, or is nested deeper than kMaxDepth.
std::optional<Json> read_json(std::string_view text);
/// On one line; invalid UTF-8 is replaced.
std::string write_json(const Json& json);
/// A literal of Python, and nothing else.
std::optional<Json> read_literal(std::string_view text);
/// A value of a form that writes texts without quotation marks. `types`: what it may be
/// (ValueTypes). A value that may only be a text is one. Other types are read as JSON or as a
/// literal of Python. If it may be a text or something else, null, arrays and objects are read, and
/// all else is text. What fits none of the types, or has none, is JSON of another type than text,
/// or text.
Json typed_value(std::string_view text, unsigned types);

/// The schema that a reference within the document `root` names; null if there is none.
const Json* referenced(const Json& root, const Json& reference);
/// What values of a schema in the document `root` may be (ValueTypes). `left`: schemas that may
/// still be looked at; below 0 they were not enough, and the result may have more types.
unsigned schema_types(const Json& root, const Json& schema, int& left);

/// The calls, if there are any and nothing but white space is left.
Calls all_read(std::vector<ToolCall> calls, std::string_view rest);

}  // namespace infer::calls
