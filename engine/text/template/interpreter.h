// Renders a resolved template. One object per rendering; not thread-safe. The semantics are those
// of Jinja2 in an ImmutableSandboxedEnvironment with the default Undefined. Errors:
// invalid_argument, if the template raises, if Python would raise, and if a limit is exceeded
// (Budget, kMaxCallDepth).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/template/ast.h"
#include "engine/text/template/builtins.h"
#include "engine/text/template/value.h"

namespace infer::jinja {

/// Evaluations within one another: nesting of the template times that of its calls.
inline constexpr int kMaxCallDepth = 700;

/// The variables of one call of a Function.
struct Activation {
  std::vector<Value> slots;
  std::shared_ptr<Activation> outer;  ///< of the function around, as when this one was made
  bool captured = false;
};

/// Something that can be called.
struct Callable : Object {
  using Object::Object;
  std::string_view type_name() const override { return "function"; }
  virtual Result<Value> call(Interpreter& in, Arguments arguments) = 0;
};

/// The elements of something, without copying where they already lie in a sequence.
class Elements {
 public:
  explicit Elements(std::shared_ptr<Object> sequence) : sequence_(std::move(sequence)) {}
  const std::vector<Value>& all() const {
    return static_cast<const Sequence*>(sequence_.get())->items;
  }
  auto begin() const { return all().begin(); }
  auto end() const { return all().end(); }
  size_t size() const { return all().size(); }
  const Value& operator[](size_t i) const { return all()[i]; }

 private:
  std::shared_ptr<Object> sequence_;
};

/// What Python calls a generator: computed when first asked for, consumed once.
struct Iterator : Object {
  using Compute = std::function<Result<std::vector<Value>>(Interpreter&)>;
  Iterator(Budget* budget, std::string_view type, Compute compute)
      : Object(budget, 200), type(type), pending(std::move(compute)) {}
  std::string_view type_name() const override { return type; }
  std::string repr() const override { return "<" + std::string(type) + " object>"; }
  Result<std::optional<std::vector<Value>>> elements(Interpreter& in) override;
  /// The next element; nothing at the end.
  Result<std::optional<Value>> next(Interpreter& in);

  std::string_view type;
  Compute pending;
  std::vector<Value> items;
  size_t at = 0;
};

class Interpreter {
 public:
  /// `now`: seconds since 1970 of the local clock, for strftime_now. `most_work`: see Budget.
  Interpreter(const Ast& ast, int64_t now, int64_t most_work = Budget::kWork)
      : ast_(ast), now_(now), budget_(most_work) {}
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Variables are a dict made with this budget().
  Result<std::string> run(const Value& variables);

  Budget& budget() { return budget_; }
  int64_t now() const { return now_; }

  // Makers of values.
  Value string(std::string text, bool markup = false) {
    return Value::string(&budget_, std::move(text), markup);
  }
  Value list(std::vector<Value> items) { return Value::list(&budget_, std::move(items)); }
  Value tuple(std::vector<Value> items) { return Value::tuple(&budget_, std::move(items)); }
  Value dict(std::vector<std::pair<Value, Value>> entries) {
    return Value::dict(&budget_, std::move(entries));
  }
  Value undefined(std::string why) { return Value::undefined(&budget_, std::move(why)); }
  Value iterator(std::string_view type, Iterator::Compute compute, const std::vector<Value>& held);
  Value name_space();

  // Python's protocols.
  Result<Value> attribute(const Value& object, std::string_view name);  ///< object.name
  Result<Value> item(const Value& object, const Value& key);            ///< object[key]
  Result<Value> slice(const Value& object, const Value& start, const Value& stop,
                      const Value& step);
  Result<Elements> elements(const Value& value);
  Result<int64_t> length(const Value& value);
  Result<bool> contains(const Value& container, const Value& value);
  Result<std::string> str(const Value& value);
  Result<std::string> repr(const Value& value, bool sorted = false);
  Result<Value> call(const Value& callee, Arguments arguments);
  /// A filter or test by its name at run time.
  Result<Value> filter(std::string_view name, const Value& value, Arguments arguments);
  Result<bool> test(std::string_view name, const Value& value, Arguments arguments);
  /// Fails if nothing may be made that is that large.
  Status check_size(int64_t bytes) const;
  /// Appends to a text that is being made, if there may be one that long.
  Status append(std::string& text, std::string_view part);
  Status append_times(std::string& text, std::string_view part, int64_t times);
  /// `text` with HTML's entities, see escape_html.
  Result<std::string> escaped(std::string_view text);
  /// Fails once the budget is spent.
  Status check_budget() const { return budget_.spent() ? budget_.failure() : Status(); }
  /// A text's characters. Charges for taking it apart.
  Result<std::u32string> characters(std::string_view text);
  /// raise_exception(): the message stays as it is.
  Result<Value> raise_from_template(std::string message);

 private:
  friend class Loop;
  friend struct Macro;
  enum class Flow : uint8_t { next, break_loop, continue_loop };
  class Depth;

  // interpreter.cpp: statements.
  Result<Flow> body(const Body& body);
  Result<Flow> statement(const Stmt& stmt);
  Result<Flow> branch(const Stmt& stmt);
  Result<Flow> captured(const Body& body, std::string& text);
  Result<Flow> assign_body(const Stmt& stmt);
  Result<Flow> filter_block(const Stmt& stmt);
  Result<Flow> with(const Stmt& stmt);
  Result<Flow> loop(const Stmt& stmt, const Value& iterable, int depth);
  Status assign(const Expr& target, const Value& value);
  Status write(std::string_view text);
  void enter(const Loads& loads);
  Value& slot(Slot slot);
  std::shared_ptr<Activation> activation(const Function& function,
                                         const std::shared_ptr<Activation>& outer);
  void capture();

  // calls.cpp
  Result<Flow> for_statement(const Stmt& stmt);
  Value macro(const Stmt& stmt);
  Result<Flow> call_block(const Stmt& stmt);
  Result<Value> call_macro(const Stmt& stmt, const std::shared_ptr<Activation>& scope,
                           Arguments arguments);
  Result<Value> recurse(const Stmt& stmt, const std::shared_ptr<Activation>& scope,
                        const Value& iterable, int depth);
  Result<Arguments> arguments(const CallArguments& from);

  // expressions.cpp
  Result<Value> eval(const Expr& expr);
  Result<Value> evaluate(const Expr& expr);
  Result<Value> eval_name(const Expr& expr);
  Result<Value> eval_item(const Expr& expr);
  Result<Value> eval_call(const Expr& expr);
  Result<Value> eval_builtin(const Expr& expr, const Value* text);
  Result<Value> eval_items(const Expr& expr);
  Result<Value> eval_dict(const Expr& expr);
  Result<Value> eval_unary(const Expr& expr);
  Result<Value> eval_binary(const Expr& expr);
  Result<Value> eval_logical(const Expr& expr);
  Result<Value> eval_concat(const Expr& expr);
  Result<Value> eval_compare(const Expr& expr);
  Result<Value> eval_conditional(const Expr& expr);
  Result<bool> compare(Comparison op, const Value& a, const Value& b);

  const Ast& ast_;
  int64_t now_;
  Budget budget_;
  Value variables_;
  std::shared_ptr<Activation> frame_;
  std::vector<std::shared_ptr<Activation>> captured_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::string* out_ = nullptr;
  const Value* block_text_ = nullptr;
  int depth_ = 0;
  int line_ = 0;
  bool raised_ = false;
};

/// `op` as in Expr.
Result<Value> binary(Interpreter& in, char op, const Value& a, const Value& b);

}  // namespace infer::jinja
