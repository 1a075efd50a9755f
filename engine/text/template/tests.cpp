// Tests: what stands after `is`.
#include <cmath>

#include "engine/text/template/characters.h"
#include "engine/text/template/interpreter.h"

namespace infer::jinja {
namespace {

template <Kind kind>
Result<Value> is_kind(Call& call) {
  return Value::of(call.self.is(kind));
}

Result<Value> defined(Call& call) { return Value::of(!call.self.is(Kind::undefined)); }

Result<Value> is_true(Call& call) {
  return Value::of(call.self.is(Kind::boolean) && call.self.boolean());
}

Result<Value> is_false(Call& call) {
  return Value::of(call.self.is(Kind::boolean) && !call.self.boolean());
}

Result<Value> integer(Call& call) {
  return Value::of(call.self.is(Kind::integer) || call.self.is(Kind::big_integer));
}

Result<Value> number(Call& call) { return Value::of(call.self.is_number()); }

Result<Value> iterable(Call& call) {
  switch (call.self.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::object: return Value::of(true);
    default: return Value::of(call.self.type_name() == "LoopContext");
  }
}

Result<Value> sequence(Call& call) {
  switch (call.self.kind()) {
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict: return Value::of(true);
    case Kind::object: return Value::of(call.self.object()->is_sequence());
    default: return Value::of(false);
  }
}

Result<Value> callable(Call& call) { return Value::of(call.self.is(Kind::callable)); }

/// self % divisor, compared with `rest`.
Result<Value> remainder_is(Call& call, const Value& divisor, int64_t rest) {
  INFER_TRY(const Value remainder, binary(call.in, '%', call.self, divisor));
  return Value::of(equal(call.in.budget(), remainder, Value::of(rest)));
}

Result<Value> odd(Call& call) { return remainder_is(call, Value::of(int64_t{2}), 1); }
Result<Value> even(Call& call) { return remainder_is(call, Value::of(int64_t{2}), 0); }
Result<Value> divisible(Call& call) { return remainder_is(call, call[0], 0); }

Result<Value> lower_case(Call& call) {
  INFER_TRY(const std::string text, call.in.str(call.self));
  return Value::of(is_lower(text));
}

Result<Value> upper_case(Call& call) {
  INFER_TRY(const std::string text, call.in.str(call.self));
  return Value::of(is_upper(text));
}

Result<Value> same(Call& call) { return Value::of(identical(call.self, call[0])); }
Result<Value> escaped(Call& call) { return Value::of(call.self.markup()); }

Result<Value> known_filter(Call& call) {
  return Value::of(call.self.is(Kind::string) && find_filter(call.self.text()) != nullptr);
}

Result<Value> known_test(Call& call) {
  return Value::of(call.self.is(Kind::string) && find_test(call.self.text()) != nullptr);
}

Result<Value> contained(Call& call) {
  INFER_TRY(const bool in, call.in.contains(call[0], call.self));
  return Value::of(in);
}

Result<Value> equals(Call& call) { return Value::of(equal(call.in.budget(), call.self, call[0])); }

Result<Value> differs(Call& call) {
  return Value::of(!equal(call.in.budget(), call.self, call[0]));
}

template <bool swapped, bool or_equal>
Result<Value> ordered(Call& call) {
  Budget& budget = call.in.budget();
  INFER_TRY(const bool below,
            swapped ? less(budget, call[0], call.self) : less(budget, call.self, call[0]));
  return Value::of(below || (or_equal && equal(budget, call.self, call[0])));
}

constexpr Builtin kTests[] = {
    {"defined", "", defined},
    {"undefined", "", is_kind<Kind::undefined>},
    {"none", "", is_kind<Kind::none>},
    {"boolean", "", is_kind<Kind::boolean>},
    {"true", "", is_true},
    {"false", "", is_false},
    {"integer", "", integer},
    {"float", "", is_kind<Kind::real>},
    {"number", "", number},
    {"string", "", is_kind<Kind::string>},
    {"mapping", "", is_kind<Kind::dict>},
    {"sequence", "", sequence},
    {"iterable", "", iterable},
    {"callable", "", callable},
    {"odd", "", odd},
    {"even", "", even},
    {"divisibleby", "num", divisible},
    {"lower", "", lower_case},
    {"upper", "", upper_case},
    {"sameas", "other", same},
    {"escaped", "", escaped},
    {"filter", "", known_filter},
    {"test", "", known_test},
    {"in", "seq", contained},
    {"eq", "/other", equals},
    {"==", "/other", equals},
    {"equalto", "/other", equals},
    {"ne", "/other", differs},
    {"!=", "/other", differs},
    {"lt", "/other", ordered<false, false>},
    {"<", "/other", ordered<false, false>},
    {"lessthan", "/other", ordered<false, false>},
    {"le", "/other", ordered<false, true>},
    {"<=", "/other", ordered<false, true>},
    {"gt", "/other", ordered<true, false>},
    {">", "/other", ordered<true, false>},
    {"greaterthan", "/other", ordered<true, false>},
    {"ge", "/other", ordered<true, true>},
    {">=", "/other", ordered<true, true>},
};

}  // namespace

std::span<const Builtin> tests() { return kTests; }

}  // namespace infer::jinja
