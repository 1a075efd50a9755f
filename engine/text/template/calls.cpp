// Loops and what can be called: macros, call blocks, recursive loops, functions, methods.
#include <algorithm>
#include <deque>

#include "engine/text/template/depth.h"

namespace infer::jinja {

/// Where a loop's items come from: a sequence, of which a test may take only some. The test runs as
/// late as the reference does: when an item is needed.
class Source {
 public:
  using Accepts = std::function<Result<bool>(const Value&)>;
  Source(Elements items, Accepts accepts)
      : items_(std::move(items)), accepts_(std::move(accepts)) {}

  /// The next item; nothing at the end.
  Result<std::optional<Value>> next() {
    INFER_TRY(std::optional<Value> first, peek());
    if (!first) return first;
    ++taken_;
    if (accepts_) {
      waiting_.pop_front();
    } else {
      ++at_;
    }
    return first;
  }

  /// What next() would give.
  Result<std::optional<Value>> peek() {
    INFER_CHECK_R(fill(1));
    if (accepts_) {
      return waiting_.empty() ? std::nullopt : std::optional<Value>(waiting_.front());
    }
    return at_ == items_.size() ? std::nullopt : std::optional<Value>(items_[at_]);
  }

  Result<int64_t> length() {
    if (!accepts_) return static_cast<int64_t>(items_.size());
    INFER_CHECK_R(fill(items_.size()));
    return static_cast<int64_t>(taken_ + waiting_.size());
  }

  const std::vector<Value>& all() const { return items_.all(); }

 private:
  /// Tests until so many items wait.
  Status fill(size_t count) {
    while (accepts_ && waiting_.size() < count && at_ < items_.size()) {
      const Value& item = items_[at_++];
      INFER_TRY_S(const bool accepted, accepts_(item));
      if (accepted) waiting_.push_back(item);
    }
    return {};
  }

  Elements items_;
  Accepts accepts_;
  std::deque<Value> waiting_;  // accepted, not yet taken
  size_t at_ = 0;              // the next to be tested or, without a test, taken
  size_t taken_ = 0;
};

/// The variable `loop`.
class Loop : public Callable {
 public:
  using Again = std::function<Result<Value>(const Value& iterable, int depth)>;

  Loop(Budget* budget, std::shared_ptr<Source> source, Again again, int depth)
      : Callable(budget, 200), source_(std::move(source)), again_(std::move(again)), depth_(depth) {
    hold(source_->all());
  }

  void advance(const Value& item) {
    ++index0_;
    before_ = std::exchange(current_, item);
  }

  std::string_view type_name() const override { return "LoopContext"; }
  std::optional<int64_t> length() const override {
    const Result<int64_t> length = source_->length();
    return length ? *length : 0;
  }

  Result<Value> call(Interpreter&, Arguments arguments) override {
    if (!again_) return raise("the loop must have the 'recursive' marker to be called recursively");
    if (arguments.positional.size() != 1 || !arguments.named.empty()) {
      return raise("loop() takes one argument, an iterable");
    }
    return again_(arguments.positional[0], depth_ + 1);
  }

  std::optional<Value> attribute(Interpreter& in, std::string_view name) override {
    if (name == "index") return Value::of(index0_ + 1);
    if (name == "index0") return Value::of(index0_);
    if (name == "first") return Value::of(index0_ == 0);
    if (name == "depth") return Value::of(int64_t{depth_} + 1);
    if (name == "depth0") return Value::of(int64_t{depth_});
    if (name == "previtem")
      return index0_ == 0 ? in.undefined("there is no previous item") : before_;
    if (name == "last" || name == "nextitem") {
      const Result<std::optional<Value>> next = source_->peek();
      if (!next) return failed(in, next.error());
      if (name == "last") return Value::of(!next->has_value());
      return *next ? **next : in.undefined("there is no next item");
    }
    if (name == "length" || name == "revindex" || name == "revindex0") {
      const Result<int64_t> length = source_->length();
      if (!length) return failed(in, length.error());
      return Value::of(name == "length"     ? *length
                       : name == "revindex" ? *length - index0_
                                            : *length - index0_ - 1);
    }
    if (name == "cycle") {
      static constexpr Builtin kCycle{"cycle", "*", [](Call& call) -> Result<Value> {
                                        const auto& of = call.given.positional;
                                        if (of.empty()) return raise("no items for cycling given");
                                        const auto* loop = call.self.as<Loop>();
                                        return of[static_cast<size_t>(loop->index0_) % of.size()];
                                      }};
      return bound_method(in, self(), kCycle);
    }
    if (name == "changed") {
      static constexpr Builtin kChanged{"changed", "*", [](Call& call) -> Result<Value> {
                                          return call.self.as<Loop>()->changed(call);
                                        }};
      return bound_method(in, self(), kChanged);
    }
    return std::nullopt;
  }

