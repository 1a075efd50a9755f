// Values as text: Python's repr() and json.dumps().
#pragma once

#include <string>
#include <string_view>

#include "engine/text/template/value.h"

namespace infer::jinja {

/// Python's repr of a float: the shortest digits that read back the same.
std::string repr_real(double value);
/// Python's repr of a string, in quotes.
void repr_text(Budget& budget, std::string_view text, std::string& out);

/// Appends repr(value); stops when the budget is spent or the text far too long. `sorted`: with
/// dicts sorted by their keys.
void write_repr(Budget& budget, const Value& value, std::string& out, bool sorted = false);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool pretty = false;  ///< line ends, and `indent` before each level
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

/// Appends json.dumps(value).
Status write_json(Budget& budget, const Value& value, const JsonStyle& style, std::string& out);

}  // namespace infer::jinja
