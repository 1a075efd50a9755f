// An operation of this back end: whether it is supported, and its launches of kernels.
// Each backends/cuda/ops/<op>.cpp of an operation of engine/graph/ops.def defines
// const CudaOp& <op>_cuda(); its kernels are in <op>.cu, their parameters in <op>.h.
//
// Each row is summed in an order that depends on that row alone. So batch size and chunking change
// no bit.
#pragma once

#include <span>
#include <string>
#include <type_traits>

#include "backends/cuda/gpu.h"
#include "backends/cuda/tuning.h"
#include "backends/gpu/calls.h"
#include "backends/gpu/operand.h"
#include "engine/backend/op_table.h"
#include "engine/graph/graph.h"

namespace infer::cuda {

using gpu::CacheUse;
using gpu::elements_of;
using gpu::Operand;
using gpu::ProductCall;
using gpu::RopeStoreCall;
using gpu::shape_of;
using gpu::ShapePush;
using gpu::StridePush;
using gpu::strides_of;
using gpu::whole_rows;
/// Blocks of a launch: x up to 2³¹ − 1, y and z up to 65535.
using Grid = gpu::Groups;

/// A node as an operation's checks see it.
struct NodeView {
  const Graph& graph;
  const Node& node;
  const Gpu& gpu;

  const Value* input(size_t i) const {
    return node.inputs[i] == kNoValue ? nullptr : &graph.value(node.inputs[i]);
  }
};

/// Bytes of a kernel's parameters, at most.
inline constexpr size_t kParamBytes = 4096;

/// Receives the launches of a program in their order.
class Recorder {
 public:
  virtual ~Recorder() = default;

  /// `kernel`: its name in the .cu file. `params`: its only parameter, by value. `threads`: of a
  /// block. `shared_bytes`: of dynamic shared memory. Launches of one call may run at once unless
  /// barrier() is between them.
  template <typename Params>
  void launch(const std::string& kernel, const Params& params, const Grid& grid, int threads,
              int64_t shared_bytes = 0) {
    static_assert(std::is_trivially_copyable_v<Params> && sizeof(Params) <= kParamBytes);
    add(kernel, {reinterpret_cast<const std::byte*>(&params), sizeof(Params)}, grid, threads,
        shared_bytes);
  }
  /// The launches of this call that follow see what those before wrote.
  virtual void barrier() = 0;
  /// Keeps data as long as the program lives. Kernels read it at the returned address, which is a
  /// multiple of 16.
  virtual uint64_t keep(std::span<const std::byte> data) = 0;

 private:
  virtual void add(const std::string& kernel, std::span<const std::byte> params, const Grid& grid,
                   int threads, int64_t shared_bytes) = 0;
};

class RoundedValues;

/// A node to be recorded.
struct NodeCall {
  const Graph& graph;
  const Node& node;
  std::span<const Operand> inputs;
  std::span<const Operand> outputs;
  const KvLayout& kv_layout;
  const Gpu& gpu;
  const Tuning& tuning;
  uint64_t step;     ///< address of what the host writes before each step: backends/gpu/step.h
  uint64_t scratch;  ///< work space of the program; a multiple of 256
  /// Words that are 0 before each launch, and afterwards. Launches that use them also use scratch:
  /// so one at a time does.
  uint64_t counters;
  Roles roles;  ///< of the step's tokens
  const RoundedValues& rounded;
  Recorder& recorder;

  template <typename Params>
  const Params& params() const {
    return std::get<Params>(node.params);
  }
};

struct CudaOp {
  OpId id;
  /// Ok, or unsupported with the reason.
  Status (*supports)(const NodeView& node);
  void (*record)(const NodeCall& call);
  /// Bytes of work space. A node that needs none returns 0. Null: none of them needs any.
  int64_t (*scratch)(const NodeView& node, const Tuning& tuning, Roles roles) = nullptr;
  CacheUse cache = CacheUse::none;
  /// Words of NodeCall::counters. Null: none.
  int64_t (*counters)(const NodeView& node, const Tuning& tuning) = nullptr;

  // What products are fused with. Null: nothing. All nodes of a call fit together in the graph
  // (engine/backend/fusion.h).
  /// Whether a call of this product can also compute a node of kind `with`: the RmsNorm of its
  /// activations, further products of the product's own operation, type and activations, a Glu of
  /// the results of two, or an Add of its result to a residual. Of an attention: the KvStore before
  /// it with its ropes.
  bool (*takes)(const NodeView& product, OpId with, const Tuning& tuning, Roles roles) = nullptr;
  /// Records a call of products. `call.node` is the first of them.
  void (*record_products)(const NodeCall& call, const ProductCall& product) = nullptr;
  /// KvStore: records rope of queries and keys, and the store. `call.node` is the store. Null: they
  /// are calls of their own.
  void (*record_ropes)(const NodeCall& call, const RopeStoreCall& ropes) = nullptr;
  /// Attention: records these as well as itself.
  void (*record_attention)(const NodeCall& call, const RopeStoreCall& ropes) = nullptr;
};

/// Generated from the files in this folder.
std::span<const CudaOp* const> all_cuda_ops();
const OpTable<CudaOp>& cuda_ops();

/// What segments are compiled for.
struct Target {
  const Gpu& gpu;
  const Tuning& tuning;
  const OpTable<CudaOp>& ops;

  // Both return 0 or none if there is no operation for the node.
  /// Bytes of work space of one node.
  int64_t scratch_bytes(const Graph& graph, const Node& node, Roles roles) const;
  CacheUse cache_use(const Node& node) const;
  /// Words of NodeCall::counters for a segment.
  int64_t counters(const Segment& segment) const;
};

inline Status always_supported(const NodeView&) { return {}; }

}  // namespace infer::cuda
