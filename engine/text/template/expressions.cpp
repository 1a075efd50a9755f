// Expressions.
#include <algorithm>

#include "engine/text/template/depth.h"

namespace infer::jinja {

Result<Value> Interpreter::eval(const Expr& expr) {
  if (expr.kind == ExprKind::constant) return expr.value;
  if (expr.kind == ExprKind::name) return eval_name(expr);
  if (!budget_.step() || budget_.spent()) return tl::unexpected(budget_.failure());
  const Depth depth(*this);
  if (depth.too_deep()) return depth.failure();
  return evaluate(expr);
}

Result<Value> Interpreter::evaluate(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::constant: return expr.value;
    case ExprKind::name:
    case ExprKind::member: return eval_name(expr);
    case ExprKind::attribute: {
      INFER_TRY(const Value object, eval(*expr.a));
      return attribute(object, expr.name);
    }
    case ExprKind::item: return eval_item(expr);
    case ExprKind::slice: return raise("a slice stands only in square brackets of its own");
    case ExprKind::call: return eval_call(expr);
    case ExprKind::filter:
    case ExprKind::test: return eval_builtin(expr, block_text_);
    case ExprKind::list:
    case ExprKind::tuple: return eval_items(expr);
    case ExprKind::dict: return eval_dict(expr);
    case ExprKind::unary: return eval_unary(expr);
    case ExprKind::binary: return eval_binary(expr);
    case ExprKind::logical: return eval_logical(expr);
    case ExprKind::concat: return eval_concat(expr);
    case ExprKind::compare: return eval_compare(expr);
    case ExprKind::conditional: return eval_conditional(expr);
  }
  return Value();
}

Result<Value> Interpreter::eval_name(const Expr& expr) {
  budget_.work(Budget::kStep + expr.slot.hops);
  const Value& value = slot(expr.slot);
  if (!value.is(Kind::missing)) return value;
  return undefined("'" + expr.name + "' is undefined");
}

Result<Value> Interpreter::eval_item(const Expr& expr) {
  INFER_TRY(const Value object, eval(*expr.a));
  if (expr.b->kind != ExprKind::slice) {
    INFER_TRY(const Value key, eval(*expr.b));
    line_ = expr.line;
    return item(object, key);
  }
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expr.b->items[i] == nullptr) continue;
    INFER_TRY(bounds[i], eval(*expr.b->items[i]));
  }
  line_ = expr.line;
  return slice(object, bounds[0], bounds[1], bounds[2]);
}

Result<Value> Interpreter::eval_call(const Expr& expr) {
  INFER_TRY(const Value callee, eval(*expr.a));
  INFER_TRY(Arguments given, arguments(expr.arguments));
  line_ = expr.line;
  return call(callee, std::move(given));
}

/// A filter or test; `text` is what a filter without operand is applied to.
Result<Value> Interpreter::eval_builtin(const Expr& expr, const Value* text) {
  Value self;
  if (expr.a == nullptr) {
    self = *text;
  } else {
    INFER_TRY(self, eval(*expr.a));
  }
  INFER_TRY(Arguments given, arguments(expr.arguments));
  line_ = expr.line;
  if (expr.builtin == nullptr) {
    return raise("there is no {} named '{}'", expr.kind == ExprKind::filter ? "filter" : "test",
                 shortened(expr.name));
  }
  return run_builtin(*this, *expr.builtin, self, std::move(given));
}

Result<Value> Interpreter::eval_items(const Expr& expr) {
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const Expr* item : expr.items) {
    INFER_TRY(Value value, eval(*item));
    items.push_back(std::move(value));
  }
  return expr.kind == ExprKind::list ? list(std::move(items)) : tuple(std::move(items));
}

