// JSON schemas (draft 2020-12) as grammars of the texts that validate.
//
// Every text of the grammar is valid JSON and satisfies the schema. A schema for which this cannot
// be guaranteed is refused, with the JSON pointer and the keyword. The grammar may allow less than
// the schema:
//  - Properties come in the order of the schema. Names that only `required` lists come after them.
//    White space, numbers (json_text.h) and nesting are bounded.
//  - With `properties` or `patternProperties` but without additionalProperties there are no other
//    members. With prefixItems but without items there are no further items.
//  - A name outside `properties` may come several times, as JSON allows; minProperties counts it
//    once.
//
// Supported: boolean schemas, type, enum, const; minimum, maximum, exclusive…, multipleOf (whole
// numbers); minLength, maxLength, pattern, format; items, prefixItems (in older drafts
// additionalItems, items), minItems, maxItems, contains (only one, alone), uniqueItems (up to one
// item); properties, required, additionalProperties, patternProperties, propertyNames,
// minProperties, maxProperties, dependentRequired, dependentSchemas, dependencies; $ref within the
// document (also recursive), $defs, $anchor; allOf, anyOf; oneOf if its branches exclude each other
// or can be negated; `not` and if/then/else if the schema can be negated.
//
// Refused: references to other documents, $dynamicRef, unevaluatedItems and unevaluatedProperties
// together with other applicators, and schemas beyond the limits. Other keywords are ignored, as
// the draft says. OpenAPI's nullable is one of them, so null is not allowed then.
#pragma once

#include <memory>
#include <string_view>

#include "engine/core/status.h"
#include "engine/sample/grammar/grammar.h"

namespace infer {

/// Bounds on the text of a schema.
inline constexpr size_t kMaxSchemaBytes = size_t{1} << 20;
inline constexpr uint32_t kMaxSchemaNesting = 256;
/// Nested calls of rules in a text, about three to a container.
inline constexpr uint32_t kMaxSchemaDepth = 128;

/// Errors: invalid_argument for a text that is not JSON or not a schema, and for a schema that no
/// value satisfies; unsupported for a schema that is refused.
Result<std::shared_ptr<const CompiledGrammar>> compile_json_schema(std::string_view json);

/// Adds the schema's rules to a grammar; returns the one that reads a value. A schema that no value
/// satisfies is no error here: its rule reads nothing.
Result<GrammarBuilder::RuleId> add_json_schema(std::string_view json, GrammarBuilder& builder);

}  // namespace infer
