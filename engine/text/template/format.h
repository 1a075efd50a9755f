// Python's two ways of formatting: "%s" % values and "{}".format(values).
#pragma once

#include "engine/text/template/interpreter.h"

namespace infer::jinja {

/// `text` % `values`; a tuple is several values, a dict gives %(name)s.
Result<Value> format_percent(Interpreter& in, const Value& text, const Value& values);

/// text.format(...).
Result<Value> format_braces(Interpreter& in, const Value& text, const Arguments& arguments);

/// format(value, spec) for numbers and strings, e.g. ">10.2f".
Result<std::string> format_spec(Interpreter& in, const Value& value, std::string_view spec);

}  // namespace infer::jinja
