// Arithmetic as Python does it.
#include <cmath>

#include "engine/core/checked.h"
#include "engine/text/template/characters.h"
#include "engine/text/template/format.h"
#include "engine/text/template/interpreter.h"

namespace infer::jinja {
namespace {

tl::unexpected<Status> too_large() { return raise("an integer has more than 64 bits"); }

std::string_view spelling(char op) {
  switch (op) {
    case 'f': return "//";
    case 'p': return "** or pow()";
    case '*': return "*";
    case '/': return "/";
    case '%': return "%";
    case '-': return "-";
    default: return "+";
  }
}

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double floor_mod(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

/// Python computes the quotient from the remainder, so that both agree.
double floor_quotient(double a, double b) {
  const double rest = floor_mod(a, b);
  double quotient = (a - rest) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Result<Value> integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return raise("0.0 cannot be raised to a negative power");
    return Value::of(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0) {
      const auto product = checked_mul(result, base);
      if (!product) return too_large();
      result = *product;
    }
    exponent >>= 1;
    if (exponent == 0) break;
    const auto square = checked_mul(base, base);
    if (!square) return too_large();
    base = *square;
  }
  return Value::of(result);
}

Result<Value> integers(char op, int64_t a, int64_t b) {
  std::optional<int64_t> result;
  switch (op) {
    case '+': result = checked_add(a, b); break;
    case '-': {
      int64_t out;
      if (!__builtin_sub_overflow(a, b, &out)) result = out;
      break;
    }
    case '*': result = checked_mul(a, b); break;
    case 'p': return integer_power(a, b);
    default:
      if (b == 0)
        return raise("{}", op == '/' ? "division by zero" : "integer division or modulo by zero");
      if (op == '/') return Value::of(static_cast<double>(a) / static_cast<double>(b));
      if (b == -1) {
        if (op == '%') return Value::of(int64_t{0});
        if (a == INT64_MIN) return too_large();
      }
      result = op == 'f' ? floor_div(a, b) : floor_mod(a, b);
  }
  if (!result) return too_large();
  return Value::of(*result);
}

Result<Value> reals(char op, double a, double b) {
  switch (op) {
    case '+': return Value::of(a + b);
    case '-': return Value::of(a - b);
    case '*': return Value::of(a * b);
    case 'p': {
      if (a == 0 && b < 0) return raise("0.0 cannot be raised to a negative power");
      if (a < 0 && b != std::floor(b)) return raise("complex numbers are not supported");
      const double power = std::pow(a, b);
      if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) {
        return raise("the result of '**' is too large");
      }
      return Value::of(power);
    }
    default:
      if (b == 0) return raise("float division by zero");
      if (op == '/') return Value::of(a / b);
      return Value::of(op == 'f' ? floor_quotient(a, b) : floor_mod(a, b));
  }
}

Result<Value> repeat(Interpreter& in, const Value& what, int64_t times) {
  times = std::max<int64_t>(times, 0);
  if (what.is(Kind::string)) {
    const std::string& text = what.text();
    std::string repeated;
    INFER_CHECK_R(in.append_times(repeated, text, times));
    return in.string(std::move(repeated), what.markup());
  }
  const std::vector<Value>& items = what.items();
  const auto bytes = checked_mul(static_cast<int64_t>(items.size() * sizeof(Value)), times);
  if (!bytes) return raise("a repeated list is too large");
  INFER_CHECK_R(in.check_size(*bytes));
  in.budget().work(*bytes);
  INFER_CHECK_R(in.check_budget());
  std::vector<Value> repeated;
  repeated.reserve(items.size() * static_cast<size_t>(times));
  if (!items.empty()) {
    for (int64_t i = 0; i < times; ++i) repeated.insert(repeated.end(), items.begin(), items.end());
  }
  return what.is(Kind::list) ? in.list(std::move(repeated)) : in.tuple(std::move(repeated));
}

bool is_sequence(const Value& v) {
  return v.is(Kind::string) || v.is(Kind::list) || v.is(Kind::tuple);
}

Result<Value> join(Interpreter& in, const Value& a, const Value& b) {
  if (a.is(Kind::string)) {
    INFER_CHECK_R(in.check_size(static_cast<int64_t>(a.text().size() + b.text().size())));
    const bool markup = a.markup() || b.markup();
    const auto part = [&](const Value& v) {
      return markup && !v.markup() ? escape_html(v.text()) : v.text();
    };
    if (markup) return in.string(part(a) + part(b), true);
    std::string joined;
    joined.reserve(a.text().size() + b.text().size());
    joined += a.text();
    joined += b.text();
    return in.string(std::move(joined));
  }
  INFER_CHECK_R(
      in.check_size(static_cast<int64_t>((a.items().size() + b.items().size()) * sizeof(Value))));
  std::vector<Value> items;
  items.reserve(a.items().size() + b.items().size());
  items.insert(items.end(), a.items().begin(), a.items().end());
  items.insert(items.end(), b.items().begin(), b.items().end());
  return a.is(Kind::list) ? in.list(std::move(items)) : in.tuple(std::move(items));
}

}  // namespace

Result<Value> binary(Interpreter& in, char op, const Value& a, const Value& b) {
  if (op == '%' && a.is(Kind::string)) return format_percent(in, a, b);
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::big_integer) || b.is(Kind::big_integer)) return too_large();
    if (a.is_integral() && b.is_integral()) return integers(op, a.integer(), b.integer());
    return reals(op, a.number(), b.number());
  }
  if (op == '+' && a.kind() == b.kind() && is_sequence(a)) return join(in, a, b);
  if (op == '*' && is_sequence(a) && b.is_integral()) return repeat(in, a, b.integer());
  if (op == '*' && is_sequence(b) && a.is_integral()) return repeat(in, b, a.integer());
  for (const Value* side : {&a, &b}) {
    if (side->is(Kind::undefined)) return raise("{}", side->text());
  }
  if (op == '+' && is_sequence(a)) {
    return raise("can only concatenate {0} (not \"{1}\") to {0}", a.type_name(), b.type_name());
  }
  return raise("unsupported operand type(s) for {}: '{}' and '{}'", spelling(op), a.type_name(),
               b.type_name());
}

}  // namespace infer::jinja