Result<Value> Interpreter::eval_dict(const Expr& expr) {
  std::vector<std::pair<Value, Value>> entries;
  entries.reserve(expr.items.size() / 2);
  for (size_t i = 0; i < expr.items.size(); i += 2) {
    INFER_TRY(Value key, eval(*expr.items[i]));
    if (!hashable(key)) return raise("unhashable type: '{}'", key.type_name());
    INFER_TRY(Value value, eval(*expr.items[i + 1]));
    entries.emplace_back(std::move(key), std::move(value));
  }
  return dict(std::move(entries));
}

Result<Value> Interpreter::eval_unary(const Expr& expr) {
  INFER_TRY(const Value value, eval(*expr.a));
  if (expr.op == 'n') return Value::of(!value.truth());
  if (value.is(Kind::real)) return Value::of(expr.op == '-' ? -value.number() : value.number());
  if (value.is_integral()) {
    if (expr.op == '+') return Value::of(value.integer());
    return binary(*this, '-', Value::of(int64_t{0}), value);
  }
  if (value.is(Kind::undefined)) return raise("{}", value.text());
  return raise("bad operand type for unary {}: '{}'", expr.op, value.type_name());
}

/// Chains such as a + b + c lean to the left: they are walked in a loop.
Result<Value> Interpreter::eval_binary(const Expr& expr) {
  std::vector<const Expr*> chain{&expr};
  while (chain.back()->a->kind == ExprKind::binary) chain.push_back(chain.back()->a);
  INFER_TRY(Value left, eval(*chain.back()->a));
  for (size_t i = chain.size(); i-- > 0;) {
    INFER_TRY(const Value right, eval(*chain[i]->b));
    if (!budget_.step() || budget_.spent()) return tl::unexpected(budget_.failure());
    line_ = chain[i]->line;
    INFER_TRY(left, binary(*this, chain[i]->op, left, right));
  }
  return left;
}

Result<Value> Interpreter::eval_logical(const Expr& expr) {
  INFER_TRY(Value left, eval(*expr.a));
  if (left.truth() == (expr.op == '|')) return left;
  return eval(*expr.b);
}

Result<Value> Interpreter::eval_concat(const Expr& expr) {
  std::string text;
  for (const Expr* item : expr.items) {
    INFER_TRY(const Value value, eval(*item));
    if (value.is(Kind::string)) {
      INFER_CHECK_R(append(text, value.text()));
    } else {
      INFER_TRY(const std::string part, str(value));
      INFER_CHECK_R(append(text, part));
    }
  }
  return string(std::move(text));
}

Result<bool> Interpreter::compare(Comparison op, const Value& a, const Value& b) {
  switch (op) {
    case Comparison::eq: return equal(budget_, a, b);
    case Comparison::ne: return !equal(budget_, a, b);
    case Comparison::lt: return less(budget_, a, b);
    case Comparison::gt: return less(budget_, b, a);
    case Comparison::in: return contains(b, a);
    case Comparison::not_in: {
      INFER_TRY(const bool in, contains(b, a));
      return !in;
    }
    case Comparison::le:
    case Comparison::ge: {
      const bool swapped = op == Comparison::ge;
      INFER_TRY(const bool below, swapped ? less(budget_, b, a) : less(budget_, a, b));
      return below || equal(budget_, a, b);
    }
  }
  return false;
}

Result<Value> Interpreter::eval_compare(const Expr& expr) {
  INFER_TRY(Value left, eval(*expr.a));
  for (size_t i = 0; i < expr.items.size(); ++i) {
    INFER_TRY(Value right, eval(*expr.items[i]));
    line_ = expr.line;
    INFER_TRY(const bool holds, compare(expr.comparisons[i], left, right));
    if (!holds) return Value::of(false);
    left = std::move(right);
  }
  return Value::of(true);
}

Result<Value> Interpreter::eval_conditional(const Expr& expr) {
  INFER_TRY(const Value condition, eval(*expr.a));
  if (condition.truth()) return eval(*expr.b);
  if (expr.c != nullptr) return eval(*expr.c);
  return undefined("the inline if-expression evaluated to false and no else section was defined");
}

}  // namespace infer::jinja
