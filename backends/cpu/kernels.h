// The CPU back end's tables: kernels by instruction set and operations. The lists themselves are
// generated from file names (backend.cmake).
//
// A kernel computes each column from that column alone, and sums in one fixed order. So batch size,
// chunking and thread count change no bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/recurrent_kernels.h"
#include "backends/cpu/row_kernel.h"
#include "engine/backend/op_table.h"
#include "engine/core/dtype.h"
#include "engine/core/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/tensor_ref.h"

namespace infer {
class ThreadPool;
}

namespace infer::cpu {

/// Rows of up to so many floats are multiplied sixteen at a time, if there are as many.
inline constexpr int64_t kShortRow = 64;

/// Float32 vector functions of one instruction set. Their arguments need no alignment.
struct VecOps {
  /// y[c·pitch + r] = Σ w[r·stride + i]·x[c][i] over 0 ≤ i < n for 0 ≤ r < rows, 0 ≤ c < columns.
  /// `type` of the weights: F32, F16 or BF16. Sums are float32.
  void (*dot_rows)(DType type, const void* w, int64_t stride, int64_t rows, int64_t n,
                   const float* const* x, int64_t columns, float* y, int64_t pitch);
  /// Up to so many columns dot_rows is faster with F16 and BF16 weights as they are; for more, with
  /// weights that were decoded to F32.
  int64_t most_converted_columns;
  float (*sum_squares)(const float* x, int64_t n);
  /// y = (x·scale)·w; w may be null.
  void (*scale_mul)(float* y, const float* x, const float* w, float scale, int64_t n);
  /// y = a + scale·b.
  void (*add_scaled)(float* y, const float* a, const float* b, float scale, int64_t n);
  /// y += a·x.
  void (*axpy)(float* y, float a, const float* x, int64_t n);
  float (*max)(const float* x, int64_t n);
  /// x = exp(x − shift); returns the sum.
  float (*exp_sum)(float* x, float shift, int64_t n);
  /// y = cap·tanh(x / cap).
  void (*softcap)(float* y, const float* x, float cap, int64_t n);
  void (*glu)(float* y, const float* gate, const float* up, const op::Glu& params, int64_t n);
  /// y = x·Φ(x): op::Gelu.
  void (*gelu)(float* y, const float* x, op::Gelu::Kind kind, int64_t n);
  void (*f16_to_f32)(float* y, const uint16_t* x, int64_t n);
  void (*f32_to_f16)(uint16_t* y, const float* x, int64_t n);
  void (*bf16_to_f32)(float* y, const uint16_t* x, int64_t n);
  /// Rounds k activations to 8 bits and writes them into a column of a panel.
  void (*quantise)(const float* x, int64_t k, const Panel& panel, int64_t column);
  /// Reads `bytes` bytes (a multiple of 256) with the widest loads. Measures bandwidth.
  uint64_t (*read_all)(const std::byte* data, int64_t bytes);
  /// Computes `rounds` products of unsigned × signed bytes in registers. Returns the number of
  /// multiply-accumulates. Measures their rate; null if the set has no such instruction.
  int64_t (*int8_products)(int64_t rounds);
  const AttentionOps* attention;
  const RecurrentOps* recurrent;
};

/// The kernels of one instruction set.
struct IsaKernels {
  const char* name;
  const VecOps* vec;
  std::vector<const RowKernel*> rows;
};

/// All sets that are built in, from the baseline to the widest.
std::span<const IsaKernels> all_isas();
bool isa_runs_here(std::string_view name);

/// A node as an operation's checks see it.
struct NodeView {
  const Graph& graph;
  const Node& node;

  const Value* input(size_t i) const {
    return node.inputs[i] == kNoValue ? nullptr : &graph.value(node.inputs[i]);
  }
};

struct CpuOp;
struct LoneThread;

/// Settings and tables of a device.
struct CpuContext {
  const IsaKernels* isa;
  ThreadPool* pool;
  bool exact;   ///< activations stay float32
  bool repack;  ///< weights may be packed
  const OpTable<CpuOp>* ops;
  /// Null: all threads compute every step.
  LoneThread* lone = nullptr;
  int streams = 1;  ///< of RowKernel::run

  const RowKernel* row_kernel(DType weights) const;
  int threads() const;
};

/// What is computed together with a product (fusion.h). Null: nothing.
struct Fused {
  const op::RmsNorm* norm = nullptr;  ///< of the activations
  const op::Glu* glu = nullptr;       ///< of the results of two matrices
  const op::Add* add = nullptr;       ///< of the result to a residual
  TensorRef norm_weight;              ///< has no data if there is none
  TensorRef residual;
};

/// One call of an operation. run() is called by every thread of the pool at once.
struct CpuCall {
  const CpuContext& context;
  const OpParams& params;
  const Fused& fused;
  std::span<const TensorRef> inputs;
  std::span<const TensorRef> outputs;
  std::byte* scratch;
  const KvGeometry& kv;
  const KvLayout& kv_layout;
  std::span<const KvPages> pages;  ///< by kind
  int thread;

  const VecOps& vec() const { return *context.isa->vec; }
  int threads() const { return context.threads(); }
};

/// How threads share an operation. It decides where a barrier is needed between two operations.
enum class Sharing : uint8_t {
  whole,      ///< a thread may read what any other thread made
  rows,       ///< by rows (d1, rows) of its result: for_each_row
  stretches,  ///< by stretches of its result: for_each_stretch
};

struct CpuOp {
  OpId id;
  Sharing sharing;
  /// Ok, or unsupported with the reason.
  Status (*supports)(const NodeView& node);
  /// Bytes of scratch, a multiple of 64.
  int64_t (*scratch)(const NodeView& node, const CpuContext& context);
  void (*run)(const CpuCall& call);
};

std::span<const CpuOp* const> all_cpu_ops();
const OpTable<CpuOp>& cpu_ops();

/// For operations that are always supported, or need no scratch.
inline Status always_supported(const NodeView&) { return {}; }
inline int64_t no_scratch(const NodeView&, const CpuContext&) { return 0; }

}  // namespace infer::cpu
