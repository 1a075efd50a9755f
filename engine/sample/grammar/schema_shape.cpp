#include "engine/sample/grammar/schema_shape.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "engine/sample/grammar/schema_keywords.h"
#include "engine/text/unicode.h"

namespace infer {
namespace {

constexpr size_t kMaxShapes = 256;
constexpr size_t kMaxOpen = 200;
constexpr uint64_t kMaxWork = 200'000;
constexpr uint32_t kMaxEmptyDepth = 6;

void add_all(auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); }

/// Adds what is not there. In each list all are different.
void unite(auto& to, const auto& from) {
  const size_t before = to.size();
  for (const auto& one : from) {
    const auto first = to.begin(), last = first + static_cast<ptrdiff_t>(before);
    if (std::find(first, last, one) == last) to.push_back(one);
  }
}

/// Steps of work that a copy of the shape takes.
uint64_t weight(const Shape& s) {
  return 1 + (s.languages.size() + s.formats.size() + s.arrays.size() + s.contains.size() +
              s.objects.size() + s.required.size() + 4 * s.absent.size() + s.names.size()) /
                 16;
}

/// Steps that it takes to bring two shapes together.
uint64_t weight(const Shape& a, const Shape& b) {
  const auto pairs = [&](auto member) {
    return uint64_t{(a.*member).size()} * uint64_t{(b.*member).size()};
  };
  const uint64_t compared = pairs(&Shape::languages) + pairs(&Shape::formats) +
                            pairs(&Shape::arrays) + pairs(&Shape::contains) +
                            pairs(&Shape::objects) + pairs(&Shape::required) + pairs(&Shape::names);
  uint64_t bytes = 0;
  for (const std::string_view name : b.required) bytes += a.required.size() * name.size();
  const size_t values = a.values && b.values ? a.values->size() + b.values->size() : 0;
  return weight(a) + weight(b) + compared / 16 + bytes / 1024 + values / 64;
}

/// The stricter of two bounds. `sign` 1: lower bounds.
void tighten(std::optional<NumberSpec::Bound>& bound, const std::optional<NumberSpec::Bound>& other,
             int sign) {
  if (!other) return;
  const int order = bound ? sign * compare(other->value, bound->value) : 1;
  if (order > 0 || (order == 0 && other->exclusive)) bound = other;
}

uint64_t code_points(const std::string& text) {
  uint64_t count = 0;
  for (const char c : text) count += (static_cast<uint8_t>(c) & 0xc0) != 0x80 ? 1 : 0;
  return count;
}

uint8_t type_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return kNull;
    case Json::value_t::boolean: return value.get<bool>() ? kTrue : kFalse;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned: return kInteger;
    case Json::value_t::number_float: {
      const auto d = decimal_of(value);
      return d && d->is_integer() ? kInteger : kFraction;
    }
    case Json::value_t::string: return kString;
    case Json::value_t::array: return kArray;
    default: return kObject;
  }
}

bool is_multiple(const Decimal& d, uint64_t of) {
  if (of == 1) return true;
  uint64_t rest = 0;
  for (const char c : d.whole) rest = (rest * 10 + static_cast<uint64_t>(c - '0')) % of;
  return rest == 0 && d.is_integer();
}

bool within(const Shape& s, const Decimal& d) {
  if (s.lower) {
    const int order = compare(d, s.lower->value);
    if (order < 0 || (order == 0 && s.lower->exclusive)) return false;
  }
  if (s.upper) {
    const int order = compare(d, s.upper->value);
    if (order > 0 || (order == 0 && s.upper->exclusive)) return false;
  }
  return is_multiple(d, s.multiple_of);
}

void normalise(Conjunction& c) {
  std::ranges::sort(c);
  c.erase(std::ranges::unique(c).begin(), c.end());
}

}  // namespace

std::optional<Decimal> decimal_of(const Json& number) {
  if (number.is_number_unsigned()) return Decimal::parse(std::to_string(number.get<uint64_t>()));
  if (number.is_number_integer()) return Decimal::parse(std::to_string(number.get<int64_t>()));
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, number.get<double>()).ptr;
  return Decimal::parse(std::string_view(text, static_cast<size_t>(end - text)));
}

Status ShapeMaker::count_work(NodeId at, uint64_t steps) {
  work_ += steps;
  if (work_ < kMaxWork && !document_.too_large()) return {};
  return document_
      .failure(StatusCode::unsupported, at, "allOf/anyOf",
               "the combinations of its schemas are too many")
      .value();
}

