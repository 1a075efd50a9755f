#include "engine/sample/grammar/schema_keywords.h"

#include <algorithm>
#include <cmath>

#include "engine/sample/grammar/json_format.h"
#include "engine/sample/grammar/regex.h"

namespace infer {
namespace {

/// Refused wherever they stand: validation that is not made here, and keywords of other drafts that
/// a reader of the schema may believe to be in force.
constexpr std::string_view kRefused[] = {"$dynamicRef", "$recursiveRef", "maxContains",
                                         "extends",     "disallow",      "divisibleBy"};

/// Apply other schemas to the same value, so that unevaluated… depends on them.
constexpr std::string_view kApplicators[] = {
    "$ref",        "allOf", "anyOf", "oneOf",    "not",
    "if",          "then",  "else",  "contains", "dependentSchemas",
    "dependencies"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

uint64_t limit_of(const Decimal& d) {
  return d.whole.size() > 18 ? kUnlimited - 1 : std::stoull(d.whole);
}

/// Whether the value has a number that may stand for a whole one with other digits, which 64 bits
/// did not hold: one that large with more digits than a double keeps. `large`: the text has such
/// whole numbers.
bool lost_digits(const Json& value, bool large) {
  if (value.is_structured()) {
    return std::ranges::any_of(value, [&](const Json& v) { return lost_digits(v, large); });
  }
  if (!value.is_number_float() || std::abs(value.get<double>()) < 0x1p63) return false;
  const std::string text = value.dump();
  const auto digits = std::ranges::count_if(text.substr(0, text.find('e')), is_digit);
  return large || digits > 15;
}

}  // namespace

tl::unexpected<Status> KeywordReader::invalid(std::string_view keyword,
                                              std::string_view what) const {
  return maker_.document_.failure(StatusCode::invalid_argument, schema_, keyword, what);
}

tl::unexpected<Status> KeywordReader::refused(std::string_view keyword,
                                              std::string_view what) const {
  return maker_.document_.failure(StatusCode::unsupported, schema_, keyword, what);
}

const Json* KeywordReader::find(std::string_view keyword) const {
  const auto it = json_.find(keyword);
  return it == json_.end() ? nullptr : &*it;
}

Status KeywordReader::check_keywords() const {
  for (const std::string_view keyword : kRefused) {
    if (find(keyword) != nullptr) return refused(keyword, "not supported").value();
  }
  if (find("$id") != nullptr && schema_ != maker_.document_.root()) {
    return refused("$id", "a document within the document is not supported").value();
  }
  return {};
}

Result<Shapes> KeywordReader::read() {
  INFER_CHECK_R(check_keywords());
  base_.origin = schema_;
  INFER_CHECK_R(read_types());
  INFER_CHECK_R(read_values());
  INFER_CHECK_R(read_numbers());
  INFER_CHECK_R(read_strings());
  INFER_CHECK_R(read_arrays());
  INFER_CHECK_R(read_objects());
  INFER_CHECK_R(read_unevaluated());
  if (base_.types != 0) all_.push_back(std::move(base_));
  INFER_CHECK_R(apply_schemas());
  INFER_CHECK_R(apply_one_of());
  INFER_CHECK_R(apply_condition());
  INFER_CHECK_R(apply_dependents());
  return std::move(all_);
}

Status KeywordReader::read_type_name(const Json& name, uint8_t& types) {
  struct Named {
    std::string_view name;
    uint8_t types;
  };
  constexpr Named kNames[] = {{"null", kNull},        {"boolean", kBoolean}, {"integer", kInteger},
                              {"number", kAnyNumber}, {"string", kString},   {"array", kArray},
                              {"object", kObject}};
  if (name.is_string()) {
    const auto* it = std::ranges::find(kNames, name.get_ref<const std::string&>(), &Named::name);
    if (it != std::end(kNames)) {
      types |= it->types;
      return {};
    }
  }
  return invalid("type", "not the name of a type").value();
}

Status KeywordReader::read_types() {
  const Json* type = find("type");
  if (type == nullptr) return {};
  uint8_t types = 0;
  if (type->is_array()) {
    for (const Json& name : *type) INFER_CHECK(read_type_name(name, types));
  } else {
    INFER_CHECK(read_type_name(*type, types));
  }
  base_.types = types;
  return {};
}

Status KeywordReader::read_values() {
  for (const char* keyword : {"enum", "const"}) {
    if (const Json* value = find(keyword);
        value != nullptr && lost_digits(*value, maker_.document_.has_large_integers())) {
      return refused(keyword, "a whole number that does not fit 64 bits").value();
    }
  }
  if (const Json* list = find("enum"); list != nullptr) {
    if (!list->is_array()) return invalid("enum", "not an array").value();
    std::vector<ValueId> ids;
    for (const Json& value : *list) {
      INFER_TRY_S(ids.emplace_back(), maker_.add_value(value, schema_));
    }
    std::ranges::sort(ids);
    ids.erase(std::ranges::unique(ids).begin(), ids.end());
    base_.values = std::make_shared<const std::vector<ValueId>>(std::move(ids));
  }
  if (const Json* value = find("const"); value != nullptr) {
    INFER_TRY_S(const ValueId id, maker_.add_value(*value, schema_));
    std::vector<ValueId> ids{id};
    if (base_.values && !std::ranges::binary_search(*base_.values, id)) ids.clear();
    base_.values = std::make_shared<const std::vector<ValueId>>(std::move(ids));
  }
  return {};
}

Status KeywordReader::read_numbers() {
  struct Named {
    const char* name;
    bool lower, exclusive;
  };
  for (const Named& n : {Named{"minimum", true, false}, Named{"exclusiveMinimum", true, true},
                         Named{"maximum", false, false}, Named{"exclusiveMaximum", false, true}}) {
    const Json* value = find(n.name);
    if (value == nullptr) continue;
    if (!value->is_number()) return invalid(n.name, "not a number").value();
    const auto decimal = decimal_of(*value);
    if (!decimal) return refused(n.name, "the number is too large or too small").value();
    auto& bound = n.lower ? base_.lower : base_.upper;
    const int order = !bound ? 1 : compare(*decimal, bound->value) * (n.lower ? 1 : -1);
    if (order > 0 || (order == 0 && n.exclusive)) bound = {*decimal, n.exclusive};
  }
  const Json* multiple = find("multipleOf");
  if (multiple == nullptr) return {};
  if (!multiple->is_number()) return invalid("multipleOf", "not a number").value();
  const auto decimal = decimal_of(*multiple);
  if (!decimal || decimal->negative || decimal->is_zero()) {
    return invalid("multipleOf", "not a number above 0").value();
  }
  if (!decimal->is_integer()) {
    return refused("multipleOf", "multiples of a fraction depend on how the validator rounds")
        .value();
  }
  if (limit_of(*decimal) > UINT32_MAX) return refused("multipleOf", "too large").value();
  base_.multiple_of = limit_of(*decimal);
  base_.types &= static_cast<uint8_t>(~kFraction);
  return {};
}

Status KeywordReader::read_count(const char* keyword, uint64_t& out) {
  const Json* value = find(keyword);
  if (value == nullptr) return {};
  const auto decimal = value->is_number() ? decimal_of(*value) : std::nullopt;
  if (!decimal || decimal->negative || !decimal->is_integer()) {
    return invalid(keyword, "not a count").value();
  }
  out = limit_of(*decimal);
  return {};
}

Status KeywordReader::read_language(const Json& pattern, std::string_view keyword,
                                    std::shared_ptr<const CharDfa>& out) {
  if (!pattern.is_string()) return invalid(keyword, "not a string").value();
  const auto& text = pattern.get_ref<const std::string&>();
  auto& known = maker_.patterns_[text];
  if (!known) {
    Result<CharDfa> dfa = compile_regex(text, maker_.char_work());
    if (!dfa) {
      return maker_.document_.failure(dfa.error().code(), schema_, keyword, dfa.error().message())
          .value();
    }
    known = std::make_shared<const CharDfa>(*std::move(dfa));
  }
  out = known;
  return {};
}

Status KeywordReader::read_strings() {
  INFER_CHECK(read_count("minLength", base_.min_length));
  INFER_CHECK(read_count("maxLength", base_.max_length));
  if (const Json* pattern = find("pattern"); pattern != nullptr) {
    INFER_CHECK(read_language(*pattern, "pattern", base_.languages.emplace_back()));
  }
  const Json* format = find("format");
  if (format == nullptr) return {};
  if (!format->is_string()) return invalid("format", "not a string").value();
  const auto& name = format->get_ref<const std::string&>();
  switch (format_kind(name)) {
    case FormatKind::unknown: return {};
    case FormatKind::refused:
      return refused("format", "the format " + name + " is not supported").value();
    case FormatKind::known: break;
  }
  INFER_TRY_S(base_.formats.emplace_back(), format_language(name));
  return {};
}

Status KeywordReader::read_schemas(const char* keyword, std::vector<NodeId>& out) {
  const Json* list = find(keyword);
  if (list == nullptr) return {};
  if (!list->is_array()) return invalid(keyword, "not an array of schemas").value();
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string step = keyword;
    out.push_back(maker_.document_.child(schema_, (*list)[i], step, i));
  }
  return {};
}

Status KeywordReader::read_arrays() {
  INFER_CHECK(read_count("minItems", base_.min_items));
  INFER_CHECK(read_count("maxItems", base_.max_items));
  ArrayPart part;
  INFER_CHECK(read_schemas("prefixItems", part.prefix));
  if (const Json* items = find("items"); items != nullptr) {
    if (items->is_array()) {
      // What drafts up to 2019-09 call prefixItems and items.
      if (!part.prefix.empty()) return invalid("items", "an array beside prefixItems").value();
      INFER_CHECK(read_schemas("items", part.prefix));
      if (const Json* more = find("additionalItems"); more != nullptr) {
        part.items = maker_.document_.child(schema_, *more, "additionalItems");
      }
    } else {
      part.items = maker_.document_.child(schema_, *items, "items");
    }
  }
  if (!part.prefix.empty() || part.items != kNoNode) {
    base_.arrays.push_back(std::make_shared<const ArrayPart>(std::move(part)));
  }
  if (const Json* unique = find("uniqueItems"); unique != nullptr) {
    if (!unique->is_boolean()) return invalid("uniqueItems", "not a boolean").value();
    base_.unique_items = unique->get<bool>();
  }
  uint64_t min_contains = 1;
  INFER_CHECK(read_count("minContains", min_contains));
  const Json* contains = find("contains");
  if (contains == nullptr || min_contains == 0) return {};
  if (min_contains > 1) return refused("minContains", "more than 1 is not supported").value();
  base_.contains.push_back(maker_.document_.child(schema_, *contains, "contains"));
  return {};
}

Status KeywordReader::read_objects() {
  INFER_CHECK(read_count("minProperties", base_.min_members));
  INFER_CHECK(read_count("maxProperties", base_.max_members));
  ObjectPart part;
  if (const Json* properties = find("properties"); properties != nullptr) {
    if (!properties->is_object()) return invalid("properties", "not an object").value();
    part.lists = true;
    for (const auto& [name, schema] : properties->items()) {
      part.add(name, maker_.document_.child(schema_, schema, "properties", name));
    }
  }
  if (const Json* patterns = find("patternProperties"); patterns != nullptr) {
    if (!patterns->is_object()) return invalid("patternProperties", "not an object").value();
    part.lists = true;
    for (const auto& [pattern, schema] : patterns->items()) {
      ObjectPart::Pattern one;
      one.schema = maker_.document_.child(schema_, schema, "patternProperties", pattern);
      INFER_CHECK(read_language(Json(pattern), "patternProperties", one.names));
      part.patterns.push_back(std::move(one));
    }
  }
  if (const Json* additional = find("additionalProperties"); additional != nullptr) {
    part.additional = maker_.document_.child(schema_, *additional, "additionalProperties");
  }
  if (part.lists || part.additional != kNoNode) {
    base_.objects.push_back(std::make_shared<const ObjectPart>(std::move(part)));
  }
  if (const Json* names = find("propertyNames"); names != nullptr) {
    base_.names.push_back(maker_.document_.child(schema_, *names, "propertyNames"));
  }
  const Json* required = find("required");
  if (required == nullptr) return {};
  if (!required->is_array()) return invalid("required", "not an array").value();
  std::set<std::string_view> seen;
  for (const Json& name : *required) {
    if (!name.is_string()) return invalid("required", "not an array of strings").value();
    const std::string_view text = name.get_ref<const std::string&>();
    if (seen.insert(text).second) base_.required.push_back(text);
  }
  return {};
}

Status KeywordReader::read_unevaluated() {
  const Json* properties = find("unevaluatedProperties");
  const Json* items = find("unevaluatedItems");
  if (properties == nullptr && items == nullptr) return {};
  for (const std::string_view applicator : kApplicators) {
    if (find(applicator) == nullptr) continue;
    return refused(properties != nullptr ? "unevaluatedProperties" : "unevaluatedItems",
                   "not supported together with other applicators")
        .value();
  }
  // Alone it says what additionalProperties and items say.
  if (properties != nullptr && find("additionalProperties") == nullptr) {
    ObjectPart part;
    if (!base_.objects.empty()) part = *base_.objects.front();
    part.additional = maker_.document_.child(schema_, *properties, "unevaluatedProperties");
    base_.objects = {std::make_shared<const ObjectPart>(std::move(part))};
  }
  if (items != nullptr && find("items") == nullptr) {
    ArrayPart part;
    if (!base_.arrays.empty()) part = *base_.arrays.front();
    part.items = maker_.document_.child(schema_, *items, "unevaluatedItems");
    base_.arrays = {std::make_shared<const ArrayPart>(std::move(part))};
  }
  return {};
}

Status KeywordReader::apply(const Shapes& other) {
  INFER_TRY_S(all_, maker_.intersect(all_, other, schema_));
  return {};
}

Status KeywordReader::apply_schemas() {
  SchemaDocument& document = maker_.document_;
  if (const Json* ref = find("$ref"); ref != nullptr) {
    if (!ref->is_string()) return invalid("$ref", "not a string").value();
    INFER_TRY_S(const NodeId target, document.resolve(schema_, ref->get<std::string>()));
    INFER_TRY_S(const Shapes shapes, maker_.shapes(target));
    INFER_CHECK(apply(shapes));
  }
  std::vector<NodeId> each;
  INFER_CHECK(read_schemas("allOf", each));
  for (const NodeId one : each) {
    INFER_TRY_S(const Shapes shapes, maker_.shapes(one));
    INFER_CHECK(apply(shapes));
  }
  if (find("anyOf") != nullptr) {
    std::vector<NodeId> any;
    INFER_CHECK(read_schemas("anyOf", any));
    Shapes either;
    for (const NodeId one : any) {
      INFER_TRY_S(const Shapes shapes, maker_.shapes(one));
      INFER_CHECK(maker_.add(shapes, schema_, either));
    }
    INFER_CHECK(apply(either));
  }
  if (const Json* inner = find("not"); inner != nullptr) {
    const NodeId opposite = document.negation(document.child(schema_, *inner, "not"));
    INFER_TRY_S(const Shapes shapes, maker_.shapes(opposite));
    INFER_CHECK(apply(shapes));
  }
  return {};
}

/// Drops from lists of values those that another branch allows, whatever formats say. Shapes whose
/// list ends are dropped too.
Status KeywordReader::drop_values(const Shapes& branch, Shapes& shapes) {
  Shapes other;
  INFER_CHECK(maker_.add(branch, schema_, other));
  for (Shape& s : other) {
    maker_.leave_out_formats(s);
    s.formats.clear();
  }
  for (Shape& s : shapes) {
    if (!s.values) continue;
    std::vector<ValueId> kept;
    for (const ValueId v : *s.values) {
      bool shared = false;
      for (const Shape& o : other) {
        if (shared) break;
        INFER_TRY_S(shared, maker_.allows(o, v));
      }
      if (!shared) kept.push_back(v);
    }
    if (kept.size() < s.values->size()) {
      s.values = std::make_shared<const std::vector<ValueId>>(std::move(kept));
    }
  }
  std::erase_if(shapes, [](const Shape& s) { return s.values && s.values->empty(); });
  return {};
}

/// Branches that no value shares are as in anyOf. Of others each is taken without the rest, where
/// that can be written.
Status KeywordReader::apply_one_of() {
  if (find("oneOf") == nullptr) return {};
  std::vector<NodeId> branches;
  INFER_CHECK(read_schemas("oneOf", branches));
  // Beside the schema's own keywords, which may tell the branches apart.
  std::vector<Shapes> shapes;
  for (const NodeId branch : branches) {
    INFER_TRY_S(const Shapes plain, maker_.shapes(branch));
    INFER_TRY_S(shapes.emplace_back(), maker_.intersect(all_, plain, schema_));
  }
  Shapes one;
  for (size_t i = 0; i < branches.size(); ++i) {
    Shapes alone = shapes[i];
    for (size_t j = 0; j < branches.size(); ++j) {
      if (i == j) continue;
      if (alone.empty()) break;
      INFER_CHECK(drop_values(shapes[j], alone));
      // What lists its values is apart from the other branch now.
      const auto listed =
          std::ranges::stable_partition(alone, [](const Shape& s) { return !s.values; });
      Shapes values(std::make_move_iterator(listed.begin()), std::make_move_iterator(listed.end()));
      alone.erase(listed.begin(), listed.end());
      const auto join = [&] { alone.insert(alone.end(), values.begin(), values.end()); };
      INFER_TRY_S(const bool apart, maker_.disjoint(alone, shapes[j]));
      if (apart) {
        join();
        continue;
      }
      const Result<Shapes> rest = maker_.shapes(maker_.document_.negation(branches[j]));
      if (!rest) {
        return refused("oneOf", "branches " + std::to_string(i) + " and " + std::to_string(j) +
                                    " may both hold, and " + rest.error().message() +
                                    "; use anyOf if that is meant")
            .value();
      }
      INFER_TRY_S(alone, maker_.intersect(alone, *rest, schema_));
      join();
    }
    INFER_CHECK(maker_.add(alone, schema_, one));
  }
  all_ = std::move(one);
  return {};
}

Status KeywordReader::apply_condition() {
  const Json* condition = find("if");
  if (condition == nullptr) return {};
  SchemaDocument& document = maker_.document_;
  const NodeId holds = document.child(schema_, *condition, "if");
  const Json* yes = find("then");
  const Json* no = find("else");
  if (yes == nullptr && no == nullptr) return {};
  INFER_TRY_S(Shapes both, maker_.shapes(holds));
  if (yes != nullptr) {
    INFER_TRY_S(const Shapes then, maker_.shapes(document.child(schema_, *yes, "then")));
    INFER_TRY_S(both, maker_.intersect(both, then, schema_));
  }
  INFER_TRY_S(Shapes neither, maker_.shapes(document.negation(holds)));
  if (no != nullptr) {
    INFER_TRY_S(const Shapes otherwise, maker_.shapes(document.child(schema_, *no, "else")));
    INFER_TRY_S(neither, maker_.intersect(neither, otherwise, schema_));
  }
  both.insert(both.end(), neither.begin(), neither.end());
  return apply(both);
}

Status KeywordReader::apply_dependents() {
  // Drafts up to 7 have both in `dependencies`.
  for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const Json* dependents = find(keyword);
    if (dependents == nullptr) continue;
    if (!dependents->is_object()) return invalid(keyword, "not an object").value();
    for (const auto& [name, needed] : dependents->items()) {
      Shapes either(2);
      either[0].origin = either[1].origin = schema_;
      either[0].absent.insert(name);
      either[1].types = kObject;
      either[1].required.push_back(name);
      if (std::string_view(keyword) == "dependentSchemas" ||
          (std::string_view(keyword) == "dependencies" && !needed.is_array())) {
        const NodeId inner = maker_.document_.child(schema_, needed, keyword, name);
        INFER_TRY_S(const Shapes shapes, maker_.shapes(inner));
        INFER_TRY_S(Shapes with, maker_.intersect({either[1]}, shapes, schema_));
        with.push_back(either[0]);
        either = std::move(with);
      } else {
        if (!needed.is_array()) return invalid(keyword, "not arrays of strings").value();
        for (const Json& other : needed) {
          if (!other.is_string()) return invalid(keyword, "not arrays of strings").value();
          if (other != name) either[1].required.push_back(other.get_ref<const std::string&>());
        }
      }
      INFER_CHECK(apply(either));
    }
  }
  return {};
}

}  // namespace infer
