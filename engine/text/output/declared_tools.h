// The tools that a request offers: their names, and the types of their parameters.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "infer/infer.hpp"

namespace infer {

/// JSON's types as bits: a set of them says what a value may be.
enum ValueTypes : unsigned {
  kStringType = 1,
  kNumberType = 2,  ///< also whole numbers
  kIntegerType = 4,
  kBooleanType = 8,
  kNullType = 16,
  kObjectType = 32,
  kArrayType = 64,
  kAnyType = 127,
};

class DeclaredTools {
 public:
  /// None are known: every name may be a tool's.
  DeclaredTools() = default;
  /// `json`: an array of functions, each as {"type": "function", "function": {"name",
  /// "parameters"}} or as the inner object; what has no name is left out. Empty: none are known.
  /// invalid_argument: it is no array.
  static Result<DeclaredTools> read(std::string_view json);

  bool known() const { return !types_.empty(); }
  bool has(std::string_view function) const { return types_.contains(function); }
  /// What the parameter may be by its JSON schema; kAnyType if that is not said.
  unsigned types(std::string_view function, std::string_view parameter) const;

 private:
  using Parameters = std::map<std::string, unsigned, std::less<>>;
  std::map<std::string, Parameters, std::less<>> types_;
};

}  // namespace infer
