// Expressions, from the loosest operator to the tightest.
#include <algorithm>

#include "engine/text/template/parser_state.h"

namespace infer::jinja {

Expr* Parser::make(ExprKind kind, int line, Expr* a, Expr* b, Expr* c) {
  Expr& expr = ast_.expressions.emplace_back();
  expr.kind = kind;
  expr.line = line;
  expr.a = a;
  expr.b = b;
  expr.c = c;
  return &expr;
}

Result<Expr*> Parser::complete(Expr* expr) {
  const auto include = [&](const Expr* part) {
    if (part != nullptr) expr->depth = std::max(expr->depth, part->depth + 1);
  };
  for (const Expr* part :
       {expr->a, expr->b, expr->c, expr->arguments.more, expr->arguments.more_named}) {
    include(part);
  }
  for (const Expr* item : expr->items) include(item);
  for (const Expr* item : expr->arguments.positional) include(item);
  for (const auto& [name, item] : expr->arguments.named) include(item);
  if (expr->depth <= kMaxTreeDepth) return expr;
  return syntax_error(expr->line, "an expression has more than {} parts within one another",
                      kMaxTreeDepth);
}

bool Parser::ends_tuple(std::string_view end) const {
  return token().kind == TokenKind::variable_end || token().kind == TokenKind::block_end ||
         token().is_op(")") || (!end.empty() && token().is_name(end));
}

Result<Expr*> Parser::tuple(bool conditions, std::string_view end, bool may_be_empty) {
  const int line = token().line;
  Nesting nesting(*this);
  INFER_CHECK_R(check_depth());
  std::vector<Expr*> items;
  bool is_tuple = false;
  while (!ends_tuple(end)) {
    INFER_TRY(Expr * item, conditions ? conditional() : disjunction());
    items.push_back(item);
    if (!skip_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return items[0];
  if (items.empty() && !may_be_empty) {
    return syntax_error(line, "expected an expression, found {}", describe(token()));
  }
  Expr* all = make(ExprKind::tuple, line);
  all->items = std::move(items);
  return complete(all);
}

Result<Expr*> Parser::conditional() {
  const int line = token().line;
  Nesting nesting(*this);
  INFER_CHECK_R(check_depth());
  INFER_TRY(Expr * value, disjunction());
  while (skip_name("if")) {
    INFER_TRY(Expr * condition, disjunction());
    Expr* otherwise = nullptr;
    if (skip_name("else")) {
      INFER_TRY(otherwise, conditional());
    }
    INFER_TRY(value, complete(make(ExprKind::conditional, line, condition, value, otherwise)));
  }
  return value;
}

Result<Expr*> Parser::disjunction() {
  INFER_TRY(Expr * left, conjunction());
  while (token().is_name("or")) {
    const int line = next().line;
    INFER_TRY(Expr * right, conjunction());
    Expr* both = make(ExprKind::logical, line, left, right);
    both->op = '|';
    INFER_TRY(left, complete(both));
  }
  return left;
}

Result<Expr*> Parser::conjunction() {
  INFER_TRY(Expr * left, negation());
  while (token().is_name("and")) {
    const int line = next().line;
    INFER_TRY(Expr * right, negation());
    Expr* both = make(ExprKind::logical, line, left, right);
    both->op = '&';
    INFER_TRY(left, complete(both));
  }
  return left;
}

Result<Expr*> Parser::negation() {
  if (!token().is_name("not")) return comparison();
  const int line = next().line;
  Nesting nesting(*this);
  INFER_CHECK_R(check_depth());
  INFER_TRY(Expr * inner, negation());
  Expr* negated = make(ExprKind::unary, line, inner);
  negated->op = 'n';
  return complete(negated);
}

Result<Expr*> Parser::comparison() {
  constexpr std::pair<std::string_view, Comparison> kOperators[] = {
      {"==", Comparison::eq}, {"!=", Comparison::ne}, {"<", Comparison::lt},
      {"<=", Comparison::le}, {">", Comparison::gt},  {">=", Comparison::ge}};
  INFER_TRY(Expr * first, sum());
  Expr* all = nullptr;
  while (true) {
    std::optional<Comparison> found;
    for (const auto& [op, comparison] : kOperators) {
      if (token().is_op(op)) found = comparison;
    }
    if (token().is_name("in")) found = Comparison::in;
    const bool negated = token().is_name("not") && ahead().is_name("in");
    if (negated) found = Comparison::not_in;
    if (!found) break;
    if (negated) next();
    const int line = next().line;
    if (all == nullptr) all = make(ExprKind::compare, line, first);
    INFER_TRY(Expr * operand, sum());
    all->comparisons.push_back(*found);
    all->items.push_back(operand);
  }
  return all == nullptr ? Result<Expr*>(first) : complete(all);
}

template <typename Parse>
Result<Expr*> Parser::left_associative(
    ExprKind kind, std::initializer_list<std::pair<std::string_view, char>> operators,
    Parse parse) {
  INFER_TRY(Expr * left, parse());
  while (true) {
    char op = 0;
    for (const auto& [spelling, meaning] : operators) {
      if (token().is_op(spelling)) op = meaning;
    }
    if (op == 0) return left;
    const int line = next().line;
    INFER_TRY(Expr * right, parse());
    Expr* both = make(kind, line, left, right);
    both->op = op;
    INFER_TRY(left, complete(both));
  }
}

Result<Expr*> Parser::sum() {
  return left_associative(ExprKind::binary, {{"+", '+'}, {"-", '-'}},
                          [this] { return concatenation(); });
}

Result<Expr*> Parser::concatenation() {
  const int line = token().line;
  INFER_TRY(Expr * first, product());
  if (!token().is_op("~")) return first;
  Expr* all = make(ExprKind::concat, line);
  all->items.push_back(first);
  while (skip_op("~")) {
    INFER_TRY(Expr * item, product());
    all->items.push_back(item);
  }
  return complete(all);
}

Result<Expr*> Parser::product() {
  return left_associative(ExprKind::binary, {{"*", '*'}, {"/", '/'}, {"//", 'f'}, {"%", '%'}},
                          [this] { return power(); });
}

Result<Expr*> Parser::power() {
  return left_associative(ExprKind::binary, {{"**", 'p'}}, [this] { return unary(true); });
}

Result<Expr*> Parser::unary(bool with_filters) {
  Nesting nesting(*this);
  INFER_CHECK_R(check_depth());
  Expr* expr = nullptr;
  if (token().is_op("-") || token().is_op("+")) {
    const Token& sign = next();
    INFER_TRY(Expr * inner, unary(false));
    expr = make(ExprKind::unary, sign.line, inner);
    expr->op = sign.text[0];
    INFER_TRY(expr, complete(expr));
  } else {
    INFER_TRY(expr, primary());
  }
  INFER_TRY(expr, postfix(expr));
  return with_filters ? filters_and_tests(expr) : Result<Expr*>(expr);
}

}  // namespace infer::jinja