Result<CharDfa> ShapeMaker::set_of(NodeId at, const std::vector<std::string_view>& strings) {
  uint64_t bytes = 0;
  for (const std::string_view s : strings) bytes += s.size();
  INFER_CHECK_R(count_work(at, bytes / 8));
  return CharDfa::of(strings);
}

Result<ValueId> ShapeMaker::add_value(const Json& value, NodeId at) {
  std::string text = canonical_text(value);
  INFER_CHECK_R(count_work(at, text.size() / 64));
  return values_.add(value, std::move(text));
}

Result<Shapes> ShapeMaker::shapes(NodeId schema) {
  if (const auto it = known_.find(schema); it != known_.end()) return it->second;
  if (open_.contains(schema)) {
    return document_.failure(StatusCode::invalid_argument, schema, "$ref",
                             "the schema refers to itself without a value in between");
  }
  if (open_.size() >= kMaxOpen) {
    return document_.failure(StatusCode::unsupported, schema, "$ref",
                             "schemas in schemas about the same value are nested too deeply");
  }
  INFER_CHECK_R(count_work(schema, 1));
  open_.insert(schema);
  Result<Shapes> made = make(schema);
  open_.erase(schema);
  if (made) known_.emplace(schema, *made);
  return made;
}

Result<Shapes> ShapeMaker::shapes(const Conjunction& schemas) {
  Shapes all(1);
  for (const NodeId schema : schemas) {
    INFER_TRY(const Shapes one, shapes(schema));
    INFER_TRY(all, intersect(all, one, schema));
  }
  return all;
}

Result<Shapes> ShapeMaker::make(NodeId schema) {
  const SchemaDocument::Node node = document_.node(schema);
  if (node.negated) {
    INFER_TRY(const Shapes plain, shapes(document_.negation(schema)));
    return negate(plain, schema, "not, oneOf or if");
  }
  if (node.json->is_boolean()) {
    Shapes all;
    if (node.json->get<bool>()) all.emplace_back().origin = schema;
    return all;
  }
  if (!node.json->is_object()) {
    return document_.failure(StatusCode::invalid_argument, schema, "schema",
                             "neither an object nor a boolean");
  }
  return KeywordReader(*this, schema).read();
}

Result<Shapes> ShapeMaker::intersect(const Shapes& a, const Shapes& b, NodeId at) {
  Shapes out;
  const size_t most = std::max({kMaxShapes, a.size(), b.size()});
  for (const Shape& x : a) {
    for (const Shape& y : b) {
      INFER_TRY(Shape both, intersect(x, y, at));
      if (both.types == 0 || (both.values && both.values->empty())) continue;
      out.push_back(std::move(both));
      if (out.size() > most) {
        return document_.failure(StatusCode::unsupported, at, "allOf/anyOf",
                                 "the combinations of its schemas are too many");
      }
    }
  }
  return out;
}

Status ShapeMaker::add(const Shapes& from, NodeId at, Shapes& to) {
  for (const Shape& s : from) {
    INFER_CHECK(count_work(at, weight(s)));
    to.push_back(s);
  }
  return {};
}

Result<Shape> ShapeMaker::intersect(const Shape& a, const Shape& b, NodeId at) {
  INFER_CHECK_R(count_work(at, weight(a, b)));
  Shape s = a;
  s.types &= b.types;
  if (s.origin == kNoNode) s.origin = b.origin;
  if (!s.values) {
    s.values = b.values;
  } else if (b.values && b.values != s.values) {
    std::vector<ValueId> both;
    std::ranges::set_intersection(*a.values, *b.values, std::back_inserter(both));
    s.values = std::make_shared<const std::vector<ValueId>>(std::move(both));
  }
  tighten(s.lower, b.lower, 1);
  tighten(s.upper, b.upper, -1);
  const uint64_t divisor = std::gcd(s.multiple_of, b.multiple_of);
  s.multiple_of = s.multiple_of / divisor * b.multiple_of;
  if (s.multiple_of > UINT32_MAX) {
    return document_.failure(StatusCode::unsupported, b.origin, "multipleOf", "it is too large");
  }
  unite(s.languages, b.languages);
  unite(s.formats, b.formats);
  s.min_length = std::max(s.min_length, b.min_length);
  s.max_length = std::min(s.max_length, b.max_length);
  unite(s.arrays, b.arrays);
  s.min_items = std::max(s.min_items, b.min_items);
  s.max_items = std::min(s.max_items, b.max_items);
  unite(s.contains, b.contains);
  s.unique_items = s.unique_items || b.unique_items;
  unite(s.objects, b.objects);
  unite(s.required, b.required);
  s.absent.insert(b.absent.begin(), b.absent.end());
  unite(s.names, b.names);
  s.min_members = std::max(s.min_members, b.min_members);
  s.max_members = std::min(s.max_members, b.max_members);
  return s;
}

