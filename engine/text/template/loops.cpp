// Loops and their variable `loop`.
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
  std::shared_ptr<Activation> frame = activation(*stmt.function, scope);
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
  budget_.work(items.size(), Budget::kLoop);
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
    if (!budget_.step() || budget_.spent()) return tl::unexpected(budget_.failure());
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

}  // namespace infer::jinja
