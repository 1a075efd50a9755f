#include "engine/text/template/scopes.h"

#include <algorithm>
#include <set>

#include "engine/text/template/builtins.h"
#include "engine/text/template/lexer.h"
#include "engine/text/template/symbols.h"

namespace infer::jinja {
namespace {

/// Calls `on_name(name, stores)` for the names of an expression, in the order of the source.
template <typename OnName>
void names_of(const Expr* expr, const OnName& on_name, bool as_target = false) {
  if (expr == nullptr) return;
  if (expr->kind == ExprKind::name) return on_name(expr->name, as_target);
  if (expr->kind == ExprKind::member) return on_name(expr->name, false);
  if (expr->kind == ExprKind::conditional) {
    for (const Expr* part : {expr->a, expr->b, expr->c}) names_of(part, on_name);
    return;
  }
  for (const Expr* part : {expr->a, expr->b, expr->c}) names_of(part, on_name);
  for (const Expr* item : expr->items) names_of(item, on_name, as_target);
  for (const Expr* item : expr->arguments.positional) names_of(item, on_name);
  for (const auto& [name, item] : expr->arguments.named) names_of(item, on_name);
  names_of(expr->arguments.more, on_name);
  names_of(expr->arguments.more_named, on_name);
}

/// Which of some special names a body reads before it assigns them, in all that is within it.
class Uses {
 public:
  Uses(std::set<std::string> names, Effort& effort) : open_(std::move(names)), effort_(effort) {}

  bool read(const std::string& name) const { return read_.contains(name); }

  void body(const Body& body) {
    for (const Stmt* stmt : body) {
      effort_.take(1);
      if (open_.empty() || effort_.spent()) return;
      statement(*stmt);
    }
  }

 private:
  void expression(const Expr* expr, bool target = false) {
    names_of(
        expr,
        [&](const std::string& name, bool stores) {
          effort_.take(1);
          if (open_.erase(name) > 0 && !stores) read_.insert(name);
        },
        target);
  }

  void statement(const Stmt& stmt) {
    expression(stmt.target, true);
    expression(stmt.expr);
    if (stmt.function != nullptr) {
      for (const std::string& name : stmt.function->parameters) open_.erase(name);
      for (const Expr* value : stmt.function->defaults) expression(value);
    }
    for (const auto& [to, value] : stmt.bindings) {
      expression(to, true);
      expression(value);
    }
    body(stmt.body);
    for (const auto& [condition, inner] : stmt.branches) {
      expression(condition);
      body(inner);
    }
    body(stmt.otherwise);
    expression(stmt.test);
  }

  std::set<std::string> open_;
  std::set<std::string> read_;
  Effort& effort_;
};

class Resolver {
 public:
  explicit Resolver(Ast& ast) : ast_(ast) {}

  Status run() {
    Symbols symbols(nullptr, 0, ast_.root, effort_);
    collect(symbols, ast_.body);
    ast_.root.loads = symbols.loads();
    INFER_CHECK(body(ast_.body, symbols, false));
    if (!effort_.spent()) return {};
    return syntax_error(1, "too many names in blocks within one another").value();
  }

 private:
  // First pass over a scope: what its names are. Stops at the scopes within.

  static void collect(Symbols& symbols, const Expr* expr, bool target = false) {
    names_of(
        expr,
        [&](const std::string& name, bool stores) {
          stores ? symbols.store(name) : symbols.load(name);
        },
        target);
  }

  static void parameters(Symbols& symbols, const Expr* target) {
    names_of(target, [&](const std::string& name, bool) { symbols.declare(name); });
  }

  static void collect(Symbols& symbols, const Body& body) {
    for (const Stmt* stmt : body) collect(symbols, *stmt);
  }

  static void collect(Symbols& symbols, const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::macro: symbols.store(stmt.function->name); break;
      case StmtKind::branch: collect_branch(symbols, stmt); break;
      case StmtKind::assign:
        collect(symbols, stmt.expr);
        collect(symbols, stmt.target, true);
        break;
      case StmtKind::assign_body: collect(symbols, stmt.target, true); break;
      case StmtKind::with:
        for (const auto& [to, value] : stmt.bindings) collect(symbols, value);
        break;
      case StmtKind::scope: break;
      default: collect(symbols, stmt.expr);
    }
  }