  void set_self(const std::shared_ptr<Loop>& loop) { self_ = loop; }

 private:
  Value self() { return Value::object(Kind::callable, self_.lock()); }

  /// A test that fails while the loop looks ahead fails when the value is used.
  static Value failed(Interpreter& in, const Status& status) {
    return in.undefined(status.message());
  }

  Result<Value> changed(Call& call) {
    Value now = call.in.tuple(call.given.positional);
    const bool differs =
        last_changed_.is(Kind::missing) || !equal(call.in.budget(), last_changed_, now);
    if (differs) last_changed_ = std::move(now);
    return Value::of(differs);
  }

  std::shared_ptr<Source> source_;
  Again again_;
  int depth_;
  int64_t index0_ = -1;
  Value before_;
  Value current_;
  Value last_changed_;
  std::weak_ptr<Loop> self_;
};

struct Macro : Callable {
  Macro(Budget* budget, const Stmt& stmt, std::shared_ptr<Activation> scope)
      : Callable(budget, 200), stmt(stmt), scope(std::move(scope)) {}

  std::string_view type_name() const override { return "Macro"; }
  std::string repr() const override { return "<Macro '" + stmt.function->name + "'>"; }
  std::optional<Value> attribute(Interpreter& in, std::string_view name) override {
    const Function& function = *stmt.function;
    if (name == "name") return in.string(function.name);
    if (name == "catch_kwargs") return Value::of(function.kwargs.index >= 0);
    if (name == "catch_varargs") return Value::of(function.varargs.index >= 0);
    if (name == "caller") return Value::of(function.caller.index >= 0);
    if (name != "arguments") return std::nullopt;
    std::vector<Value> names;
    for (const std::string& parameter : function.parameters) names.push_back(in.string(parameter));
    return in.tuple(std::move(names));
  }
  Result<Value> call(Interpreter& in, Arguments arguments) override {
    return in.call_macro(stmt, scope, std::move(arguments));
  }

  const Stmt& stmt;
  std::shared_ptr<Activation> scope;
};

namespace {

struct Bound : Callable {
  Bound(Budget* budget, const Value& self, const Builtin& builtin)
      : Callable(budget, 120), self(self), builtin(builtin) {
    hold(self);
  }
  std::string_view type_name() const override {
    return self.is(Kind::missing) ? "function" : "builtin_function_or_method";
  }
  std::string repr() const override { return "<function " + std::string(builtin.name) + ">"; }
  Result<Value> call(Interpreter& in, Arguments arguments) override {
    return run_builtin(in, builtin, self, std::move(arguments));
  }

