#include "engine/text/template/parser.h"

#include <algorithm>

#include "engine/text/template/parser_state.h"
#include "engine/text/template/scopes.h"
#include "engine/text/unicode.h"

namespace infer::jinja {

Result<std::unique_ptr<Ast>> parse(std::string_view source) {
  if (source.size() > kMaxSource) {
    return fail(StatusCode::bad_file, "template: {} bytes are more than {}", source.size(),
                kMaxSource);
  }
  for (size_t pos = 0; pos < source.size();) {
    const Utf8Char c = decode_utf8(source, pos);
    if (!c.valid) return fail(StatusCode::bad_file, "template: byte {} is not UTF-8", pos);
    pos += c.size;
  }
  INFER_TRY(std::vector<Token> tokens, tokenize(source));
  auto ast = std::make_unique<Ast>();
  INFER_CHECK_R(Parser(std::move(tokens), *ast).run());
  INFER_CHECK_R(resolve(*ast));
  return ast;
}

Status Parser::run() {
  INFER_CHECK(body(ast_.body, {}));
  return {};
}

const Token& Parser::next() {
  const Token& current = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return current;
}

bool Parser::skip_op(std::string_view op) {
  if (!token().is_op(op)) return false;
  next();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!token().is_name(name)) return false;
  next();
  return true;
}

Status Parser::expect_op(std::string_view op, std::string_view where) {
  if (skip_op(op)) return {};
  return syntax_error(token().line, "expected '{}' {}, found {}", op, where, describe(token()))
      .value();
}

Status Parser::expect_name(std::string_view name) {
  if (skip_name(name)) return {};
  return syntax_error(token().line, "expected '{}', found {}", name, describe(token())).value();
}

Result<std::string> Parser::identifier(std::string_view what) {
  if (token().kind != TokenKind::name) {
    return syntax_error(token().line, "expected {}, found {}", what, describe(token()));
  }
  return next().text;
}

Stmt* Parser::make(StmtKind kind, int line) {
  Stmt& stmt = ast_.statements.emplace_back();
  stmt.kind = kind;
  stmt.line = line;
  return &stmt;
}

Status Parser::check_depth() const {
  if (depth_ <= kMaxParserDepth) return {};
  return syntax_error(token().line, "more than {} brackets or blocks within one another",
                      kMaxParserDepth)
      .value();
}

Status Parser::end_of_block() {
  if (token().kind == TokenKind::block_end) {
    next();
    return {};
  }
  return syntax_error(token().line, "expected '%}}', found {}", describe(token())).value();
}

/// Statements and text up to a block that begins with one of `ends`; that name is the token then.
/// Without ends, to the end of the template.
Status Parser::body(Body& to, Ends ends) {
  const int line = tokens_[at_ > 0 ? at_ - 1 : 0].line;
  while (token().kind != TokenKind::end) {
    if (token().kind == TokenKind::data) {
      Stmt* text = make(StmtKind::text, token().line);
      text->text = next().text;
      to.push_back(text);
    } else if (token().kind == TokenKind::variable_begin) {
      Stmt* output = make(StmtKind::output, next().line);
      INFER_TRY_S(output->expr, tuple(true, "", false));
      if (token().kind != TokenKind::variable_end) {
        return syntax_error(token().line, "expected '}}}}', found {}", describe(token())).value();
      }
      next();
      to.push_back(output);
    } else {
      next();  // {%
      if (token().kind == TokenKind::name && std::ranges::find(ends, token().text) != ends.end()) {
        return {};
      }
      if (token().is_name("print")) {
        INFER_TRY_S(Stmt * last, print(to));
        to.push_back(last);
      } else {
        INFER_TRY_S(Stmt * stmt, statement());
        to.push_back(stmt);
      }
      INFER_CHECK(end_of_block());
    }
  }
  if (ends.size() == 0) return {};
  return syntax_error(line, "the block is not closed by '{}'", *(ends.end() - 1)).value();
}

Status Parser::block_body(Body& to, Ends ends) {
  skip_op(":");  // as in Python
  INFER_CHECK(end_of_block());
  Nesting nesting(*this);
  INFER_CHECK(check_depth());
  return body(to, ends);
}

Result<Stmt*> Parser::statement() {
  const Token& first = token();
  if (first.kind != TokenKind::name) {
    return syntax_error(first.line, "expected the name of a block, found {}", describe(first));
  }
  const std::string& name = first.text;
  if (name == "for") return for_loop();
  if (name == "if") return branch();
  if (name == "set") return assignment();
  if (name == "macro") return macro();
  if (name == "call") return call_block();
  if (name == "filter") return filter_block();
  if (name == "with") return with_block();
  if (name == "generation") return scope(StmtKind::call, "endgeneration");
  if (name == "autoescape") return scope(StmtKind::scope, "endautoescape");
  if (name == "break" || name == "continue") {
    if (loops_ == 0) return syntax_error(first.line, "'{}' outside of a loop", name);
    return make(name == "break" ? StmtKind::break_ : StmtKind::continue_, next().line);
  }
  for (const std::string_view other : {"import", "from", "include", "extends", "block"}) {
    if (name == other) {
      return fail(StatusCode::unsupported,
                  "template, line {}: '{}' is not supported: a chat template is one file",
                  first.line, name);
    }
  }
  return syntax_error(first.line, "'{}' is not a block that is known or open here",
                      shortened(name));
}

