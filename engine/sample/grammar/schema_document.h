// The text of a JSON schema, its subschemas by number, and where references lead.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/core/status.h"

namespace infer {

/// Keeps the order of properties.
using Json = nlohmann::ordered_json;

using NodeId = uint32_t;
inline constexpr NodeId kNoNode = UINT32_MAX;

/// Most subschemas and combinations of them that are looked at.
inline constexpr size_t kMaxSchemaNodes = 20'000;

/// Not for several threads.
class SchemaDocument {
 public:
  /// Errors: invalid_argument for what is no JSON, unsupported beyond the limits of json_schema.h.
  Status parse(std::string_view text);

  struct Node {
    const Json* json;
    std::string pointer;  ///< as a fragment, for messages; the end of a very long one is left out
    bool negated;         ///< stands for the values that the schema does not allow
  };
  const Node& node(NodeId id) const { return nodes_[id]; }
  /// Whether it is written as the schema that no value satisfies.
  bool is_false(NodeId id) const {
    const Json& json = *nodes_[id].json;
    return json.is_boolean() && json.get<bool>() == nodes_[id].negated;
  }
  NodeId root() { return intern(&root_, ""); }
  /// The subschema at a step or two below a node, e.g. "properties", "name".
  NodeId child(NodeId parent, const Json& json, std::string_view step,
               std::string_view second = {});
  NodeId child(NodeId parent, const Json& json, std::string_view step, size_t index);
  NodeId negation(NodeId id);
  /// What `$ref` at the node leads to.
  Result<NodeId> resolve(NodeId at, const std::string& ref);
  bool too_large() const { return nodes_.size() > kMaxSchemaNodes; }

  /// Whether the text has whole numbers that 64 bits do not hold. They were read as floats.
  bool has_large_integers() const { return large_integers_; }
  /// A failure that names the place and the keyword.
  tl::unexpected<Status> failure(StatusCode code, NodeId at, std::string_view keyword,
                                 std::string_view what) const;

 private:
  NodeId intern(const Json* json, std::string pointer, bool negated = false);
  void find_anchors();

  Json root_;
  bool large_integers_ = false;
  std::vector<Node> nodes_;
  std::unordered_map<const Json*, NodeId> ids_, negated_ids_;
  std::unordered_map<std::string, const Json*> anchors_;
};

}  // namespace infer