Conjunction ShapeMaker::item(const Shape& shape, size_t index) {
  Conjunction out;
  for (const auto& part : shape.arrays) {
    if (index < part->prefix.size()) {
      out.push_back(part->prefix[index]);
    } else if (part->items != kNoNode) {
      out.push_back(part->items);
    }
  }
  normalise(out);
  return out;
}

Result<Conjunction> ShapeMaker::member(const Shape& shape, std::string_view name) {
  Conjunction out;
  uint64_t patterns = 0;
  for (const auto& part : shape.objects) patterns += part->patterns.size();
  INFER_CHECK_R(
      count_work(place(shape), (shape.objects.size() + patterns) * (1 + name.size() / 16) / 16));
  for (const auto& part : shape.objects) {
    bool named = false;
    if (const auto it = part->by_name.find(name); it != part->by_name.end()) {
      out.push_back(it->second);
      named = true;
    }
    for (const ObjectPart::Pattern& pattern : part->patterns) {
      if (!pattern.names->matches(name)) continue;
      out.push_back(pattern.schema);
      named = true;
    }
    if (!named && part->additional != kNoNode) out.push_back(part->additional);
  }
  normalise(out);
  return out;
}

Conjunction ShapeMaker::other_member(const Shape& shape, const std::vector<bool>& matching) {
  Conjunction out;
  size_t i = 0;
  for (const auto& part : shape.objects) {
    bool named = false;
    for (const ObjectPart::Pattern& pattern : part->patterns) {
      if (!matching[i++]) continue;
      out.push_back(pattern.schema);
      named = true;
    }
    if (!named && part->additional != kNoNode) out.push_back(part->additional);
  }
  normalise(out);
  return out;
}

bool ShapeMaker::allows_other_members(const Shape& shape) {
  bool listed = false;
  bool said = false;
  for (const auto& part : shape.objects) {
    listed = listed || part->lists;
    said = said || part->additional != kNoNode;
  }
  return said || !listed;
}

void ShapeMaker::leave_out_formats(const Shape& shape) {
  if (shape.formats.empty()) return;
  leave_out(place(shape), "format",
            "texts that only a format excludes are not written, since a validator need not check "
            "formats");
}

Result<bool> ShapeMaker::allows(const Conjunction& schemas, const Json& value) {
  INFER_TRY(const Shapes all, shapes(schemas));
  for (const Shape& s : all) {
    INFER_TRY(const bool ok, allows(s, value));
    if (ok) return true;
  }
  return false;
}

Result<bool> ShapeMaker::allows(const Shape& s, ValueId value) {
  if (s.values && !std::ranges::binary_search(*s.values, value)) return false;
  return allows_other(s, values_[value]);
}

Result<bool> ShapeMaker::allows(const Shape& s, const Json& value) {
  if (s.values) {
    const std::string text = canonical_text(value);
    INFER_CHECK_R(count_work(place(s), text.size() / 64));
    const auto id = values_.find(text);
    if (!id || !std::ranges::binary_search(*s.values, *id)) return false;
  }
  return allows_other(s, value);
}

Result<bool> ShapeMaker::allows_other(const Shape& s, const Json& value) {
  const NodeId at = place(s);
  INFER_CHECK_R(count_work(at, 1));
  if ((s.types & type_of(value)) == 0) return false;
  if (value.is_number()) {
    const auto d = decimal_of(value);
    return d && within(s, *d);
  }
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    INFER_CHECK_R(count_work(at, text.size() * (1 + s.languages.size() + s.formats.size()) / 64));
    const uint64_t length = code_points(text);
    const auto matches = [&](const auto& dfa) { return dfa->matches(text); };
    return length >= s.min_length && length <= s.max_length &&
           std::ranges::all_of(s.languages, matches) &&
           std::ranges::all_of(s.formats,
                               [&](const auto& format) { return format->all.matches(text); });
  }
  if (value.is_array()) {
    if (value.size() < s.min_items || value.size() > s.max_items) return false;
    std::set<std::string> seen;
    for (size_t i = 0; i < value.size(); ++i) {
      INFER_CHECK_R(count_work(at, s.arrays.size() / 16));
      INFER_TRY(const bool ok, allows(item(s, i), value[i]));
      if (!ok) return false;
      if (!s.unique_items) continue;
      const auto [text, fresh] = seen.insert(canonical_text(value[i]));
      INFER_CHECK_R(count_work(at, text->size() / 64));
      if (!fresh) return false;
    }
    for (const NodeId wanted : s.contains) {
      bool found = false;
      for (size_t i = 0; i < value.size() && !found; ++i) {
        INFER_TRY(found, allows(Conjunction{wanted}, value[i]));
      }
      if (!found) return false;
    }
  }
  if (value.is_object()) {
    if (value.size() < s.min_members || value.size() > s.max_members) return false;
    INFER_CHECK_R(count_work(at, s.required.size() * value.size() / 64));
    for (const std::string_view name : s.required) {
      if (!value.contains(name)) return false;
    }
    for (const auto& [name, inner] : value.items()) {
      if (s.absent.contains(name)) return false;
      INFER_TRY(const Conjunction schemas, member(s, name));
      INFER_TRY(const bool ok, allows(schemas, inner));
      if (!ok) return false;
      const Json text = name;
      INFER_TRY(const bool named, allows(s.names, text));
      if (!named) return false;
    }
  }
  return true;
}

