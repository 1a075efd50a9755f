// The values that schemas list, by number.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/sample/grammar/schema_document.h"

namespace infer {

using ValueId = uint32_t;
/// Ascending. Shapes that list the same values share them.
using ValueIds = std::shared_ptr<const std::vector<ValueId>>;

/// A text that two values share if they are the same in JSON Schema's sense: 1 and 1.0 are, the
/// order of members does not count.
std::string canonical_text(const Json& value);

/// One number for all values that are the same, in the order in which they come.
class SchemaValues {
 public:
  /// The value has to outlive this object.
  ValueId add(const Json& value, std::string canonical) {
    const auto [it, fresh] =
        ids_.try_emplace(std::move(canonical), static_cast<ValueId>(values_.size()));
    if (fresh) values_.push_back(&value);
    return it->second;
  }
  std::optional<ValueId> find(const std::string& canonical) const {
    const auto it = ids_.find(canonical);
    return it == ids_.end() ? std::nullopt : std::optional(it->second);
  }
  const Json& operator[](ValueId id) const { return *values_[id]; }

 private:
  std::vector<const Json*> values_;
  std::unordered_map<std::string, ValueId> ids_;
};

}  // namespace infer
