// Methods of lists, tuples and dicts. The sandbox refuses methods that would change them.
#include <algorithm>

#include "engine/text/template/interpreter.h"

namespace infer::jinja {
namespace {

Result<Value> index(Call& call) {
  const std::vector<Value>& items = call.self.items();
  const auto size = static_cast<int64_t>(items.size());
  INFER_TRY(int64_t begin, call.integer(1));
  INFER_TRY(int64_t end, call.integer(2, size));
  if (begin < 0) begin = std::max<int64_t>(begin + size, 0);
  if (end < 0) end += size;
  for (int64_t i = begin; i < std::min(end, size); ++i) {
    if (equal(call.in.budget(), items[static_cast<size_t>(i)], call[0])) return Value::of(i);
  }
  return raise("the value is not in the {}", call.self.type_name());
}

Result<Value> count(Call& call) {
  return Value::of(static_cast<int64_t>(std::ranges::count_if(
      call.self.items(), [&](const Value& v) { return equal(call.in.budget(), v, call[0]); })));
}

Result<Value> copy(Call& call) { return call.self; }

Result<Value> get(Call& call) {
  if (!hashable(call[0])) return raise("unhashable type: '{}'", call[0].type_name());
  const Value* found = call.self.dict().find(call.in.budget(), call[0]);
  if (found != nullptr) return *found;
  return call.has(1) ? call[1] : Value::none();
}

/// What keys(), values() and items() give: has a length and can be iterated, but is no sequence.
struct View : Object {
  View(Budget* budget, std::string_view type, const Value& list)
      : Object(budget, 96), type(type), list(list) {
    hold(list);
  }
  std::string_view type_name() const override { return type; }
  std::string repr() const override { return std::string(type) + "([…])"; }
  std::optional<int64_t> length() const override {
    return static_cast<int64_t>(list.items().size());
  }
  Result<std::optional<std::vector<Value>>> elements(Interpreter&) override { return list.items(); }

  std::string_view type;
  Value list;
};

Value view(Call& call, std::string_view type, std::vector<Value> items) {
  return Value::object(Kind::object, std::make_shared<View>(&call.in.budget(), type,
                                                            call.in.list(std::move(items))));
}

Result<Value> keys(Call& call) {
  std::vector<Value> all;
  for (const auto& [key, value] : call.self.dict().entries) all.push_back(key);
  return view(call, "dict_keys", std::move(all));
}

Result<Value> values(Call& call) {
  std::vector<Value> all;
  for (const auto& [key, value] : call.self.dict().entries) all.push_back(value);
  return view(call, "dict_values", std::move(all));
}

Result<Value> items(Call& call) {
  std::vector<Value> all;
  for (const auto& [key, value] : call.self.dict().entries) {
    all.push_back(call.in.tuple({key, value}));
  }
  return view(call, "dict_items", std::move(all));
}

constexpr Builtin kList[] = {
    {"index", "/value start? stop?", index},
    {"count", "/value", count},
    {"copy", "", copy},
    {"append", "*", nullptr},
    {"clear", "*", nullptr},
    {"extend", "*", nullptr},
    {"insert", "*", nullptr},
    {"pop", "*", nullptr},
    {"remove", "*", nullptr},
    {"reverse", "*", nullptr},
    {"sort", "*", nullptr},
};

constexpr Builtin kTuple[] = {
    {"index", "/value start? stop?", index},
    {"count", "/value", count},
};

constexpr Builtin kDict[] = {
    {"get", "/key default?", get, Cost::own},
    {"keys", "", keys},
    {"values", "", values},
    {"items", "", items},
    {"copy", "", copy},
    {"clear", "*", nullptr},
    {"pop", "*", nullptr},
    {"popitem", "*", nullptr},
    {"setdefault", "*", nullptr},
    {"update", "*", nullptr},
};

}  // namespace

std::span<const Builtin> list_methods() { return kList; }
std::span<const Builtin> tuple_methods() { return kTuple; }
std::span<const Builtin> dict_methods() { return kDict; }

}  // namespace infer::jinja
