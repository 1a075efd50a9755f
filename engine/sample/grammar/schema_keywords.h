// Reads the keywords of one schema object.
#pragma once

#include <optional>
#include <string_view>

#include "engine/sample/grammar/schema_shape.h"

namespace infer {

/// The exact value of a JSON number, or nothing beyond the limits of Decimal.
std::optional<Decimal> decimal_of(const Json& number);

/// Every keyword is read, known not to bear on validation, or refused.
class KeywordReader {
 public:
  KeywordReader(ShapeMaker& maker, NodeId schema)
      : maker_(maker), schema_(schema), json_(*maker.document_.node(schema).json) {}

  Result<Shapes> read();

 private:
  tl::unexpected<Status> invalid(std::string_view keyword, std::string_view what) const;
  tl::unexpected<Status> refused(std::string_view keyword, std::string_view what) const;
  Status check_keywords() const;
  const Json* find(std::string_view keyword) const;

  Status read_types();
  Status read_type_name(const Json& name, uint8_t& types);
  Status read_values();
  Status read_numbers();
  Status read_strings();
  Status read_arrays();
  Status read_objects();
  Status read_unevaluated();
  Status read_count(const char* keyword, uint64_t& out);
  Status read_language(const Json& pattern, std::string_view keyword,
                       std::shared_ptr<const CharDfa>& out);
  Status read_schemas(const char* keyword, std::vector<NodeId>& out);

  Status apply(const Shapes& other);
  Status apply_schemas();
  Status apply_one_of();
  Status drop_values(const Shapes& branch, Shapes& shapes);
  Status apply_condition();
  Status apply_dependents();

  ShapeMaker& maker_;
  NodeId schema_;
  const Json& json_;
  Shape base_;
  Shapes all_;
};

}  // namespace infer
