#include "backends/gpu/phases.h"

#include <set>

namespace infer::gpu {

std::vector<int32_t> computed_nodes(const FusedCall& call) {
  std::vector<int32_t> nodes;
  if (call.norm >= 0 && !call.makes_norm) nodes.push_back(call.norm);
  for (int32_t n = call.begin(); n < call.end(); ++n) nodes.push_back(n);
  return nodes;
}

std::vector<NodePhase> phases_of(const Segment& segment, std::span<const FusedCall> calls,
                                 const CacheUseOf& cache_use) {
  const Graph& graph = *segment.graph;
  std::vector<NodePhase> phases(segment.nodes().size());
  std::set<ValueId> made;    // in the running phase
  std::set<int32_t> stored;  // layers whose cache it writes
  int32_t current = 0;
  for (const FusedCall& call : calls) {
    const std::vector<int32_t> nodes = computed_nodes(call);
    std::set<ValueId> own;
    std::set<int32_t> own_stored;
    bool waits = false;
    for (const int32_t n : nodes) {
      for (const ValueId id : graph.nodes()[static_cast<size_t>(n)].outputs) own.insert(id);
    }
    for (const int32_t n : nodes) {
      const Node& node = graph.nodes()[static_cast<size_t>(n)];
      for (const ValueId id : node.inputs) {
        if (id == kNoValue || own.contains(graph.storage(id))) continue;
        waits = waits || made.contains(graph.storage(id));
      }
      const int32_t layer = cache_layer(node);
      if (layer < 0) continue;
      waits = waits || stored.contains(layer) || stored.contains(pooled_layer(node));
      if (cache_use(node) == CacheUse::writes) own_stored.insert(layer);
    }
    if (waits) {
      ++current;
      made.clear();
      stored.clear();
    }
    made.merge(own);
    stored.merge(own_stored);
    for (int32_t n = call.begin(); n < call.end(); ++n) {
      phases[static_cast<size_t>(n - segment.begin)] = {current, call.stores(n)};
    }
  }
  return phases;
}

Access access_of(const Graph& graph, const FusedCall& call, const AccessQueries& ask,
                 uint64_t scratch) {
  // Keys and values of a layer are one range that no memory has: nodes meet in it, whatever pages
  // they touch.
  const auto cache_of = [](int32_t layer) {
    const uint64_t at = (uint64_t{1} << 63) + static_cast<uint64_t>(layer);
    return Range{at, at + 1};
  };
  Access access;
  const auto add = [&](ValueId id, std::vector<Range>& to) {
    if (id == kNoValue || graph.value(graph.storage(id)).kind != Value::Kind::result) return;
    const Operand x = ask.operand(id);
    if (x.address == 0) return;
    to.push_back({x.address, x.address + static_cast<uint64_t>(x.value->desc.extent_bytes())});
  };
  for (const int32_t n : computed_nodes(call)) {
    const Node& node = graph.nodes()[static_cast<size_t>(n)];
    for (const ValueId id : node.inputs) add(id, access.reads);
    if (call.stores(n)) {
      for (const ValueId id : node.outputs) add(id, access.writes);
    }
    if (ask.uses_scratch(node)) access.writes.push_back({scratch, scratch + 1});
    switch (ask.cache_use(node)) {
      case CacheUse::none: break;
      case CacheUse::reads:
        access.reads.push_back(cache_of(cache_layer(node)));
        if (pooled_layer(node) >= 0) access.reads.push_back(cache_of(pooled_layer(node)));
        break;
      case CacheUse::writes: access.writes.push_back(cache_of(cache_layer(node))); break;
    }
  }
  return access;
}

}  // namespace infer::gpu
