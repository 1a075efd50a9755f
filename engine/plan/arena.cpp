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
                            int64_t alignment) {
  const auto node_count = static_cast<int32_t>(graph.nodes().size());
  std::vector<int32_t> item_of(graph.values().size(), -1);
  std::vector<Item> items;
  for (int32_t n = 0; n < node_count; ++n) {
    const Node& node = graph.nodes()[static_cast<size_t>(n)];
    const auto [phase, stored] = phases[static_cast<size_t>(n)];
    for (const ValueId id : node.outputs) {
      if (!stored) continue;
      item_of[static_cast<size_t>(id)] = static_cast<int32_t>(items.size());
      items.push_back({id, round_up(graph.value(id).desc.extent_bytes(), alignment), phase, phase});
    }
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      const int32_t item = item_of[static_cast<size_t>(graph.storage(id))];
      if (item >= 0) items[static_cast<size_t>(item)].last = phase;
    }
  }
  for (const ValueId id : graph.outputs()) {
    items[static_cast<size_t>(item_of[static_cast<size_t>(graph.storage(id))])].last = node_count;
  }
  return items;
}

}  // namespace

ArenaPlan plan_arena(const Graph& graph, std::span<const NodePhase> phases, int64_t alignment) {
  std::vector<Item> items = lifetimes(graph, phases, alignment);
  std::ranges::stable_sort(items, std::greater<>(), &Item::bytes);
  ArenaPlan plan;
  plan.offsets.assign(graph.values().size(), -1);
  std::vector<const Item*> placed;  // by offset
  for (Item& item : items) {
    int64_t at = 0;
    for (const Item* other : placed) {
      if (other->last < item.first || item.last < other->first) continue;
      if (at + item.bytes <= other->offset) break;
      at = std::max(at, other->offset + other->bytes);
    }
    item.offset = at;
    plan.offsets[static_cast<size_t>(item.id)] = at;
    plan.bytes = std::max(plan.bytes, at + item.bytes);
    placed.insert(std::ranges::upper_bound(placed, at, {}, &Item::offset), &item);
  }
  return plan;
}

}  // namespace infer
