#include "engine/text/template/value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "engine/text/template/characters.h"
#include "engine/text/template/numbers.h"

namespace infer::jinja {
namespace {

/// The order of keys: any total order in which equal keys are equal.
int key_rank(const Value& key) {
  switch (key.kind()) {
    case Kind::undefined: return 0;
    case Kind::none: return 1;
    case Kind::boolean:
    case Kind::integer:
    case Kind::real: return 2;
    case Kind::big_integer: return 3;
    case Kind::string: return 4;
    case Kind::tuple: return 5;
    default: return 6;
  }
}

int sign(auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; }

int key_order(Budget& budget, const Value& a, const Value& b) {
  if (!budget.step()) return 0;
  if (const int ranks = sign(key_rank(a), key_rank(b)); ranks != 0) return ranks;
  switch (key_rank(a)) {
    case 2:
      return a.is_integral() && b.is_integral() ? sign(a.integer(), b.integer())
                                                : sign(a.number(), b.number());
    case 3:
    case 4: return compare_texts(budget, a.text(), b.text());
    case 5: {
      const std::vector<Value>& x = a.items();
      const std::vector<Value>& y = b.items();
      if (const int sizes = sign(x.size(), y.size()); sizes != 0) return sizes;
      for (size_t i = 0; i < x.size(); ++i) {
        if (const int parts = key_order(budget, x[i], y[i]); parts != 0) return parts;
      }
      return 0;
    }
    case 6: return sign(a.object().get(), b.object().get());
    default: return 0;
  }
}

bool equal_texts(Budget& budget, std::string_view a, std::string_view b) {
  return a.size() == b.size() && compare_texts(budget, a, b) == 0 && !budget.spent();
}

}  // namespace

Status Budget::failure() const {
  if (too_deep_) {
    return error(StatusCode::invalid_argument, "values are nested more than {} deep", kNesting);
  }
  if (bytes_ > kBytes) {
    return error(StatusCode::invalid_argument, "the template's values need more than {} MiB",
                 kBytes >> 20);
  }
  return error(StatusCode::does_not_fit,
               "the template takes more than {} steps: the conversation is too long for it",
               most_work_ / kStep);
}

std::optional<Value> Object::attribute(Interpreter&, std::string_view) { return std::nullopt; }
Result<std::optional<std::vector<Value>>> Object::elements(Interpreter&) { return std::nullopt; }

void Object::hold(const Value& value) {
  depth_ = std::max(depth_, value.depth() + 1);
  if (budget_ != nullptr) budget_->nest(depth_);
}

void Object::hold(const std::vector<Value>& values) {
  for (const Value& value : values) hold(value);
}

Text::Text(Budget* budget, std::string text)
    : Object(budget, static_cast<int64_t>(text.size()) + 96),
      bytes(std::move(text)),
      code_points(count_code_points(bytes)) {}

Sequence::Sequence(Budget* budget, std::vector<Value> values)
    : Object(budget, static_cast<int64_t>(values.size() * sizeof(Value)) + 96),
      items(std::move(values)) {
  hold(items);
  items_hashable = std::ranges::all_of(items, hashable);
}

Dict::Dict(Budget* budget, std::vector<std::pair<Value, Value>> given)
    : Object(budget, static_cast<int64_t>(given.size() * (2 * sizeof(Value) + 4)) + 96) {
  std::vector<uint32_t> order(given.size());
  std::iota(order.begin(), order.end(), uint32_t{0});
  const auto compared = [&](uint32_t a, uint32_t b) {
    return key_order(*budget, given[a].first, given[b].first);
  };
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return compared(a, b) < 0; });
  // Of each run of equal keys the first entry stays, with the value of the last.
  std::vector<bool> dropped(given.size());
  for (size_t i = 1, first = 0; i < order.size(); ++i) {
    if (compared(order[first], order[i]) != 0) {
      first = i;
      continue;
    }
    given[order[first]].second = given[order[i]].second;
    dropped[order[i]] = true;
  }
  std::vector<uint32_t> moved(given.size());
  entries.reserve(given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    moved[i] = static_cast<uint32_t>(entries.size());
    if (!dropped[i]) entries.push_back(std::move(given[i]));
  }
  for (const uint32_t i : order) {
    if (!dropped[i]) order_.push_back(moved[i]);
  }
  for (const auto& [key, value] : entries) {
    hold(key);
    hold(value);
  }
}

