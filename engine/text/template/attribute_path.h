// "address.city": attributes of attributes, as filters take them; and sorting by such.
#pragma once

#include <vector>

#include "engine/text/template/interpreter.h"

namespace infer::jinja {

class AttributePath {
 public:
  static Result<AttributePath> parse(Budget& budget, const Value& attribute);
  /// What stands there; `otherwise`, if given, in place of what is undefined.
  Result<Value> get(Interpreter& in, const Value& object, const Value& otherwise = {}) const;

 private:
  std::vector<Value> parts_;
};

/// A string in lower case, anything else as it is.
Value folded(Interpreter& in, const Value& value);

/// A pair of what groupby makes, whose parts have the names `grouper` and `list`.
struct Group : Sequence {
  using Sequence::Sequence;
};

// Filters: see the table of sequences.
Result<Value> sorted(Call& call);
Result<Value> dict_sorted(Call& call);
Result<Value> grouped(Call& call);

}  // namespace infer::jinja
