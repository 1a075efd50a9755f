// The operations that a back end has. Op is the back end's own description of one: it has a member
// `id`. An operation without an entry is unsupported, so a back end may have any part of them.
//
// Device::phases() and scratch_bytes() are also asked of nodes that the device cannot compute:
// planning looks at the whole graph before layers are placed.
#pragma once

#include <array>
#include <span>

#include "engine/core/status.h"
#include "engine/graph/graph.h"

namespace infer {

template <typename Op>
class OpTable {
 public:
  /// The entries outlive the table.
  explicit OpTable(std::span<const Op* const> ops) {
    for (const Op* op : ops) by_id_[static_cast<size_t>(op->id)] = op;
  }

  /// Null: the back end does not have it.
  const Op* find(OpId id) const { return by_id_[static_cast<size_t>(id)]; }
  /// Ok, or unsupported with the operation's name.
  Status check(OpId id, const char* backend) const {
    if (find(id) != nullptr) return {};
    return error(StatusCode::unsupported, "the back end '{}' has no operation '{}'", backend,
                 op_name(id));
  }

 private:
  std::array<const Op*, kOpCount> by_id_{};
};

}  // namespace infer
