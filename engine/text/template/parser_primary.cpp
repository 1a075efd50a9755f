// What operators stand between: names, literals, subscripts, calls, filters, tests; and targets.
#include "engine/text/template/parser_state.h"

namespace infer::jinja {

/// What can be assigned to: names, tuples of them, and with `members` namespace.attribute.
Result<Expr*> Parser::target(bool members, std::string_view end) {
  const int line = token().line;
  std::vector<Expr*> parts;
  bool is_tuple = false;
  while (true) {
    if (!parts.empty() && ends_tuple(end)) break;
    if (token().is_op("(")) {
      next();
      INFER_TRY(Expr * inner, target(members, ""));
      INFER_CHECK_R(expect_op(")", "after the variables"));
      parts.push_back(inner);
    } else {
      INFER_TRY(std::string name, identifier("the name of a variable"));
      for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
        if (name == constant) return syntax_error(line, "cannot assign to '{}'", name);
      }
      Expr* part = make(ExprKind::name, line);
      part->name = std::move(name);
      if (members && skip_op(".")) {
        part->kind = ExprKind::member;
        INFER_TRY(part->text, identifier("the name of an attribute"));
      }
      parts.push_back(part);
    }
    Nesting nesting(*this);
    INFER_CHECK_R(check_depth());
    if (!skip_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) return parts[0];
  Expr* all = make(ExprKind::tuple, line);
  all->items = std::move(parts);
  return complete(all);
}

Result<Expr*> Parser::primary() {
  const Token& first = token();
  if (first.kind == TokenKind::name) {
    next();
    const std::string& name = first.text;
    Expr* expr = make(ExprKind::constant, first.line);
    if (name == "true" || name == "True") {
      expr->value = Value::of(true);
    } else if (name == "false" || name == "False") {
      expr->value = Value::of(false);
    } else if (name == "none" || name == "None") {
      expr->value = Value::none();
    } else {
      expr->kind = ExprKind::name;
      expr->name = name;
    }
    return expr;
  }
  if (first.kind == TokenKind::string) {
    std::string joined;
    while (token().kind == TokenKind::string) joined += next().text;
    Expr* expr = make(ExprKind::constant, first.line);
    expr->value = Value::string(nullptr, std::move(joined));
    return expr;
  }
  if (first.kind == TokenKind::number) {
    Expr* expr = make(ExprKind::constant, first.line);
    expr->value = next().number;
    return expr;
  }
  if (first.is_op("(")) {
    next();
    INFER_TRY(Expr * inner, tuple(true, "", true));
    INFER_CHECK_R(expect_op(")", "after the expression"));
    return inner;
  }
  if (first.is_op("[")) return list_display();
  if (first.is_op("{")) return dict_display();
  return syntax_error(first.line, "expected an expression, found {}", describe(first));
}

Result<Expr*> Parser::list_display() {
  Expr* list = make(ExprKind::list, next().line);
  while (!token().is_op("]")) {
    if (!list->items.empty()) INFER_CHECK_R(expect_op(",", "between the elements of a list"));
    if (token().is_op("]")) break;
    INFER_TRY(Expr * item, expression());
    list->items.push_back(item);
  }
  next();
  return complete(list);
}

Result<Expr*> Parser::dict_display() {
  Expr* dict = make(ExprKind::dict, next().line);
  while (!token().is_op("}")) {
    if (!dict->items.empty()) INFER_CHECK_R(expect_op(",", "between the entries of a dict"));
    if (token().is_op("}")) break;
    INFER_TRY(Expr * key, expression());
    INFER_CHECK_R(expect_op(":", "after the key of a dict"));
    INFER_TRY(Expr * value, expression());
    dict->items.push_back(key);
    dict->items.push_back(value);
  }
  next();
  return complete(dict);
}

Result<Expr*> Parser::postfix(Expr* expr) {
  while (true) {
    if (token().is_op(".") || token().is_op("[")) {
      INFER_TRY(expr, subscript(expr));
    } else if (token().is_op("(")) {
      INFER_TRY(expr, call(expr));
    } else {
      return expr;
    }
  }
}

Result<Expr*> Parser::filters_and_tests(Expr* expr) {
  while (true) {
    if (token().is_op("|")) {
      INFER_TRY(expr, filter(expr, false));
    } else if (token().is_name("is")) {
      INFER_TRY(expr, test(expr));
    } else if (token().is_op("(")) {
      INFER_TRY(expr, call(expr));
    } else {
      return expr;
    }
  }
}

Result<std::string> Parser::dotted_name() {
  INFER_TRY(std::string name, identifier("the name of a filter or test"));
  while (skip_op(".")) {
    INFER_TRY(const std::string part, identifier("the rest of a name"));
    name += "." + part;
  }
  return name;
}

Result<Expr*> Parser::filter(Expr* expr, bool inline_start) {
  while (inline_start || token().is_op("|")) {
    if (!inline_start) next();
    inline_start = false;
    Expr* filter = make(ExprKind::filter, token().line, expr);
    INFER_TRY(filter->name, dotted_name());
    if (token().is_op("(")) INFER_CHECK_R(arguments(filter->arguments));
    INFER_TRY(expr, complete(filter));
  }
  return expr;
}

Result<Expr*> Parser::test(Expr* expr) {
  const int line = next().line;
  const bool negated = skip_name("not");
  Expr* test = make(ExprKind::test, line, expr);
  INFER_TRY(test->name, dotted_name());
  const Token& t = token();
  if (t.is_op("(")) {
    INFER_CHECK_R(arguments(test->arguments));
  } else if (t.kind == TokenKind::string || t.kind == TokenKind::number || t.is_op("[") ||
             t.is_op("{") ||
             (t.kind == TokenKind::name && t.text != "else" && t.text != "or" && t.text != "and")) {
    if (t.is_name("is")) return syntax_error(t.line, "tests with 'is' cannot be chained");
    INFER_TRY(Expr * argument, primary());
    INFER_TRY(argument, postfix(argument));
    test->arguments.positional.push_back(argument);
  }
  INFER_TRY(test, complete(test));
  if (!negated) return test;
  Expr* negation = make(ExprKind::unary, line, test);
  negation->op = 'n';
  return complete(negation);
}

Result<Expr*> Parser::subscript(Expr* expr) {
  const Token& first = next();
  if (first.is_op(".")) {
    const Token& name = next();
    if (name.kind == TokenKind::name) {
      Expr* attribute = make(ExprKind::attribute, first.line, expr);
      attribute->name = name.text;
      return complete(attribute);
    }
    if (name.kind != TokenKind::number || !name.number.is(Kind::integer)) {
      return syntax_error(name.line, "expected a name or an integer after '.', found {}",
                          describe(name));
    }
    Expr* index = make(ExprKind::constant, name.line);
    index->value = name.number;
    return complete(make(ExprKind::item, first.line, expr, index));
  }
  std::vector<Expr*> keys;
  while (!token().is_op("]")) {
    if (!keys.empty()) INFER_CHECK_R(expect_op(",", "between subscripts"));
    INFER_TRY(Expr * key, subscript_argument());
    keys.push_back(key);
  }
  next();
  if (keys.size() == 1) return complete(make(ExprKind::item, first.line, expr, keys[0]));
  Expr* all = make(ExprKind::tuple, first.line);
  all->items = std::move(keys);
  INFER_TRY(all, complete(all));
  return complete(make(ExprKind::item, first.line, expr, all));
}

Result<Expr*> Parser::subscript_argument() {
  const int line = token().line;
  Expr* start = nullptr;
  Expr* stop = nullptr;
  Expr* step = nullptr;
  if (!token().is_op(":")) {
    INFER_TRY(start, expression());
    if (!token().is_op(":")) return start;
  }
  const auto at_end = [&] { return token().is_op("]") || token().is_op(","); };
  next();
  if (!token().is_op(":") && !at_end()) {
    INFER_TRY(stop, expression());
  }
  if (skip_op(":") && !at_end()) {
    INFER_TRY(step, expression());
  }
  Expr* slice = make(ExprKind::slice, line);
  slice->items = {start, stop, step};
  return complete(slice);
}

Result<Expr*> Parser::call(Expr* callee) {
  Expr* call = make(ExprKind::call, token().line, callee);
  INFER_CHECK_R(arguments(call->arguments));
  return complete(call);
}

Status Parser::arguments(CallArguments& to) {
  const int line = next().line;
  const auto refuse = [&](bool wrong) -> Status {
    if (!wrong) return {};
    return syntax_error(line, "arguments by position stand before those by name and '**'").value();
  };
  bool first = true;
  while (!token().is_op(")")) {
    if (!first) INFER_CHECK(expect_op(",", "between arguments"));
    if (token().is_op(")")) break;
    first = false;
    if (skip_op("*")) {
      INFER_CHECK(refuse(to.more != nullptr || to.more_named != nullptr));
      INFER_TRY_S(to.more, expression());
    } else if (skip_op("**")) {
      INFER_CHECK(refuse(to.more_named != nullptr));
      INFER_TRY_S(to.more_named, expression());
    } else if (token().kind == TokenKind::name && ahead().is_op("=")) {
      INFER_CHECK(refuse(to.more_named != nullptr));
      std::string name = next().text;
      next();
      INFER_TRY_S(Expr * value, expression());
      to.named.emplace_back(std::move(name), value);
    } else {
      INFER_CHECK(refuse(to.more != nullptr || to.more_named != nullptr || !to.named.empty()));
      INFER_TRY_S(Expr * value, expression());
      to.positional.push_back(value);
    }
  }
  next();
  return {};
}

}  // namespace infer::jinja
