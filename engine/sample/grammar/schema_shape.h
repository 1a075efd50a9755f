// Schemas as unions of shapes: conjunctions of constraints, each about one type of value.
//
// In this form conjunctions (allOf, $ref beside others) become intersections of shapes, and
// disjunctions (anyOf) lists of them. Subschemas of members and items are not looked into: a shape
// holds their numbers, so that recursive schemas stay finite.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "engine/sample/grammar/char_dfa.h"
#include "engine/sample/grammar/json_format.h"
#include "engine/sample/grammar/json_text.h"
#include "engine/sample/grammar/schema_document.h"
#include "engine/sample/grammar/schema_values.h"

namespace infer {

/// Schemas that all have to hold, ascending; none: everything is allowed.
using Conjunction = std::vector<NodeId>;

enum TypeBits : uint8_t {
  kNull = 1,
  kFalse = 2,
  kTrue = 4,
  kInteger = 8,
  kFraction = 16,  ///< numbers that are no integers
  kString = 32,
  kArray = 64,
  kObject = 128,
  kBoolean = kFalse | kTrue,
  kAnyNumber = kInteger | kFraction,
  kAnyType = 255,
};

inline constexpr uint64_t kUnlimited = UINT64_MAX;

/// What one schema object says of items.
struct ArrayPart {
  std::vector<NodeId> prefix;
  NodeId items = kNoNode;  ///< of those behind the prefix
};

/// What one schema object says of members. Names are views of the document.
struct ObjectPart {
  struct Pattern {
    std::shared_ptr<const CharDfa> names;
    NodeId schema;
  };
  std::vector<std::pair<std::string_view, NodeId>> properties;
  std::map<std::string_view, NodeId> by_name;
  std::vector<Pattern> patterns;
  bool lists = false;  ///< `properties` or `patternProperties` is there, if only an empty one
  NodeId additional = kNoNode;

  void add(std::string_view name, NodeId schema) {
    lists = true;
    properties.emplace_back(name, schema);
    by_name.emplace(name, schema);
  }
};

struct Shape {
  uint8_t types = kAnyType;
  NodeId origin = kNoNode;  ///< for messages
  ValueIds values;          ///< null: any

  std::optional<NumberSpec::Bound> lower, upper;
  uint64_t multiple_of = 1;

  std::vector<std::shared_ptr<const CharDfa>> languages;
  /// By `format`: a validator may take these for annotations, so what is said of exclusion must not
  /// rely on them.
  std::vector<std::shared_ptr<const FormatLanguage>> formats;
  uint64_t min_length = 0, max_length = kUnlimited;

  std::vector<std::shared_ptr<const ArrayPart>> arrays;
  uint64_t min_items = 0, max_items = kUnlimited;
  std::vector<NodeId> contains;
  bool unique_items = false;

  std::vector<std::shared_ptr<const ObjectPart>> objects;
  std::vector<std::string_view> required;
  std::set<std::string_view> absent;
  std::vector<NodeId> names;  ///< propertyNames
  uint64_t min_members = 0, max_members = kUnlimited;
};

using Shapes = std::vector<Shape>;

/// Turns schemas into shapes. Errors are those of compile_json_schema.
class ShapeMaker {
 public:
  explicit ShapeMaker(SchemaDocument& document) : document_(document) {}

  SchemaDocument& document() { return document_; }
  const Json& value(ValueId id) const { return values_[id]; }
  /// What all automata of the schema share.
  CharWork& char_work() { return char_work_; }
  /// Of all these schemas together.
  Result<Shapes> shapes(const Conjunction& schemas);
  Result<Shapes> shapes(NodeId schema);

  /// The schemas of the item at `index`, or of the member `name`.
  static Conjunction item(const Shape& shape, size_t index);
  Result<Conjunction> member(const Shape& shape, std::string_view name);
  /// Of a member in none of the `properties`, by which of all patterns (in the order of the parts)
  /// its name is in.
  static Conjunction other_member(const Shape& shape, const std::vector<bool>& matching);
  static bool allows_other_members(const Shape& shape);

  /// What a schema allows and no shape or text has; the first one that was noted.
  struct LeftOut {
    NodeId at = kNoNode;  ///< kNoNode: nothing was
    std::string_view keyword, what;
  };
  const LeftOut& left_out() const { return left_out_; }
  void leave_out(NodeId at, std::string_view keyword, std::string_view what) {
    if (left_out_.at == kNoNode) left_out_ = {at, keyword, what};
  }
  /// The same for what only a format of the shape tells from its other texts.
  void leave_out_formats(const Shape& shape);

  Result<bool> allows(const Shape& shape, ValueId value);
  /// Whether it is certain that no value is of the shape. Formats do not count.
  Result<bool> surely_empty(const Shape& shape, uint32_t depth = 0);
  /// Counts `steps` of a microsecond or less towards the limit of the whole schema.
  Status count_work(NodeId at, uint64_t steps);
  /// The strings as a set, which is counted as work.
  Result<CharDfa> set_of(NodeId at, const std::vector<std::string_view>& strings);

 private:
  friend class KeywordReader;

  Result<Shapes> make(NodeId schema);
  Result<Shapes> intersect(const Shapes& a, const Shapes& b, NodeId at);
  Result<Shape> intersect(const Shape& a, const Shape& b, NodeId at);
  /// Adds copies of shapes.
  Status add(const Shapes& from, NodeId at, Shapes& to);
  /// Shapes of what the others leave; unsupported where that cannot be written.
  Result<Shapes> negate(const Shapes& shapes, NodeId at, std::string_view keyword);
  Result<Shapes> negate(const Shape& shape, NodeId at, std::string_view keyword);
  Result<bool> disjoint(const Shapes& a, const Shapes& b);
  /// For messages.
  NodeId place(const Shape& shape) {
    return shape.origin == kNoNode ? document_.root() : shape.origin;
  }
  Result<ValueId> add_value(const Json& value, NodeId at);
  Result<bool> allows(const Conjunction& schemas, const Json& value);
  Result<bool> allows(const Shape& shape, const Json& value);
  /// Whatever values the shape lists.
  Result<bool> allows_other(const Shape& shape, const Json& value);
  Result<bool> surely_empty(const Conjunction& schemas, uint32_t depth);

  SchemaDocument& document_;
  SchemaValues values_;
  std::map<NodeId, Shapes> known_;
  std::set<NodeId> open_;
  LeftOut left_out_;
  uint64_t work_ = 0;
  CharWork char_work_{16'000'000};
  std::map<std::string, std::shared_ptr<const CharDfa>> patterns_;  ///< by their texts
};

}  // namespace infer
