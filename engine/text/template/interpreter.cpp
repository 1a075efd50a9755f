// Statements.
#include "engine/text/template/interpreter.h"

#include "engine/core/checked.h"
#include "engine/text/template/characters.h"
#include "engine/text/template/depth.h"

namespace infer::jinja {

Interpreter::~Interpreter() {
  // Macros and the scopes that hold them, and namespaces, may refer to each other in circles, and
  // in chains too long to be freed by recursion: they are emptied while all of them are still
  // there.
  for (const std::shared_ptr<Activation>& scope : captured_) scope->slots.clear();
  for (const std::shared_ptr<Namespace>& space : namespaces_) space->clear();
}

Result<std::string> Interpreter::run(const Value& variables) {
  variables_ = variables;
  frame_ = std::make_shared<Activation>();
  frame_->slots.resize(static_cast<size_t>(ast_.root.slots));
  std::string text;
  out_ = &text;
  enter(ast_.root.loads);
  const Result<Flow> done = body(ast_.body);
  frame_->slots.clear();
  if (done) return text;
  if (budget_.spent()) {
    // What failed may only be a consequence.
    return fail(StatusCode::invalid_argument, "template, line {}: {}", line_,
                budget_.failure().message());
  }
  if (raised_) return tl::unexpected(done.error());
  return fail(done.error().code(), "template, line {}: {}", line_, done.error().message());
}

Status Interpreter::check_size(int64_t bytes) const {
  if (budget_.fits(bytes)) return {};
  return error(StatusCode::invalid_argument, "a value of {} bytes is too large", bytes);
}

Status Interpreter::append(std::string& text, std::string_view part) {
  budget_.work(part.size(), 1);
  INFER_CHECK(check_budget());
  INFER_CHECK(check_size(static_cast<int64_t>(text.size() + part.size())));
  text += part;
  return {};
}

Status Interpreter::append_times(std::string& text, std::string_view part, int64_t times) {
  if (times <= 0 || part.empty()) return {};
  const auto bytes = checked_mul(static_cast<int64_t>(part.size()), times);
  if (!bytes) return raise("a text is too large").value();
  budget_.work(*bytes);
  INFER_CHECK(check_budget());
  const auto size = checked_add(static_cast<int64_t>(text.size()), *bytes);
  if (!size) return raise("a text is too large").value();
  INFER_CHECK(check_size(*size));
  text.reserve(static_cast<size_t>(*size));
  for (int64_t i = 0; i < times; ++i) text += part;
  return {};
}

Result<std::string> Interpreter::escaped(std::string_view text) {
  constexpr int64_t kLongest = 6;  // bytes in place of one, or the loop's cost
  budget_.work(text.size(), kLongest);
  INFER_CHECK_R(check_budget());
  return escape_html(text);
}

Result<std::u32string> Interpreter::characters(std::string_view text) {
  budget_.work(text.size(), Budget::kCharacter);
  INFER_CHECK_R(check_budget());
  return decode(text);
}

Result<Value> Interpreter::raise_from_template(std::string message) {
  raised_ = true;
  return tl::unexpected(Status(StatusCode::invalid_argument, std::move(message)));
}

Value Interpreter::name_space() {
  namespaces_.push_back(std::make_shared<Namespace>(&budget_));
  return Value::object(Kind::name_space, namespaces_.back());
}

Value Interpreter::iterator(std::string_view type, Iterator::Compute compute,
                            const std::vector<Value>& held) {
  auto made = std::make_shared<Iterator>(&budget_, type, std::move(compute));
  made->hold(held);
  return Value::object(Kind::object, std::move(made));
}

Result<std::optional<Value>> Iterator::next(Interpreter& in) {
  if (pending) {
    const Compute compute = std::exchange(pending, nullptr);
    INFER_TRY(items, compute(in));
    at = 0;
  }
  if (at >= items.size()) return std::nullopt;
  return items[at++];
}

Result<std::optional<std::vector<Value>>> Iterator::elements(Interpreter& in) {
  std::vector<Value> rest;
  while (true) {
    INFER_TRY(std::optional<Value> item, next(in));
    if (!item) return rest;
    rest.push_back(*std::move(item));
  }
}

Value& Interpreter::slot(Slot slot) {
  Activation* frame = frame_.get();
  for (int i = 0; i < slot.hops; ++i) frame = frame->outer.get();
  return frame->slots[static_cast<size_t>(slot.index)];
}

void Interpreter::enter(const Loads& loads) {
  for (const Load& load : loads) {
    budget_.work(Budget::kValue + load.outer.hops);
    Value& to = slot(load.to);
    switch (load.from) {
      case Load::From::nothing: to = Value(); break;
      case Load::From::outer: to = slot(load.outer); break;
      case Load::From::context: {
        const Value* found = variables_.dict().find(budget_, load.name);
        const Builtin* global = found == nullptr ? find_global(load.name) : nullptr;
        to = found != nullptr    ? *found
             : global != nullptr ? global_function(*this, *global)
                                 : Value();
        break;
      }
    }
  }
}

/// The variables of a call of `function`.
std::shared_ptr<Activation> Interpreter::activation(const Function& function,
                                                    const std::shared_ptr<Activation>& outer) {
  const auto slots = static_cast<size_t>(function.slots);
  budget_.work(sizeof(Activation) + slots * sizeof(Value), 1);
  auto made = std::make_shared<Activation>();
  made->slots.resize(slots);
  made->outer = outer;
  return made;
}

void Interpreter::capture() {
  if (frame_->captured) return;
  frame_->captured = true;
  captured_.push_back(frame_);
}

Status Interpreter::write(std::string_view text) {
  budget_.work(text.size(), 1);
  if (out_->size() + text.size() > static_cast<size_t>(Budget::kOutput)) {
    return error(StatusCode::invalid_argument, "the text is longer than {} MiB",
                 Budget::kOutput >> 20);
  }
  out_->append(text);
  return {};
}

Result<Interpreter::Flow> Interpreter::body(const Body& body) {
  for (const Stmt* stmt : body) {
    INFER_TRY(const Flow flow, statement(*stmt));
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Result<Interpreter::Flow> Interpreter::statement(const Stmt& stmt) {
  line_ = stmt.line;
  if (!budget_.step() || budget_.spent()) return tl::unexpected(budget_.failure());
  const Depth depth(*this);
  if (depth.too_deep()) return depth.failure();
  switch (stmt.kind) {
    case StmtKind::text: INFER_CHECK_R(write(stmt.text)); return Flow::next;
    case StmtKind::output: {
      INFER_TRY(const Value value, eval(*stmt.expr));
      if (value.is(Kind::string)) {
        INFER_CHECK_R(write(value.text()));
      } else {
        INFER_TRY(const std::string text, str(value));
        INFER_CHECK_R(write(text));
      }
      return Flow::next;
    }
    case StmtKind::loop: return for_statement(stmt);
    case StmtKind::branch: return branch(stmt);
    case StmtKind::assign: {
      INFER_TRY(const Value value, eval(*stmt.expr));
      INFER_CHECK_R(assign(*stmt.target, value));
      return Flow::next;
    }
    case StmtKind::assign_body: return assign_body(stmt);
    case StmtKind::macro: slot(stmt.name_slot) = macro(stmt); return Flow::next;
    case StmtKind::call: return call_block(stmt);
    case StmtKind::filter: return filter_block(stmt);
    case StmtKind::with: return with(stmt);
    case StmtKind::scope: enter(stmt.loads); return body(stmt.body);
    case StmtKind::break_: return Flow::break_loop;
    case StmtKind::continue_: return Flow::continue_loop;
  }
  return Flow::next;
}

Result<Interpreter::Flow> Interpreter::branch(const Stmt& stmt) {
  for (const auto& [condition, inner] : stmt.branches) {
    INFER_TRY(const Value value, eval(*condition));
    if (value.truth()) return body(inner);
  }
  return body(stmt.otherwise);
}

/// Runs a body and takes what it writes.
Result<Interpreter::Flow> Interpreter::captured(const Body& inner, std::string& text) {
  std::string* const out = std::exchange(out_, &text);
  Result<Flow> flow = body(inner);
  out_ = out;
  return flow;
}

Result<Interpreter::Flow> Interpreter::assign_body(const Stmt& stmt) {
  enter(stmt.loads);
  std::string text;
  INFER_TRY(const Flow flow, captured(stmt.body, text));
  if (flow != Flow::next) return flow;
  Value value = string(std::move(text));
  if (stmt.expr != nullptr) {
    const Value* const before = std::exchange(block_text_, &value);
    Result<Value> filtered = eval(*stmt.expr);
    block_text_ = before;
    if (!filtered) return tl::unexpected(std::move(filtered).error());
    value = *std::move(filtered);
  }
  INFER_CHECK_R(assign(*stmt.target, value));
  return Flow::next;
}

Result<Interpreter::Flow> Interpreter::filter_block(const Stmt& stmt) {
  enter(stmt.loads);
  std::string text;
  INFER_TRY(const Flow flow, captured(stmt.body, text));
  if (flow != Flow::next) return flow;
  const Value value = string(std::move(text));
  const Value* const before = std::exchange(block_text_, &value);
  const Result<Value> filtered = eval(*stmt.expr);
  block_text_ = before;
  if (!filtered) return tl::unexpected(filtered.error());
  INFER_TRY(const std::string shown, str(*filtered));
  INFER_CHECK_R(write(shown));
  return Flow::next;
}

Result<Interpreter::Flow> Interpreter::with(const Stmt& stmt) {
  enter(stmt.loads);
  for (const auto& [target, expr] : stmt.bindings) {
    INFER_TRY(const Value value, eval(*expr));
    INFER_CHECK_R(assign(*target, value));
  }
  return body(stmt.body);
}

Status Interpreter::assign(const Expr& target, const Value& value) {
  if (target.kind == ExprKind::name) {
    slot(target.slot) = value;
    return {};
  }
  if (target.kind == ExprKind::member) {
    const Value& space = slot(target.slot);
    if (!space.is(Kind::name_space)) {
      return error(StatusCode::invalid_argument, "cannot assign attribute on non-namespace object");
    }
    space.as<Namespace>()->set(target.text, value);
    return {};
  }
  INFER_TRY_S(const Elements parts, elements(value));
  if (parts.size() != target.items.size()) {
    return error(StatusCode::invalid_argument, "{} values to unpack (expected {}, got {})",
                 parts.size() < target.items.size() ? "not enough" : "too many",
                 target.items.size(), parts.size());
  }
  for (size_t i = 0; i < parts.size(); ++i) INFER_CHECK(assign(*target.items[i], parts[i]));
  return {};
}

}  // namespace infer::jinja
