#include "engine/plan/arena.h"

#include <algorithm>

#include "engine/core/checked.h"

namespace infer {
namespace {

struct Item {
  ValueId id;
  int64_t bytes;
  int32_t first;
  int32_t last;
  int64_t offset = 0;
};

std::vector<Item> lifetimes(const Graph& graph, std::span<const NodePhase> phases,
                            int64_t alignment, const NodesOfDevice& nodes) {
  const auto node_count = static_cast<int32_t>(graph.nodes().size());
  std::vector<int32_t> item_of(graph.values().size(), -1);
  std::vector<bool> made_here(graph.values().size(), false);
  std::vector<Item> items;
  const auto add = [&](ValueId id, int32_t phase) {
    item_of[static_cast<size_t>(id)] = static_cast<int32_t>(items.size());
    items.push_back({id, round_up(graph.value(id).desc.extent_bytes(), alignment), phase, phase});
  };
  for (int32_t n = 0; n < node_count; ++n) {
    const Node& node = graph.nodes()[static_cast<size_t>(n)];
    const auto [phase, stored] = phases[static_cast<size_t>(n)];
    const bool own = nodes.devices.empty() || nodes.devices[static_cast<size_t>(n)] == nodes.device;
    // Copies between devices are made before the stretch that reads them.
    const int32_t copied = nodes.begins.empty() ? phase : nodes.begins[static_cast<size_t>(n)];
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      const ValueId storage = graph.storage(id);
      int32_t& item = item_of[static_cast<size_t>(storage)];
      const bool made = graph.value(storage).kind == Value::Kind::result;
      if (item < 0 && own && made && !made_here[static_cast<size_t>(storage)]) {
        add(storage, copied);
      }
      if (item >= 0) items[static_cast<size_t>(item)].last = own ? phase : copied;
    }
    if (!own) continue;
    for (const ValueId id : node.outputs) {
      made_here[static_cast<size_t>(id)] = true;
      if (stored) add(id, phase);
    }
  }
  for (const ValueId id : graph.outputs()) {
    const int32_t item = item_of[static_cast<size_t>(graph.storage(id))];
    if (item >= 0) items[static_cast<size_t>(item)].last = node_count;
  }
  return items;
}

/// Items that have their place, found by when they live. Most live for a few phases only, so that
/// whatever overlaps a lifetime is found without looking at the rest.
class Placed {
 public:
  explicit Placed(size_t phases) : alive_(phases), begun_(phases) {}

  void add(const Item& item) {
    begun_[static_cast<size_t>(item.first)].push_back(&item);
    for (int32_t p = item.first; p <= item.last; ++p) {
      alive_[static_cast<size_t>(p)].push_back(&item);
    }
  }

  /// The items whose lifetime overlaps that of `item`, by offset; valid until the next call.
  std::span<const Item* const> beside(const Item& item) {
    found_ = alive_[static_cast<size_t>(item.first)];
    for (int32_t p = item.first + 1; p <= item.last; ++p) {
      const auto& begun = begun_[static_cast<size_t>(p)];
      found_.insert(found_.end(), begun.begin(), begun.end());
    }
    std::ranges::sort(found_, {}, &Item::offset);
    return found_;
  }

 private:
  std::vector<std::vector<const Item*>> alive_;  ///< by phase
  std::vector<std::vector<const Item*>> begun_;  ///< by the phase that made them
  std::vector<const Item*> found_;
};

}  // namespace

ArenaPlan plan_arena(const Graph& graph, std::span<const NodePhase> phases, int64_t alignment,
                     const NodesOfDevice& nodes) {
  std::vector<Item> items = lifetimes(graph, phases, alignment, nodes);
  std::ranges::stable_sort(items, std::greater<>(), &Item::bytes);
  ArenaPlan plan;
  plan.offsets.assign(graph.values().size(), -1);
  Placed placed(graph.nodes().size() + 1);
  for (Item& item : items) {
    int64_t at = 0;
    for (const Item* other : placed.beside(item)) {
      if (at + item.bytes <= other->offset) break;
      at = std::max(at, other->offset + other->bytes);
    }
    item.offset = at;
    plan.offsets[static_cast<size_t>(item.id)] = at;
    plan.bytes = std::max(plan.bytes, at + item.bytes);
    placed.add(item);
  }
  return plan;
}

}  // namespace infer