Result<bool> ShapeMaker::surely_empty(const Conjunction& schemas, uint32_t depth) {
  if (depth > kMaxEmptyDepth) return false;
  INFER_TRY(const Shapes all, shapes(schemas));
  for (const Shape& s : all) {
    INFER_TRY(const bool empty, surely_empty(s, depth + 1));
    if (!empty) return false;
  }
  return true;
}

Result<bool> ShapeMaker::surely_empty(const Shape& s, uint32_t depth) {
  const NodeId at = place(s);
  INFER_CHECK_R(count_work(at, weight(s)));
  if (s.types == 0) return true;
  if (s.values) {
    Shape plain = s;
    plain.formats.clear();
    plain.values.reset();
    for (const ValueId v : *s.values) {
      INFER_TRY(const bool ok, allows(plain, v));
      if (ok) return false;
    }
    return true;
  }
  if ((s.types & (kNull | kBoolean)) != 0) return false;
  if ((s.types & kAnyNumber) != 0) {
    if (!s.lower || !s.upper) return false;
    const int order = compare(s.lower->value, s.upper->value);
    if (order < 0 || (order == 0 && !s.lower->exclusive && !s.upper->exclusive)) return false;
  }
  if ((s.types & kString) != 0 && s.min_length <= s.max_length) {
    CharDfa language = CharDfa::all();
    if (s.max_length < kMaxCharStates / 4) {
      INFER_CHECK_R(count_work(at, s.max_length / 8));
      INFER_TRY(language, CharDfa::of_length(static_cast<uint32_t>(s.min_length),
                                             static_cast<uint32_t>(s.max_length)));
    }
    for (const auto& other : s.languages) {
      auto both = language.intersected(*other, char_work_);
      if (!both) return false;
      language = *std::move(both);
    }
    if (!language.empty()) return false;
  }
  if ((s.types & kArray) != 0 && s.min_items <= s.max_items) {
    bool empty = false;
    for (size_t i = 0; i < std::min<uint64_t>(s.min_items, 16) && !empty; ++i) {
      INFER_CHECK_R(count_work(at, s.arrays.size() / 16));
      INFER_TRY(empty, surely_empty(item(s, i), depth));
    }
    if (!empty) return false;
  }
  if ((s.types & kObject) != 0 && s.min_members <= s.max_members) {
    bool empty = s.required.size() > s.max_members;
    for (const std::string_view name : s.required) {
      if (empty) break;
      empty = s.absent.contains(name);
      if (!empty) {
        INFER_TRY(const Conjunction schemas, member(s, name));
        INFER_TRY(empty, surely_empty(schemas, depth));
      }
    }
    if (!empty) return false;
  }
  return true;
}

Result<bool> ShapeMaker::disjoint(const Shapes& a, const Shapes& b) {
  for (const Shape& x : a) {
    for (const Shape& y : b) {
      INFER_TRY(const Shape both, intersect(x, y, document_.root()));
      INFER_TRY(const bool empty, surely_empty(both));
      if (!empty) return false;
    }
  }
  return true;
}

Result<Shapes> ShapeMaker::negate(const Shapes& shapes, NodeId at, std::string_view keyword) {
  Shapes all(1);
  all[0].origin = at;
  for (const Shape& s : shapes) {
    INFER_TRY(const Shapes one, negate(s, at, keyword));
    INFER_TRY(all, intersect(all, one, at));
  }
  return all;
}

