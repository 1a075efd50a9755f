// What the two halves of the parser share: tokens, nodes, the depth. For parser*.cpp alone.
#pragma once

#include <initializer_list>

#include "engine/text/template/lexer.h"
#include "engine/text/template/parser.h"

namespace infer::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, Ast& ast) : tokens_(std::move(tokens)), ast_(ast) {}

  Status run();

 private:
  using Ends = std::initializer_list<std::string_view>;

  const Token& token() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  /// The token, and goes on to the next.
  const Token& next();
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  Status expect_op(std::string_view op, std::string_view where);
  Status expect_name(std::string_view name);
  Result<std::string> identifier(std::string_view what);

  Expr* make(ExprKind kind, int line, Expr* a = nullptr, Expr* b = nullptr, Expr* c = nullptr);
  Stmt* make(StmtKind kind, int line);
  /// The depth of an expression whose parts are known; fails beyond the limit.
  Result<Expr*> complete(Expr* expr);

  // Statements.
  Status body(Body& to, Ends ends);
  Status block_body(Body& to, Ends ends);
  Result<Stmt*> statement();
  Result<Stmt*> for_loop();
  Result<Stmt*> branch();
  Result<Stmt*> assignment();
  Result<Stmt*> macro();
  Result<Stmt*> call_block();
  Result<Stmt*> filter_block();
  Result<Stmt*> with_block();
  Result<Stmt*> print(Body& to);
  Result<Stmt*> scope(StmtKind kind, std::string_view end);
  Status signature(Function& function);
  Status end_of_block();

  // Expressions.
  Result<Expr*> target(bool members, std::string_view end);
  Result<Expr*> tuple(bool conditions, std::string_view end, bool may_be_empty);
  Result<Expr*> expression() { return conditional(); }
  Result<Expr*> conditional();
  Result<Expr*> disjunction();
  Result<Expr*> conjunction();
  Result<Expr*> negation();
  Result<Expr*> comparison();
  Result<Expr*> sum();
  Result<Expr*> concatenation();
  Result<Expr*> product();
  Result<Expr*> power();
  Result<Expr*> unary(bool with_filters);
  Result<Expr*> primary();
  Result<Expr*> list_display();
  Result<Expr*> dict_display();
  Result<Expr*> postfix(Expr* expr);
  Result<Expr*> filters_and_tests(Expr* expr);
  Result<Expr*> filter(Expr* expr, bool inline_start);
  Result<Expr*> test(Expr* expr);
  Result<Expr*> subscript(Expr* expr);
  Result<Expr*> subscript_argument();
  Result<Expr*> call(Expr* callee);
  Status arguments(CallArguments& to);
  Result<std::string> dotted_name();
  bool ends_tuple(std::string_view end) const;

  template <typename Parse>
  Result<Expr*> left_associative(ExprKind kind,
                                 std::initializer_list<std::pair<std::string_view, char>> operators,
                                 Parse parse);

  /// Counts how deep the parser is in itself.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : depth_(parser.depth_) { ++depth_; }
    ~Nesting() { --depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    int& depth_;
  };
  Status check_depth() const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  Ast& ast_;
  int depth_ = 0;
  int loops_ = 0;
};

}  // namespace infer::jinja
