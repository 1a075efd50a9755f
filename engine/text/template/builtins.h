// The functions that templates can call without defining them: filters, tests, methods of Python's
// types, global functions. Each is one entry of the table in the file of its kind. There are no
// other lists.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/template/value.h"

namespace infer::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// Takes a named argument out; missing if it was not given.
  Value take(std::string_view name);
};

/// One call of a builtin: what it is applied to and its arguments by parameter.
struct Call {
  Interpreter& in;
  Value self;
  Arguments given;           ///< of builtins that take any arguments
  std::vector<Value> bound;  ///< by parameter; missing where not given

  bool has(size_t i) const { return !bound[i].is(Kind::missing); }
  const Value& operator[](size_t i) const { return bound[i]; }
  /// An argument as a number, with what it is if not given. Fails for other types.
  Result<int64_t> integer(size_t i, int64_t otherwise = 0) const;
  /// Bytes of the operand's text, 0 if it is no string.
  size_t text_bytes() const;
  /// As bool() sees it.
  bool truth(size_t i, bool otherwise = false) const;
  /// An argument that has to be a string.
  Result<std::string> text(size_t i, std::string_view otherwise = "") const;
};

/// Which code charges for the work of a builtin.
enum class Cost : uint8_t {
  reading,  ///< its caller, for reading the operand and the arguments once
  own,      ///< the builtin itself: it takes constant time, or charges for what it reads
};

struct Builtin {
  std::string_view name;
  /// Names of the parameters, separated by spaces. A question mark follows an optional one. A slash
  /// precedes those that are only passed by position. "*": any arguments, unchecked.
  std::string_view parameters;
  Result<Value> (*run)(Call& call);
  Cost cost = Cost::reading;
};

// Null if there is none.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_global(std::string_view name);
/// A method of the value's type. Methods that would change the value have no `run`.
const Builtin* find_method(const Value& value, std::string_view name);

Result<Value> run_builtin(Interpreter& in, const Builtin& builtin, const Value& self,
                          Arguments arguments);

// The tables, a file each.
std::span<const Builtin> text_filters();
std::span<const Builtin> wrapping_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> value_filters();
std::span<const Builtin> tests();
std::span<const Builtin> globals();
std::span<const Builtin> string_methods();
std::span<const Builtin> string_search_methods();
std::span<const Builtin> list_methods();
std::span<const Builtin> tuple_methods();
std::span<const Builtin> dict_methods();

}  // namespace infer::jinja