Result<Shapes> ShapeMaker::negate(const Shape& s, NodeId at, std::string_view keyword) {
  const auto refuse = [&](std::string_view what) {
    return document_.failure(
        StatusCode::unsupported, at, keyword,
        std::string("the opposite of ") + std::string(what) + " cannot be guaranteed");
  };
  Shapes out;
  const auto add = [&](uint8_t types) -> Shape& {
    Shape& made = out.emplace_back();
    made.types = types;
    made.origin = at;
    return made;
  };
  if (s.types != kAnyType) add(static_cast<uint8_t>(~s.types));
  if (s.values) {
    // All but these. Of arrays and objects only the empty ones leave what can be written.
    std::vector<std::string_view> texts;
    std::vector<Decimal> numbers;
    uint8_t scalars = 0;
    bool empty_array = false, empty_object = false;
    INFER_CHECK_R(count_work(at, s.values->size() / 4));
    for (const ValueId id : *s.values) {
      const Json& v = values_[id];
      const uint8_t type = type_of(v);
      if ((type & s.types) == 0) continue;
      if (type == kString) {
        texts.push_back(v.get_ref<const std::string&>());
      } else if ((type & (kNull | kBoolean)) != 0) {
        scalars |= type;
      } else if (const auto d = v.is_number() ? decimal_of(v) : std::nullopt; d) {
        numbers.push_back(*d);
      } else if (v.is_structured() && v.empty()) {
        (v.is_array() ? empty_array : empty_object) = true;
      } else {
        return refuse("a number out of range, an array or an object");
      }
    }
    if (numbers.size() > kMaxShapes) return refuse("so many numbers");
    uint8_t apart = scalars | kString;
    if (!numbers.empty()) apart |= kAnyNumber;
    if (empty_array) add(kArray).min_items = 1;
    if (empty_object) add(kObject).min_members = 1;
    if (empty_array) apart |= kArray;
    if (empty_object) apart |= kObject;
    add(static_cast<uint8_t>(s.types & ~apart));
    // Numbers: what lies between two of them, before the first and behind the last.
    std::ranges::sort(numbers,
                      [](const Decimal& a, const Decimal& b) { return compare(a, b) < 0; });
    for (size_t i = 0; !numbers.empty() && i <= numbers.size(); ++i) {
      Shape& between = add(static_cast<uint8_t>(s.types & kAnyNumber));
      if (i > 0) between.lower = {numbers[i - 1], true};
      if (i < numbers.size()) between.upper = {numbers[i], true};
    }
    if ((s.types & kString) != 0) {
      INFER_TRY(const CharDfa listed, set_of(at, texts));
      add(kString).languages.push_back(std::make_shared<const CharDfa>(listed.complement()));
    }
    Shape rest = s;
    rest.values.reset();
    rest.types = kAnyType;
    INFER_TRY(const Shapes others, negate(rest, at, keyword));
    add_all(out, others);
    return out;
  }
  if ((s.types & kAnyNumber) != 0) {
    if (s.multiple_of != 1) return refuse("multipleOf");
    if (s.lower) add(kAnyNumber).upper = {s.lower->value, !s.lower->exclusive};
    if (s.upper) add(kAnyNumber).lower = {s.upper->value, !s.upper->exclusive};
  }
  if ((s.types & kString) != 0) {
    leave_out_formats(s);
    for (const auto& language : s.languages) {
      INFER_CHECK_R(count_work(at, language->states().size() / 8));
      add(kString).languages.push_back(std::make_shared<const CharDfa>(language->complement()));
    }
    if (s.min_length > 0) add(kString).max_length = s.min_length - 1;
    if (s.max_length != kUnlimited) add(kString).min_length = s.max_length + 1;
  }
  if ((s.types & kArray) != 0) {
    if (!s.arrays.empty() || !s.contains.empty() || s.unique_items) return refuse("items");
    if (s.min_items > 0) add(kArray).max_items = s.min_items - 1;
    if (s.max_items != kUnlimited) add(kArray).min_items = s.max_items + 1;
  }
  if ((s.types & kObject) != 0) {
    if (!s.names.empty()) return refuse("propertyNames");
    for (const std::string_view name : s.required) add(kObject).absent.insert(name);
    for (const std::string_view name : s.absent) add(kObject).required.push_back(name);
    if (s.min_members > 0) add(kObject).max_members = s.min_members - 1;
    if (s.max_members != kUnlimited) add(kObject).min_members = s.max_members + 1;
    for (const auto& part : s.objects) {
      if (!part->patterns.empty() || part->additional != kNoNode) {
        return refuse("patternProperties and additionalProperties");
      }
      for (const auto& [name, schema] : part->properties) {
        Shape& other = add(kObject);
        other.required.push_back(name);
        ObjectPart opposite;
        opposite.add(name, document_.negation(schema));
        other.objects.push_back(std::make_shared<const ObjectPart>(std::move(opposite)));
      }
    }
  }
  return out;
}

}  // namespace infer