  Value self;
  const Builtin& builtin;
};

}  // namespace

Value global_function(Interpreter& in, const Builtin& builtin) {
  return bound_method(in, Value(), builtin);
}

Value bound_method(Interpreter& in, const Value& self, const Builtin& builtin) {
  return Value::object(Kind::callable, std::make_shared<Bound>(&in.budget(), self, builtin));
}

Result<Interpreter::Flow> Interpreter::for_statement(const Stmt& stmt) {
  INFER_TRY(const Value iterable, eval(*stmt.expr));
  if (!stmt.recursive) return loop(stmt, iterable, 0);
  capture();
  INFER_TRY(const Value text, recurse(stmt, frame_, iterable, 0));
  INFER_CHECK_R(write(text.text()));
  return Flow::next;
}

/// The text of a recursive loop's body for the items of `iterable`.
Result<Value> Interpreter::recurse(const Stmt& stmt, const std::shared_ptr<Activation>& scope,
                                   const Value& iterable, int depth) {
  const Depth nesting(*this);
  if (nesting.too_deep()) return nesting.failure();
  auto frame = std::make_shared<Activation>();
  frame->slots.resize(static_cast<size_t>(stmt.function->slots));
  frame->outer = scope;
  const std::shared_ptr<Activation> caller = std::exchange(frame_, std::move(frame));
  std::string text;
  std::string* const out = std::exchange(out_, &text);
  const Result<Flow> flow = loop(stmt, iterable, depth);
  out_ = out;
  frame_ = caller;
  if (!flow) return tl::unexpected(flow.error());
  return string(std::move(text));
}

Result<Interpreter::Flow> Interpreter::loop(const Stmt& stmt, const Value& iterable, int depth) {
  INFER_TRY(Elements items, elements(iterable));
  budget_.work(static_cast<int64_t>(items.size() / 16));
  Source::Accepts accepts;
  if (stmt.test != nullptr) {
    capture();  // the loop's variable may come to hold the scope that holds it
    enter(stmt.test_loads);
    accepts = [this, &stmt, frame = frame_](const Value& item) -> Result<bool> {
      const std::shared_ptr<Activation> caller = std::exchange(frame_, frame);
      Result<Value> accepted = Value();
      if (Status status = assign(*stmt.test_target, item); !status.ok()) {
        accepted = tl::unexpected(std::move(status));
      } else {
        accepted = eval(*stmt.test);
      }
      frame_ = caller;
      if (!accepted) return tl::unexpected(accepted.error());
      return accepted->truth();
    };
  }
  const auto source = std::make_shared<Source>(std::move(items), std::move(accepts));
  std::shared_ptr<Loop> variable;
  if (stmt.loop_slot.index >= 0) {
    Loop::Again again;
    if (stmt.recursive) {
      again = [this, &stmt, scope = frame_->outer](const Value& inner, int level) {
        return recurse(stmt, scope, inner, level);
      };
    }
    variable = std::make_shared<Loop>(&budget_, source, std::move(again), depth);
    variable->set_self(variable);
  }
  bool any = false;
  Flow flow = Flow::next;
  while (flow != Flow::break_loop) {
    INFER_TRY(const std::optional<Value> item, source->next());
    if (!item) break;
    if (!budget_.work(1) || budget_.spent()) return tl::unexpected(budget_.failure());
    enter(stmt.loads);
    if (variable != nullptr) {
      variable->advance(*item);
      slot(stmt.loop_slot) = Value::object(Kind::callable, variable);
    }
    line_ = stmt.line;
    INFER_CHECK_R(assign(*stmt.target, *item));
    INFER_TRY(flow, body(stmt.body));
    // As the reference counts: an iteration that `continue` or `break` ends did not happen.
    any = any || flow == Flow::next;
  }
  if (any || stmt.otherwise.empty()) return Flow::next;
  enter(stmt.else_loads);
  return body(stmt.otherwise);
}

Value Interpreter::macro(const Stmt& stmt) {
  capture();
  return Value::object(Kind::callable, std::make_shared<Macro>(&budget_, stmt, frame_));
}

Result<Arguments> Interpreter::arguments(const CallArguments& from) {
  Arguments to;
  to.positional.reserve(from.positional.size());
  for (const Expr* expr : from.positional) {
    INFER_TRY(Value value, eval(*expr));
    to.positional.push_back(std::move(value));
  }
  for (const auto& [name, expr] : from.named) {
    INFER_TRY(Value value, eval(*expr));
    to.named.emplace_back(name, std::move(value));
  }
  if (from.more != nullptr) {
    INFER_TRY(const Value more, eval(*from.more));
    INFER_TRY(const Elements items, elements(more));
    to.positional.insert(to.positional.end(), items.begin(), items.end());
  }
  if (from.more_named != nullptr) {
    INFER_TRY(const Value more, eval(*from.more_named));
    if (!more.is(Kind::dict)) return raise("argument after ** must be a mapping");
    for (const auto& [key, value] : more.dict().entries) {
      if (!key.is(Kind::string)) return raise("keywords must be strings");
      to.named.emplace_back(key.text(), value);
    }
  }
  for (size_t i = 1; i < to.named.size(); ++i) {
    const auto end = to.named.begin() + static_cast<ptrdiff_t>(i);
    if (!budget_.work(static_cast<int64_t>(i))) return tl::unexpected(budget_.failure());
    if (std::any_of(to.named.begin(), end, [&](const auto& a) { return a.first == end->first; })) {
      return raise("got multiple values for keyword argument '{}'", shortened(end->first));
    }
  }
  return to;
}

Result<Value> Interpreter::call(const Value& callee, Arguments arguments) {
  const Depth depth(*this);
  if (depth.too_deep()) return depth.failure();
  if (callee.is(Kind::callable)) {
    return static_cast<Callable*>(callee.object().get())->call(*this, std::move(arguments));
  }
  if (callee.is(Kind::undefined)) return raise("{}", callee.text());
  return raise("'{}' object is not callable", callee.type_name());
}

Result<Value> Interpreter::call_macro(const Stmt& stmt, const std::shared_ptr<Activation>& scope,
                                      Arguments arguments) {
  const Function& function = *stmt.function;
  const size_t count = function.parameters.size();
  if (arguments.positional.size() > count && function.varargs.index < 0) {
    return raise("macro '{}' takes not more than {} argument(s)", function.name, count);
  }
  auto frame = std::make_shared<Activation>();
  frame->slots.resize(static_cast<size_t>(function.slots));
  frame->outer = scope;
  const auto set = [&](Slot slot, Value value) {
    frame->slots[static_cast<size_t>(slot.index)] = std::move(value);
  };
  for (size_t i = 0; i < count; ++i) {
    set(function.parameter_slots[i], i < arguments.positional.size()
                                         ? arguments.positional[i]
                                         : arguments.take(function.parameters[i]));
  }
  if (function.caller.index >= 0) {
    Value caller = arguments.take("caller");
    if (caller.is(Kind::missing) || caller.is(Kind::none)) caller = undefined("No caller defined");
    set(function.caller, std::move(caller));
  }
  if (function.kwargs.index >= 0) {
    std::vector<std::pair<Value, Value>> rest;
    for (auto& [name, value] : arguments.named) rest.emplace_back(string(name), std::move(value));
    set(function.kwargs, dict(std::move(rest)));
  } else if (!arguments.named.empty()) {
    return raise("macro '{}' takes no keyword argument '{}'", function.name,
                 shortened(arguments.named[0].first));
  }
  if (function.varargs.index >= 0) {
    const auto from = std::min(count, arguments.positional.size());
    set(function.varargs, tuple({arguments.positional.begin() + static_cast<ptrdiff_t>(from),
                                 arguments.positional.end()}));
  }
  const std::shared_ptr<Activation> caller = std::exchange(frame_, std::move(frame));
  std::string text;
  std::string* const out = std::exchange(out_, &text);
  const auto run = [&]() -> Status {
    enter(function.loads);
    for (size_t i = 0; i < count; ++i) {
      const Slot parameter = function.parameter_slots[i];
      if (!slot(parameter).is(Kind::missing)) continue;
      const size_t without = count - function.defaults.size();
      if (i < without) {
        slot(parameter) =
            undefined(fmt::format("parameter '{}' was not provided", function.parameters[i]));
        continue;
      }
      INFER_TRY_S(Value value, eval(*function.defaults[i - without]));
      slot(parameter) = std::move(value);
    }
    INFER_TRY_S(const Flow flow, body(stmt.body));
    static_cast<void>(flow);
    return {};
  };
  const Status status = run();
  out_ = out;
  frame_ = caller;
  if (!status.ok()) return tl::unexpected(status);
  return string(std::move(text));
}

Result<Interpreter::Flow> Interpreter::call_block(const Stmt& stmt) {
  const Value caller = macro(stmt);
  if (stmt.expr == nullptr) {  // a generation block
    INFER_TRY(const Value text, call(caller, {}));
    INFER_CHECK_R(write(text.text()));
    return Flow::next;
  }
  INFER_TRY(const Value callee, eval(*stmt.expr->a));
  INFER_TRY(Arguments given, arguments(stmt.expr->arguments));
  given.named.emplace_back("caller", caller);
  INFER_TRY(const Value value, call(callee, std::move(given)));
  INFER_TRY(const std::string text, str(value));
  INFER_CHECK_R(write(text));
  return Flow::next;
}

}  // namespace infer::jinja