Result<Stmt*> Parser::for_loop() {
  Stmt* loop = make(StmtKind::loop, next().line);
  INFER_TRY(loop->target, target(false, "in"));
  INFER_CHECK_R(expect_name("in"));
  INFER_TRY(loop->expr, tuple(false, "recursive", false));
  if (skip_name("if")) {
    INFER_TRY(loop->test, expression());
  }
  loop->recursive = skip_name("recursive");
  ++loops_;
  INFER_CHECK_R(block_body(loop->body, {"else", "endfor"}));
  --loops_;
  if (next().text == "else") {
    INFER_CHECK_R(block_body(loop->otherwise, {"endfor"}));
    next();
  }
  return loop;
}

Result<Stmt*> Parser::branch() {
  Stmt* branch = make(StmtKind::branch, token().line);
  while (true) {
    next();  // if, elif
    auto& [condition, body] = branch->branches.emplace_back();
    INFER_TRY(condition, tuple(false, "", false));
    INFER_CHECK_R(block_body(body, {"elif", "else", "endif"}));
    if (!token().is_name("elif")) break;
  }
  if (next().text == "else") {
    INFER_CHECK_R(block_body(branch->otherwise, {"endif"}));
    next();
  }
  return branch;
}

Result<Stmt*> Parser::assignment() {
  const int line = next().line;
  INFER_TRY(Expr * to, target(true, ""));
  if (skip_op("=")) {
    Stmt* assign = make(StmtKind::assign, line);
    assign->target = to;
    INFER_TRY(assign->expr, tuple(true, "", false));
    return assign;
  }
  Stmt* assign = make(StmtKind::assign_body, line);
  assign->target = to;
  if (token().is_op("|")) {
    INFER_TRY(assign->expr, filter(nullptr, false));
  }
  INFER_CHECK_R(block_body(assign->body, {"endset"}));
  next();
  return assign;
}

Status Parser::signature(Function& function) {
  INFER_CHECK(expect_op("(", "before the parameters"));
  while (!token().is_op(")")) {
    if (!function.parameters.empty()) INFER_CHECK(expect_op(",", "between parameters"));
    INFER_TRY_S(std::string name, identifier("the name of a parameter"));
    function.parameters.push_back(std::move(name));
    if (skip_op("=")) {
      INFER_TRY_S(Expr * value, expression());
      function.defaults.push_back(value);
    } else if (!function.defaults.empty()) {
      return syntax_error(token().line, "a parameter without default follows one with default")
          .value();
    }
  }
  next();
  return {};
}

Result<Stmt*> Parser::macro() {
  Stmt* macro = make(StmtKind::macro, next().line);
  macro->function = &ast_.functions.emplace_back();
  INFER_TRY(macro->function->name, identifier("the name of a macro"));
  INFER_CHECK_R(signature(*macro->function));
  const int loops = std::exchange(loops_, 0);
  INFER_CHECK_R(block_body(macro->body, {"endmacro"}));
  loops_ = loops;
  next();
  return macro;
}

Result<Stmt*> Parser::call_block() {
  Stmt* call = make(StmtKind::call, next().line);
  call->function = &ast_.functions.emplace_back();
  call->function->name = "caller";
  if (token().is_op("(")) INFER_CHECK_R(signature(*call->function));
  INFER_TRY(call->expr, expression());
  if (call->expr->kind != ExprKind::call) {
    return syntax_error(call->line, "expected a call of a macro after 'call'");
  }
  const int loops = std::exchange(loops_, 0);
  INFER_CHECK_R(block_body(call->body, {"endcall"}));
  loops_ = loops;
  next();
  return call;
}

Result<Stmt*> Parser::filter_block() {
  Stmt* block = make(StmtKind::filter, next().line);
  INFER_TRY(block->expr, filter(nullptr, true));
  INFER_CHECK_R(block_body(block->body, {"endfilter"}));
  next();
  return block;
}

Result<Stmt*> Parser::with_block() {
  Stmt* with = make(StmtKind::with, next().line);
  while (token().kind != TokenKind::block_end) {
    if (!with->bindings.empty()) INFER_CHECK_R(expect_op(",", "between the variables of 'with'"));
    INFER_TRY(Expr * to, target(false, ""));
    INFER_CHECK_R(expect_op("=", "after a variable of 'with'"));
    INFER_TRY(Expr * value, expression());
    with->bindings.emplace_back(to, value);
  }
  INFER_CHECK_R(block_body(with->body, {"endwith"}));
  next();
  return with;
}

/// {% print a, b %}: outputs, all but the last of which go to `to`.
Result<Stmt*> Parser::print(Body& to) {
  const int line = next().line;
  Stmt* last = make(StmtKind::text, line);
  while (token().kind != TokenKind::block_end) {
    if (last->kind == StmtKind::output) {
      INFER_CHECK_R(expect_op(",", "between what is printed"));
      to.push_back(last);
    }
    last = make(StmtKind::output, line);
    INFER_TRY(last->expr, expression());
  }
  return last;
}

/// A block that only makes a scope. A generation block, which marks what the model wrote, is a
/// function of its own in the reference.
Result<Stmt*> Parser::scope(StmtKind kind, std::string_view end) {
  Stmt* scope = make(kind, next().line);
  if (kind == StmtKind::scope) {
    INFER_TRY(scope->expr, expression());
    if (scope->expr->kind != ExprKind::constant || scope->expr->value.truth()) {
      return fail(StatusCode::unsupported,
                  "template, line {}: autoescape is supported only as 'autoescape false'",
                  scope->line);
    }
  }
  const int loops = kind == StmtKind::call ? std::exchange(loops_, 0) : loops_;
  if (kind == StmtKind::call) {
    scope->function = &ast_.functions.emplace_back();
    scope->function->name = "caller";
  }
  INFER_CHECK_R(block_body(scope->body, {end}));
  loops_ = loops;
  next();
  return scope;
}

}  // namespace infer::jinja
