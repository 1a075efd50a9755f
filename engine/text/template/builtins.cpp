#include "engine/text/template/builtins.h"

#include <algorithm>

#include "engine/text/template/interpreter.h"

namespace infer::jinja {
namespace {

const Builtin* find(std::span<const Builtin> table, std::string_view name) {
  const auto at = std::ranges::find(table, name, &Builtin::name);
  return at == table.end() ? nullptr : &*at;
}

const Builtin* find(std::initializer_list<std::span<const Builtin>> tables, std::string_view name) {
  for (const std::span<const Builtin> table : tables) {
    if (const Builtin* found = find(table, name)) return found;
  }
  return nullptr;
}

/// Puts arguments at their parameters' places.
Status bind(const Builtin& builtin, Call& call) {
  std::string_view rest = builtin.parameters;
  const bool by_position = rest.starts_with('/');
  if (by_position) rest.remove_prefix(1);
  size_t next = 0;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    std::string_view name = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const bool optional = name.ends_with('?');
    if (optional) name.remove_suffix(1);
    Value value = by_position ? Value() : call.given.take(name);
    if (next < call.given.positional.size()) {
      if (!value.is(Kind::missing)) {
        return raise("{}() got multiple values for argument '{}'", builtin.name, name).value();
      }
      value = call.given.positional[next];
    }
    ++next;
    if (value.is(Kind::missing) && !optional) {
      return raise("{}() misses the argument '{}'", builtin.name, name).value();
    }
    call.bound.push_back(std::move(value));
  }
  if (call.given.positional.size() > next) {
    return raise("{}() takes at most {} arguments, {} are given", builtin.name, next,
                 call.given.positional.size())
        .value();
  }
  if (!call.given.named.empty()) {
    return raise("{}() has no argument '{}'", builtin.name, shortened(call.given.named[0].first))
        .value();
  }
  return {};
}

/// Charges for reading a value in bulk.
void charge_reading(Budget& budget, const Value& value) {
  if (value.is(Kind::string)) {
    budget.work(value.text().size(), 1);
  } else if (value.is(Kind::list) || value.is(Kind::tuple)) {
    budget.work(value.items().size(), Budget::kCharacter);
  } else if (value.is(Kind::dict)) {
    budget.work(value.dict().entries.size(), Budget::kCharacter);
  }
}

}  // namespace

Value Arguments::take(std::string_view name) {
  const auto at =
      std::ranges::find(named, name, [](const auto& a) { return std::string_view(a.first); });
  if (at == named.end()) return {};
  Value value = std::move(at->second);
  named.erase(at);
  return value;
}

Result<int64_t> Call::integer(size_t i, int64_t otherwise) const {
  const Value& value = bound[i];
  if (value.is(Kind::missing)) return otherwise;
  if (value.is_integral()) return value.integer();
  if (value.is(Kind::undefined)) return raise("{}", value.text());
  return raise("'{}' object cannot be interpreted as an integer", value.type_name());
}

size_t Call::text_bytes() const { return self.is(Kind::string) ? self.text().size() : 0; }

bool Call::truth(size_t i, bool otherwise) const {
  return bound[i].is(Kind::missing) ? otherwise : bound[i].truth();
}

Result<std::string> Call::text(size_t i, std::string_view otherwise) const {
  const Value& value = bound[i];
  if (value.is(Kind::missing)) return std::string(otherwise);
  if (value.is(Kind::string)) return value.text();
  if (value.is(Kind::undefined)) return raise("{}", value.text());
  return raise("expected a string, not {}", value.type_name());
}

const Builtin* find_filter(std::string_view name) {
  return find({text_filters(), wrapping_filters(), sequence_filters(), value_filters()}, name);
}
const Builtin* find_test(std::string_view name) { return find(tests(), name); }
const Builtin* find_global(std::string_view name) { return find(globals(), name); }

const Builtin* find_method(const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::string: return find({string_methods(), string_search_methods()}, name);
    case Kind::list: return find(list_methods(), name);
    case Kind::tuple: return find(tuple_methods(), name);
    case Kind::dict: return find(dict_methods(), name);
    default: return nullptr;
  }
}

Result<Value> run_builtin(Interpreter& in, const Builtin& builtin, const Value& self,
                          Arguments arguments) {
  Budget& budget = in.budget();
  budget.step();
  budget.work(arguments.positional.size() + arguments.named.size(), Budget::kValue);
  if (builtin.cost == Cost::reading) {
    charge_reading(budget, self);
    for (const Value& value : arguments.positional) charge_reading(budget, value);
    for (const auto& [name, value] : arguments.named) charge_reading(budget, value);
  }
  if (budget.spent()) return tl::unexpected(budget.failure());
  Call call{in, self, std::move(arguments), {}};
  if (builtin.parameters != "*") {
    INFER_CHECK_R(bind(builtin, call));
  }
  return builtin.run(call);
}

}  // namespace infer::jinja
