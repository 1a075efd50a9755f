// Filters of single values.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/core/checked.h"
#include "engine/text/template/characters.h"
#include "engine/text/template/depth.h"
#include "engine/text/template/numbers.h"

namespace infer::jinja {
namespace {

Result<Value> absolute(Call& call) {
  if (call.self.is(Kind::real)) return Value::of(std::fabs(call.self.number()));
  if (call.self.is(Kind::undefined)) return raise("{}", call.self.text());
  if (!call.self.is_integral())
    return raise("bad operand type for abs(): '{}'", call.self.type_name());
  const int64_t i = call.self.integer();
  return i < 0 ? binary(call.in, '-', Value::of(int64_t{0}), call.self) : Value::of(i);
}

Result<Value> attr(Call& call) {
  INFER_TRY(const std::string name, call.text(0));
  // Only attributes: entries of dicts are none.
  if (call.self.is(Kind::dict) && find_method(call.self, name) == nullptr) {
    return call.in.undefined(fmt::format("'dict object' has no attribute '{}'", shortened(name)));
  }
  return call.in.attribute(call.self, name);
}

Result<Value> otherwise(Call& call) {
  const bool absent = call.self.is(Kind::undefined) || (call.truth(1) && !call.self.truth());
  if (!absent) return call.self;
  return call.has(0) ? call[0] : call.in.string("");
}

Result<Value> to_int(Call& call) {
  const Value fallback = call.has(0) ? call[0] : Value::of(int64_t{0});
  INFER_TRY(const int64_t base, call.integer(1, 10));
  const Value& self = call.self;
  if (self.is_integral()) return Value::of(self.integer());
  if (self.is(Kind::big_integer)) return self;
  if (self.is(Kind::undefined)) return raise("{}", self.text());
  call.in.budget().work(call.text_bytes(), Budget::kLoop);
  if (self.is(Kind::string)) {
    INFER_TRY(const std::optional<int64_t> whole,
              parse_integer(self.text(), static_cast<int>(base)));
    if (whole) return Value::of(*whole);
  }
  std::optional<double> number;
  if (self.is(Kind::real)) number = self.number();
  if (self.is(Kind::string)) number = parse_real(self.text());
  if (!number || !std::isfinite(*number)) {
    if (self.is(Kind::real) && std::isinf(*number)) {
      return raise("cannot convert float infinity to integer");
    }
    return fallback;
  }
  if (std::fabs(*number) >= 9223372036854775808.0) return raise("an integer has more than 64 bits");
  return Value::of(static_cast<int64_t>(*number));
}

Result<Value> to_float(Call& call) {
  if (call.self.is_number()) return Value::of(call.self.number());
  if (call.self.is(Kind::undefined)) return raise("{}", call.self.text());
  call.in.budget().work(call.text_bytes(), Budget::kLoop);
  if (call.self.is(Kind::string)) {
    if (const auto number = parse_real(call.self.text())) return Value::of(*number);
  }
  return call.has(0) ? call[0] : Value::of(0.0);
}

/// Round half to even of the decimal digits that the number really has.
double round_to(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 320) return value;
  if (digits < -310) return std::copysign(0.0, value);
  if (digits >= 0) {
    const double magnitude = std::fabs(value);
    const std::string text = real_digits(magnitude, 'f', static_cast<int>(digits), false);
    return std::copysign(decimal_number(text).value_or(magnitude), value);
  }
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / unit) * unit;
}

Result<Value> round_number(Call& call) {
  INFER_TRY(const int64_t precision, call.integer(0));
  INFER_TRY(const std::string method, call.text(1, "common"));
  if (call.self.is(Kind::undefined)) return raise("{}", call.self.text());
  if (!call.self.is_number()) return raise("round needs a number, not {}", call.self.type_name());
  if (method == "common") {
    if (!call.self.is_integral()) return Value::of(round_to(call.self.number(), precision));
    if (precision >= 0) return Value::of(call.self.integer());
    if (precision < -18) return Value::of(int64_t{0});
    int64_t unit = 1;
    for (int64_t i = 0; i < -precision; ++i) unit *= 10;
    const int64_t value = call.self.integer();
    const int64_t rest = ((value % unit) + unit) % unit;
    const auto below = checked_add(value, -rest);
    if (!below) return raise("an integer has more than 64 bits");
    const bool up = rest * 2 > unit || (rest * 2 == unit && (*below / unit) % 2 != 0);
    const auto rounded = up ? checked_add(*below, unit) : below;
    if (!rounded) return raise("an integer has more than 64 bits");
    return Value::of(*rounded);
  }
  if (method != "ceil" && method != "floor") return raise("method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = call.self.number() * unit;
  return Value::of((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Result<Value> length(Call& call) {
  INFER_TRY(const int64_t length, call.in.length(call.self));
  return Value::of(length);
}

Result<Value> pretty(Call& call) {
  INFER_TRY(std::string text, call.in.repr(call.self, /*sorted=*/true));
  if (text.size() > 80) {
    return fail(StatusCode::unsupported, "pprint of values that need several lines");
  }
  return call.in.string(std::move(text));
}

Result<Value> random_item(Call&) {
  return fail(StatusCode::unsupported, "the filter 'random': equal input gives equal text here");
}

constexpr Builtin kValueFilters[] = {
    {"abs", "", absolute},
    {"attr", "name", attr},
    {"default", "default_value? boolean?", otherwise, Cost::own},
    {"d", "default_value? boolean?", otherwise, Cost::own},
    {"int", "default? base?", to_int},
    {"float", "default?", to_float},
    {"round", "precision? method?", round_number},
    {"length", "", length, Cost::own},
    {"count", "", length, Cost::own},
    {"pprint", "", pretty},
    {"random", "", random_item},
};

}  // namespace

std::span<const Builtin> value_filters() { return kValueFilters; }

}  // namespace infer::jinja
