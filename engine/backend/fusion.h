// Finds the nodes of a graph that one call of a kernel can compute together. The graph says which
// nodes fit together: by their order, shapes and uses. The back end says which of them its kernels
// take (FusionRules). Barriers and hazards between calls are the back end's own.
//
//   [norm →] products with the same activations [→ activation of two | → sum with a residual]
//   rope of queries, rope of keys → store of the keys and values [→ attention of the queries]
//
// Values between the nodes of a call are used by nothing else and never stored.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"

namespace infer {

/// What a back end's kernels take. Each question is asked of nodes that fit together in the graph.
/// The defaults fuse nothing: a back end overrides a function once it has the kernel.
class FusionRules {
 public:
  virtual ~FusionRules() = default;

  /// Whether a node and the one right after it may be part of one call at all.
  virtual bool may_meet(const Node& node, const Node& next) const;
  /// Whether a call of the product normalises its activations itself. If one of the norm's products
  /// cannot, the norm is a call of its own.
  virtual bool takes_norm(const Node& norm, const Node& product) const;
  /// Whether one call computes both products, which have the same activations and, if they have
  /// experts, the same experts.
  virtual bool joins(const Node& product, const Node& next) const;
  /// Whether joining this product with others is worth it if no activation follows them.
  virtual bool joins_alone(const Node& product) const;
  /// Whether a call of the two products, which are joined, computes the activation.
  virtual bool takes_activation(const Node& gate, const Node& up, const Node& glu) const;
  /// Whether a call of the product adds its result to the residual.
  virtual bool takes_sum(const Node& product) const;
  /// Whether one call turns queries and keys and stores the keys and values.
  virtual bool joins_rope_and_store(const Node& queries, const Node& keys, const Node& store) const;
  /// Whether such a call also computes the attention.
  virtual bool takes_attention(const Node& store, const Node& attention) const;
};

/// Nodes computed by one call, by index.
struct FusedCall {
  enum class Kind : uint8_t { single, products, rope_and_store };

  Kind kind = Kind::single;
  /// The node of a single call; the products; the rope of queries, the rope of keys and the store.
  /// They lie one after another.
  std::vector<int32_t> nodes;
  int32_t norm = -1;        ///< of the products' activations, computed by every call of them
  bool makes_norm = false;  ///< the first call of the norm: the node counts as its own
  int32_t glu = -1;
  int32_t add = -1;
  int32_t attention = -1;  ///< of the queries that the call turns

  /// The nodes [begin, end) are computed by this call alone. A norm that an earlier call made is
  /// not among them.
  int32_t begin() const { return makes_norm ? norm : nodes.front(); }
  int32_t end() const { return last() + 1; }
  /// Whether several nodes are computed.
  bool fused() const { return norm >= 0 || end() - begin() > 1; }
  /// Whether the results of one of the call's nodes are put into memory.
  bool stores(int32_t node) const;

 private:
  int32_t last() const {
    if (add >= 0) return add;
    if (glu >= 0) return glu;
    return attention >= 0 ? attention : nodes.back();
  }
};

/// The calls of a segment's nodes in their order. Each node is covered once.
std::vector<FusedCall> fused_calls(const Segment& segment, const FusionRules& rules);

}  // namespace infer