const Value* Dict::find(Budget& budget, const Value& key) const {
  const auto at = std::ranges::lower_bound(
      order_, 0, {}, [&](uint32_t i) { return key_order(budget, entries[i].first, key); });
  if (at == order_.end() || key_order(budget, entries[*at].first, key) != 0) return nullptr;
  return &entries[*at].second;
}

const Value* Dict::find(Budget& budget, std::string_view key) const {
  constexpr int kTextRank = 4;
  const auto order_of = [&](uint32_t i) {
    const Value& entry = entries[i].first;
    const int ranks = sign(key_rank(entry), kTextRank);
    return ranks != 0 ? ranks : compare_texts(budget, entry.text(), key);
  };
  const auto at = std::ranges::lower_bound(order_, 0, {}, order_of);
  if (at == order_.end() || order_of(*at) != 0) return nullptr;
  return &entries[*at].second;
}

void Namespace::set(const std::string& name, Value value) {
  charge_search(name);
  const auto [at, added] = index_.try_emplace(name, attributes.size());
  if (!added) {
    attributes[at->second].second = std::move(value);
    return;
  }
  const auto bytes = static_cast<int64_t>(2 * name.size() + sizeof(Value) + 160);
  budget()->take(bytes);
  held_ += bytes;
  attributes.emplace_back(name, std::move(value));
}

/// Each of the comparisons of a search in the tree may read the whole name.
void Namespace::charge_search(std::string_view name) const {
  budget()->work(name.size(), static_cast<int64_t>(std::bit_width(attributes.size())));
}

const Value* Namespace::find(std::string_view name) const {
  charge_search(name);
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &attributes[at->second].second;
}

void Namespace::clear() {
  attributes.clear();
  index_.clear();
}

Value Value::of(bool b) {
  Value v(Kind::boolean);
  v.integer_ = b ? 1 : 0;
  return v;
}

Value Value::of(int64_t i) {
  Value v(Kind::integer);
  v.integer_ = i;
  return v;
}

Value Value::of(double d) {
  Value v(Kind::real);
  v.real_ = d;
  return v;
}

Value Value::string(Budget* budget, std::string text, bool markup) {
  Value v(Kind::string);
  v.markup_ = markup;
  v.object_ = std::make_shared<Text>(budget, std::move(text));
  return v;
}

Value Value::list(Budget* budget, std::vector<Value> items) {
  Value v(Kind::list);
  v.object_ = std::make_shared<Sequence>(budget, std::move(items));
  return v;
}

Value Value::tuple(Budget* budget, std::vector<Value> items) {
  Value v(Kind::tuple);
  v.object_ = std::make_shared<Sequence>(budget, std::move(items));
  return v;
}

Value Value::dict(Budget* budget, std::vector<std::pair<Value, Value>> entries) {
  Value v(Kind::dict);
  v.object_ = std::make_shared<Dict>(budget, std::move(entries));
  return v;
}

Value Value::undefined(Budget* budget, std::string why) {
  Value v(Kind::undefined);
  v.object_ = std::make_shared<Text>(budget, std::move(why));
  return v;
}

Value Value::big_integer(Budget* budget, std::string digits) {
  Value v(Kind::big_integer);
  v.object_ = std::make_shared<Text>(budget, std::move(digits));
  return v;
}

Value Value::object(Kind kind, std::shared_ptr<Object> object) {
  Value v(kind);
  v.object_ = std::move(object);
  return v;
}

bool Value::is_number() const {
  return kind_ == Kind::integer || kind_ == Kind::boolean || kind_ == Kind::real ||
         kind_ == Kind::big_integer;
}

double Value::number() const {
  if (kind_ == Kind::real) return real_;
  if (kind_ == Kind::big_integer) return decimal_number(text()).value_or(0);
  return static_cast<double>(integer_);
}

const std::string& Value::text() const { return static_cast<const Text*>(object_.get())->bytes; }
int64_t Value::code_points() const { return static_cast<const Text*>(object_.get())->code_points; }
const std::vector<Value>& Value::items() const {
  return static_cast<const Sequence*>(object_.get())->items;
}
const Dict& Value::dict() const { return *static_cast<const Dict*>(object_.get()); }

bool Value::truth() const {
  switch (kind_) {
    case Kind::missing:
    case Kind::undefined:
    case Kind::none: return false;
    case Kind::boolean:
    case Kind::integer: return integer_ != 0;
    case Kind::real: return real_ != 0;
    case Kind::string: return !text().empty();
    case Kind::list:
    case Kind::tuple: return !items().empty();
    case Kind::dict: return !dict().entries.empty();
    case Kind::object: return object_->length().value_or(1) != 0;
    case Kind::big_integer:
    case Kind::name_space:
    case Kind::callable: return true;
  }
  return true;
}

