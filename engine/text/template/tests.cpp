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
  call.in.budget().work(text.size(), Budget::kCharacter);
  return Value::of(is_lower(text));
}

Result<Value> upper_case(Call& call) {
  INFER_TRY(const std::string text, call.in.str(call.self));
  call.in.budget().work(text.size(), Budget::kCharacter);
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
    {"defined", "", defined, Cost::own},
    {"undefined", "", is_kind<Kind::undefined>, Cost::own},
    {"none", "", is_kind<Kind::none>, Cost::own},
    {"boolean", "", is_kind<Kind::boolean>, Cost::own},
    {"true", "", is_true, Cost::own},
    {"false", "", is_false, Cost::own},
    {"integer", "", integer, Cost::own},
    {"float", "", is_kind<Kind::real>, Cost::own},
    {"number", "", number, Cost::own},
    {"string", "", is_kind<Kind::string>, Cost::own},
    {"mapping", "", is_kind<Kind::dict>, Cost::own},
    {"sequence", "", sequence, Cost::own},
    {"iterable", "", iterable, Cost::own},
    {"callable", "", callable, Cost::own},
    {"odd", "", odd},
    {"even", "", even},
    {"divisibleby", "num", divisible},
    {"lower", "", lower_case},
    {"upper", "", upper_case},
    {"sameas", "other", same, Cost::own},
    {"escaped", "", escaped, Cost::own},
    {"filter", "", known_filter, Cost::own},
    {"test", "", known_test, Cost::own},
    {"in", "seq", contained, Cost::own},
    {"eq", "/other", equals, Cost::own},
    {"==", "/other", equals, Cost::own},
    {"equalto", "/other", equals, Cost::own},
    {"ne", "/other", differs, Cost::own},
    {"!=", "/other", differs, Cost::own},
    {"lt", "/other", ordered<false, false>, Cost::own},
    {"<", "/other", ordered<false, false>, Cost::own},
    {"lessthan", "/other", ordered<false, false>, Cost::own},
    {"le", "/other", ordered<false, true>, Cost::own},
    {"<=", "/other", ordered<false, true>, Cost::own},
    {"gt", "/other", ordered<true, false>, Cost::own},
    {">", "/other", ordered<true, false>, Cost::own},
    {"greaterthan", "/other", ordered<true, false>, Cost::own},
    {"ge", "/other", ordered<true, true>, Cost::own},
    {">=", "/other", ordered<true, true>, Cost::own},
};

}  // namespace

std::span<const Builtin> tests() { return kTests; }

}  // namespace infer::jinja
