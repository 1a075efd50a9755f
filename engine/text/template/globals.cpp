// Global functions: Jinja's, and those that Hugging Face adds.
#include "engine/core/checked.h"
#include "engine/core/platform/c_library.h"
#include "engine/text/template/depth.h"
#include "engine/text/template/range.h"

namespace infer::jinja {
namespace {

constexpr int64_t kMaxRange = 100000;  // of the sandbox

Result<Value> range(Call& call) {
  INFER_TRY(int64_t start, call.integer(0));
  INFER_TRY(int64_t stop, call.integer(1, start));
  INFER_TRY(const int64_t step, call.integer(2, 1));
  if (!call.has(1)) start = 0;
  if (step == 0) return raise("range() arg 3 must not be zero");
  return make_range(call.in, start, stop, step);
}

Result<Value> dict(Call& call) {
  std::vector<std::pair<Value, Value>> entries;
  if (call.given.positional.size() > 1) return raise("dict expected at most 1 argument");
  if (!call.given.positional.empty()) {
    const Value& from = call.given.positional[0];
    if (from.is(Kind::dict)) {
      if (!call.in.budget().work(from.dict().entries.size(), 2 * Budget::kValue)) {
        return tl::unexpected(call.in.budget().failure());
      }
      entries = from.dict().entries;
    } else {
      INFER_TRY(const Elements pairs, call.in.elements(from));
      for (const Value& item : pairs) {
        INFER_TRY(const Elements pair, call.in.elements(item));
        if (pair.size() != 2) return raise("dict() needs pairs, one has {} elements", pair.size());
        if (!hashable(pair[0])) return raise("unhashable type: '{}'", pair[0].type_name());
        entries.emplace_back(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : call.given.named) {
    entries.emplace_back(call.in.string(name), value);
  }
  return call.in.dict(std::move(entries));
}

Result<Value> name_space(Call& call) {
  INFER_TRY(const Value entries, dict(call));
  const Value made = call.in.name_space();
  for (const auto& [key, value] : entries.dict().entries) {
    INFER_TRY(const std::string name, call.in.str(key));
    made.as<Namespace>()->set(name, value);
  }
  return made;
}

/// cycler(…): goes round its items.
struct Cycler : Object {
  Cycler(Budget* budget, std::vector<Value> given) : Object(budget, 128), items(std::move(given)) {
    hold(items);
  }
  std::string_view type_name() const override { return "Cycler"; }
  std::optional<Value> attribute(Interpreter& in, std::string_view name) override;

  std::vector<Value> items;
  size_t at = 0;
  std::weak_ptr<Cycler> self;
};

constexpr Builtin kNext{"next", "", [](Call& call) -> Result<Value> {
                          auto* cycler = call.self.as<Cycler>();
                          const Value current = cycler->items[cycler->at];
                          cycler->at = (cycler->at + 1) % cycler->items.size();
                          return current;
                        }};
constexpr Builtin kReset{"reset", "", [](Call& call) -> Result<Value> {
                           call.self.as<Cycler>()->at = 0;
                           return Value::none();
                         }};

std::optional<Value> Cycler::attribute(Interpreter& in, std::string_view name) {
  if (name == "current") return items[at];
  if (name == "pos") return Value::of(static_cast<int64_t>(at));
  if (name == "items") return in.tuple(items);
  const Builtin* method = name == "next" ? &kNext : name == "reset" ? &kReset : nullptr;
  if (method == nullptr) return std::nullopt;
  return bound_method(in, Value::object(Kind::object, self.lock()), *method);
}

Result<Value> cycler(Call& call) {
  if (call.given.positional.empty()) return raise("at least one item has to be provided");
  if (!call.given.named.empty()) return raise("cycler() takes no keyword arguments");
  auto made = std::make_shared<Cycler>(&call.in.budget(), std::move(call.given.positional));
  made->self = made;
  return Value::object(Kind::object, made);
}

/// joiner(sep): nothing at its first call, then the separator.
struct Joiner : Callable {
  Joiner(Budget* budget, const Value& separator) : Callable(budget, 96), separator(separator) {
    hold(separator);
  }
  std::string_view type_name() const override { return "Joiner"; }
  std::optional<Value> attribute(Interpreter&, std::string_view name) override {
    if (name == "sep") return separator;
    if (name == "used") return Value::of(used);
    return std::nullopt;
  }
  Result<Value> call(Interpreter& in, Arguments) override {
    return std::exchange(used, true) ? separator : in.string("");
  }

  Value separator;
  bool used = false;
};

Result<Value> joiner(Call& call) {
  const Value separator = call.has(0) ? call[0] : call.in.string(", ");
  return Value::object(Kind::callable, std::make_shared<Joiner>(&call.in.budget(), separator));
}

Result<Value> raise_exception(Call& call) {
  INFER_TRY(std::string message, call.in.str(call[0]));
  return call.in.raise_from_template(std::move(message));
}

/// Dates in English whatever the locale of the process.
Result<Value> strftime_now(Call& call) {
  INFER_TRY(const std::string format, call.text(0));
  if (format.empty()) return call.in.string("");
  if (format.size() > 4096) return raise("strftime_now: a format of more than 4096 bytes");
  // The time of a naive datetime: without a zone and, as its source has seconds, without fractions.
  std::string plain;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      plain += format[i];
      continue;
    }
    ++i;
    if (format[i] == 'f') {
      plain += "000000";
    } else if (format[i] >= '0' && format[i] <= '9') {
      return raise("strftime_now: widths are not supported");
    } else if (format[i] != 'z' && format[i] != 'Z') {
      plain += {'%', format[i]};
    }
  }
  const std::optional<std::tm> time = os::utc_of(call.in.now());
  if (!time) return raise("strftime_now: the time is out of range");
  plain += '.';  // so that an empty result is told from a failure
  const size_t room = plain.size() * 64 + 256;
  call.in.budget().work(room, 1);
  std::string out(room, '\0');
  const std::optional<size_t> size = os::format_in_english(out, plain, *time);
  if (!size) return raise("strftime_now: the C locale is not available");
  if (*size == 0) return raise("strftime_now: the format is not valid");
  out.resize(*size - 1);
  return call.in.string(std::move(out));
}

constexpr Builtin kGlobals[] = {
    {"range", "/start stop? step?", range},
    {"dict", "*", dict},
    {"namespace", "*", name_space},
    {"cycler", "*", cycler},
    {"joiner", "sep?", joiner},
    {"raise_exception", "message", raise_exception},
    {"strftime_now", "format", strftime_now},
};

}  // namespace

int64_t Range::size() const {
  if (step_ > 0) return start_ < stop_ ? (stop_ - start_ - 1) / step_ + 1 : 0;
  return start_ > stop_ ? (start_ - stop_ - 1) / -step_ + 1 : 0;
}

std::string Range::repr() const {
  return step_ == 1 ? fmt::format("range({}, {})", start_, stop_)
                    : fmt::format("range({}, {}, {})", start_, stop_, step_);
}

Result<std::optional<std::vector<Value>>> Range::elements(Interpreter& in) {
  std::vector<Value> all;
  const int64_t count = size();
  if (!in.budget().work(count * Budget::kLoop)) return tl::unexpected(in.budget().failure());
  all.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) all.push_back(Value::of(at(i)));
  return all;
}

Result<Value> make_range(Interpreter& in, int64_t start, int64_t stop, int64_t step) {
  const auto made = std::make_shared<Range>(&in.budget(), start, stop, step);
  // So that no position in it, nor a slice of it, overflows.
  constexpr int64_t kBound = int64_t{1} << 60;
  for (const int64_t number : {start, stop, step}) {
    if (number > kBound || number < -kBound) return raise("the bounds of a range are too large");
  }
  if (made->size() > kMaxRange) {
    return raise("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange);
  }
  return Value::object(Kind::object, made);
}

std::span<const Builtin> globals() { return kGlobals; }

}  // namespace infer::jinja
