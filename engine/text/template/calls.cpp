// What can be called: macros, call blocks, functions, methods.
#include <algorithm>

#include "engine/text/template/depth.h"

namespace infer::jinja {

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
    budget_.work(name.size(), 1);
    INFER_TRY(Value value, eval(*expr));
    to.named.emplace_back(name, std::move(value));
  }
  if (from.more != nullptr) {
    INFER_TRY(const Value more, eval(*from.more));
    INFER_TRY(const Elements items, elements(more));
    budget_.work(items.size(), Budget::kValue);
    INFER_CHECK_R(check_budget());
    to.positional.insert(to.positional.end(), items.begin(), items.end());
  }
  if (from.more_named != nullptr) {
    INFER_TRY(const Value more, eval(*from.more_named));
    if (!more.is(Kind::dict)) return raise("argument after ** must be a mapping");
    for (const auto& [key, value] : more.dict().entries) {
      if (!key.is(Kind::string)) return raise("keywords must be strings");
      if (!budget_.work(key.text().size(), 1)) return tl::unexpected(budget_.failure());
      to.named.emplace_back(key.text(), value);
    }
  }
  for (size_t i = 1; i < to.named.size(); ++i) {
    const auto end = to.named.begin() + static_cast<ptrdiff_t>(i);
    // Names of one length are compared to the end.
    budget_.work(i, Budget::kCharacter);
    if (!budget_.work(i, static_cast<int64_t>(end->first.size()))) {
      return tl::unexpected(budget_.failure());
    }
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
  // A parameter is looked for in all named arguments.
  budget_.work((arguments.named.size() + 1) * count, Budget::kCharacter);
  for (const std::string& parameter : function.parameters) budget_.work(parameter.size(), 1);
  INFER_CHECK_R(check_budget());
  std::shared_ptr<Activation> frame = activation(function, scope);
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
