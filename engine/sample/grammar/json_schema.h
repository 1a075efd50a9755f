// JSON schemas (draft 2020-12) as grammars of the texts that validate.
//
// Whatever the grammar writes parses and validates; what cannot be promised is refused, naming the
// JSON pointer and the keyword. The grammar may write less than the schema allows:
//  - properties come in the order of the schema, those of `required` alone after the others; white
//    space and numbers are bounded (json_text.h), nesting is bounded;
//  - where `properties` or `patternProperties` is given and additionalProperties is not, there are
//    no others; where prefixItems is given and items is not, there are no more;
//  - names outside of `properties` may come several times, as JSON allows; for minProperties they
//    count as one.
// Understood: boolean schemas, type, enum, const; minimum, maximum, exclusive…, multipleOf (whole);
// minLength, maxLength, pattern, format; items, prefixItems, minItems, maxItems, contains (one,
// alone), uniqueItems (up to one item); properties, required, additionalProperties,
// patternProperties, propertyNames, minProperties, maxProperties, dependentRequired,
// dependentSchemas; $ref within the document (also recursive), $defs, $anchor; allOf, anyOf; oneOf
// where its branches can be told apart or the opposite of one be written, `not` and if/then/else
// where the opposite can be. Refused: references to other documents, $dynamicRef, unevaluatedItems
// and unevaluatedProperties beside other applicators, and what exceeds the limits. Other keywords
// are ignored, as the draft says; OpenAPI's nullable is one (null is then not written).
#pragma once

#include <memory>
#include <string_view>

#include "engine/core/status.h"
#include "engine/sample/grammar/grammar.h"

namespace infer {

/// Bounds on the text of a schema.
inline constexpr size_t kMaxSchemaBytes = size_t{1} << 20;
inline constexpr uint32_t kMaxSchemaNesting = 256;

/// Errors: invalid_argument for what is no JSON or no schema and for one that no value satisfies;
/// unsupported for what is refused.
Result<std::shared_ptr<const CompiledGrammar>> compile_json_schema(std::string_view json);

}  // namespace infer