  static void collect_branch(Symbols& symbols, const Stmt& stmt) {
    collect(symbols, stmt.branches[0].first);
    Symbols first = symbols.overlay();
    collect(first, stmt.branches[0].second);
    Symbols rest = symbols.overlay();
    for (size_t i = 1; i < stmt.branches.size(); ++i) {
      collect(rest, stmt.branches[i].first);
      Symbols inner = rest.overlay();
      collect(inner, stmt.branches[i].second);
      rest.merge({&inner});
    }
    Symbols otherwise = symbols.overlay();
    collect(otherwise, stmt.otherwise);
    symbols.merge({&first, &rest, &otherwise});
  }

  // Second pass: names become slots. `soft`: within a branch, where unknown filters only fail when
  // they are reached.

  Slot slot(const Symbols& symbols, const std::string& name) const {
    const Place* place = symbols.find(name);
    if (place == nullptr) return {};
    return {symbols.function() - place->function, place->index};
  }

  Status body(Body& body, Symbols& symbols, bool soft) {
    for (Stmt* stmt : body) INFER_CHECK(statement(*stmt, symbols, soft));
    return {};
  }

  Status assigned(Expr* target, Symbols& symbols) {
    Status status;
    names_of(
        target,
        [&](const std::string& name, bool stores) {
          if (stores && name == "loop" && loops_ > 0) {
            status = syntax_error(target->line, "'loop' cannot be assigned within a loop").value();
          }
        },
        true);
    INFER_CHECK(status);
    return expression(target, symbols, false);
  }

  Status statement(Stmt& stmt, Symbols& symbols, bool soft) {
    if (effort_.spent()) {
      return syntax_error(stmt.line, "too many names in blocks within one another").value();
    }
    switch (stmt.kind) {
      case StmtKind::loop: return loop(stmt, symbols, soft);
      case StmtKind::branch:
        for (auto& [condition, inner] : stmt.branches) {
          INFER_CHECK(expression(condition, symbols, true));
          INFER_CHECK(body(inner, symbols, true));
        }
        return body(stmt.otherwise, symbols, true);
      case StmtKind::assign:
        INFER_CHECK(assigned(stmt.target, symbols));
        return expression(stmt.expr, symbols, soft);
      case StmtKind::assign_body: {
        Symbols inner(&symbols, symbols.function(), symbols.owner(), effort_);
        collect(inner, stmt.body);
        collect(inner, stmt.expr);
        stmt.loads = inner.loads();
        INFER_CHECK(body(stmt.body, inner, false));
        INFER_CHECK(assigned(stmt.target, symbols));
        return expression(stmt.expr, inner, false);
      }
      case StmtKind::filter: {
        Symbols inner(&symbols, symbols.function(), symbols.owner(), effort_);
        collect(inner, stmt.body);
        collect(inner, stmt.expr);
        stmt.loads = inner.loads();
        INFER_CHECK(body(stmt.body, inner, false));
        return expression(stmt.expr, inner, false);
      }
      case StmtKind::scope: {
        Symbols inner(&symbols, symbols.function(), symbols.owner(), effort_);
        collect(inner, stmt.body);
        stmt.loads = inner.loads();
        return body(stmt.body, inner, false);
      }
      case StmtKind::with: return with(stmt, symbols, soft);
      case StmtKind::macro:
        INFER_CHECK(function(stmt, symbols));
        stmt.name_slot = slot(symbols, stmt.function->name);
        return {};
      case StmtKind::call:
        INFER_CHECK(function(stmt, symbols));
        return expression(stmt.expr, symbols, soft);
      default: return expression(stmt.expr, symbols, soft);
    }
  }

  Status with(Stmt& stmt, Symbols& symbols, bool soft) {
    Symbols inner(&symbols, symbols.function(), symbols.owner(), effort_);
    for (const auto& [to, value] : stmt.bindings) parameters(inner, to);
    collect(inner, stmt.body);
    stmt.loads = inner.loads();
    for (const auto& [to, value] : stmt.bindings) {
      INFER_CHECK(expression(to, inner, false));
      INFER_CHECK(expression(value, symbols, soft));
    }
    return body(stmt.body, inner, false);
  }

  Expr* copy_target(const Expr& target) {
    Expr& copy = ast_.expressions.emplace_back(target);
    for (Expr*& item : copy.items) item = copy_target(*item);
    return &copy;
  }