int Value::depth() const {
  return object_ == nullptr || kind_ == Kind::name_space ? 0 : object_->depth();
}

std::string Value::type_name() const {
  switch (kind_) {
    case Kind::missing:
    case Kind::undefined: return "Undefined";
    case Kind::none: return "NoneType";
    case Kind::boolean: return "bool";
    case Kind::integer:
    case Kind::big_integer: return "int";
    case Kind::real: return "float";
    case Kind::string: return markup_ ? "Markup" : "str";
    case Kind::list: return "list";
    case Kind::tuple: return "tuple";
    case Kind::dict: return "dict";
    case Kind::name_space:
    case Kind::callable:
    case Kind::object: return std::string(object_->type_name());
  }
  return "object";
}

bool hashable(const Value& value) {
  if (value.is(Kind::tuple)) return value.as<Sequence>()->items_hashable;
  return !value.is(Kind::list) && !value.is(Kind::dict);
}

bool identical(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::none: return true;
    case Kind::boolean:
    case Kind::integer: return a.integer() == b.integer();
    case Kind::real: return a.number() == b.number();
    default: return a.object() == b.object();
  }
}

int compare_texts(Budget& budget, std::string_view a, std::string_view b) {
  // In pieces, so that texts that differ early cost little.
  constexpr size_t kPiece = 4096;
  const size_t common = std::min(a.size(), b.size());
  for (size_t at = 0; at < common; at += kPiece) {
    const size_t size = std::min(kPiece, common - at);
    if (!budget.work(static_cast<int64_t>(size))) return 0;
    const int order = std::memcmp(a.data() + at, b.data() + at, size);
    if (order != 0) return order;
  }
  return sign(a.size(), b.size());
}

bool equal(Budget& budget, const Value& a, const Value& b) {
  if (!budget.step()) return false;
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
    if (a.is(Kind::big_integer) && b.is(Kind::big_integer)) {
      return equal_texts(budget, a.text(), b.text());
    }
    if (a.is(Kind::big_integer) != b.is(Kind::big_integer) && !a.is(Kind::real) &&
        !b.is(Kind::real)) {
      return false;
    }
    return a.number() == b.number();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::undefined:
    case Kind::none: return true;
    case Kind::string: return a.object() == b.object() || equal_texts(budget, a.text(), b.text());
    case Kind::list:
    case Kind::tuple:
      if (a.object() == b.object()) return true;
      return std::ranges::equal(a.items(), b.items(), [&](const Value& x, const Value& y) {
        return equal(budget, x, y);
      });
    case Kind::dict: {
      if (a.object() == b.object()) return true;
      if (a.dict().entries.size() != b.dict().entries.size()) return false;
      return std::ranges::all_of(a.dict().entries, [&](const auto& entry) {
        const Value* other = b.dict().find(budget, entry.first);
        return other != nullptr && equal(budget, entry.second, *other);
      });
    }
    default: break;
  }
  // Ranges are equal if their elements are; Python compares other objects by identity.
  return a.object() == b.object() || (a.type_name() == "range" && b.type_name() == "range" &&
                                      a.object()->repr() == b.object()->repr());
}

Result<bool> less(Budget& budget, const Value& a, const Value& b) {
  if (!budget.step()) return false;
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() < b.integer();
    return a.number() < b.number();
  }
  if (a.is(Kind::string) && b.is(Kind::string)) {
    return compare_texts(budget, a.text(), b.text()) < 0;
  }
  if (a.kind() == b.kind() && (a.is(Kind::list) || a.is(Kind::tuple))) {
    const std::vector<Value>& x = a.items();
    const std::vector<Value>& y = b.items();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(budget, x[i], y[i])) return less(budget, x[i], y[i]);
    }
    return x.size() < y.size();
  }
  for (const Value* side : {&a, &b}) {
    if (side->is(Kind::undefined)) return raise("{}", side->text());
  }
  return raise("'<' not supported between instances of '{}' and '{}'", a.type_name(),
               b.type_name());
}

std::string shortened(std::string_view text) {
  constexpr size_t kShown = 200;
  if (text.size() <= kShown) return std::string(text);
  size_t end = kShown;
  while (end > 0 && (text[end] & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace infer::jinja