  Status loop(Stmt& stmt, Symbols& symbols, bool soft) {
    INFER_CHECK(expression(stmt.expr, symbols, soft));
    int depth = symbols.function();
    Function* owner = &symbols.owner();
    if (stmt.recursive) {
      stmt.function = &ast_.functions.emplace_back();
      stmt.function->name = "loop";
      owner = stmt.function;
      ++depth;
    }
    ++loops_;
    if (stmt.test != nullptr) {
      Symbols test(&symbols, depth, *owner, effort_);
      parameters(test, stmt.target);
      collect(test, stmt.test);
      stmt.test_loads = test.loads();
      stmt.test_target = copy_target(*stmt.target);
      INFER_CHECK(expression(stmt.test_target, test, false));
      INFER_CHECK(expression(stmt.test, test, false));
    }
    Symbols inner(&symbols, depth, *owner, effort_);
    Uses uses({"loop"}, effort_);
    uses.body(stmt.body);
    if (stmt.recursive || uses.read("loop")) {
      inner.declare("loop");
      stmt.loop_slot = slot(inner, "loop");
    }
    parameters(inner, stmt.target);
    collect(inner, stmt.body);
    stmt.loads = inner.loads();
    INFER_CHECK(assigned(stmt.target, inner));
    INFER_CHECK(body(stmt.body, inner, false));
    --loops_;
    Symbols otherwise(&symbols, depth, *owner, effort_);
    collect(otherwise, stmt.otherwise);
    stmt.else_loads = otherwise.loads();
    return body(stmt.otherwise, otherwise, false);
  }

  /// The body of a macro or call block, a function of its own.
  Status function(Stmt& stmt, Symbols& symbols) {
    Function& function = *stmt.function;
    Symbols inner(&symbols, symbols.function() + 1, function, effort_);
    for (const std::string& name : function.parameters) {
      inner.declare(name);
      function.parameter_slots.push_back(slot(inner, name));
    }
    for (const Expr* value : function.defaults) collect(inner, value);
    collect(inner, stmt.body);
    Uses uses({"caller", "kwargs", "varargs"}, effort_);
    uses.body(stmt.body);
    for (const auto& [name, to] :
         {std::pair{"caller", &function.caller}, std::pair{"kwargs", &function.kwargs},
          std::pair{"varargs", &function.varargs}}) {
      const auto own = std::ranges::find(function.parameters, name);
      if (!uses.read(name)) continue;
      if (own == function.parameters.end()) {
        inner.declare(name);
        *to = slot(inner, name);
      } else if (to == &function.caller && function.parameters.end() - own >
                                               static_cast<ptrdiff_t>(function.defaults.size())) {
        return syntax_error(stmt.line, "a parameter named 'caller' needs a default").value();
      }
    }
    function.loads = inner.loads();
    for (Expr* value : function.defaults) INFER_CHECK(expression(value, inner, false));
    return body(stmt.body, inner, false);
  }

  Status expression(Expr* expr, Symbols& symbols, bool soft) {
    if (expr == nullptr) return {};
    if (expr->kind == ExprKind::name || expr->kind == ExprKind::member) {
      expr->slot = slot(symbols, expr->name);
      return {};
    }
    if (expr->kind == ExprKind::conditional) soft = true;
    if (expr->kind == ExprKind::filter || expr->kind == ExprKind::test) {
      const bool filter = expr->kind == ExprKind::filter;
      expr->builtin = filter ? find_filter(expr->name) : find_test(expr->name);
      if (expr->builtin == nullptr && !soft) {
        return syntax_error(expr->line, "there is no {} named '{}'", filter ? "filter" : "test",
                            shortened(expr->name))
            .value();
      }
    }
    for (Expr* part :
         {expr->a, expr->b, expr->c, expr->arguments.more, expr->arguments.more_named}) {
      INFER_CHECK(expression(part, symbols, soft));
    }
    for (Expr* item : expr->items) INFER_CHECK(expression(item, symbols, soft));
    for (Expr* item : expr->arguments.positional) INFER_CHECK(expression(item, symbols, soft));
    for (auto& [name, item] : expr->arguments.named) {
      INFER_CHECK(expression(item, symbols, soft));
    }
    return {};
  }

  Ast& ast_;
  Effort effort_;
  int loops_ = 0;
};

}  // namespace

Status resolve(Ast& ast) { return Resolver(ast).run(); }

}  // namespace infer::jinja
