// Matrix products. One call may hold several matrices that meet the same activations, with what is
// fused to them (fusion.h): inputs x, then (W, bias, scale) for each matrix; outputs in the same
// order, or the one result of an activation or a sum.
#include <algorithm>
#include <cmath>

#include "backends/cpu/parallel.h"
#include "backends/cpu/product.h"

namespace infer::cpu {
namespace {

/// In scratch: [panels, of all threads or of each][each thread's part].
int64_t panel_bytes(const Product& product, int64_t rows) {
  return product.quantised() ? round_up<int64_t>(PanelSet::bytes(product.k(), rows), 64) : 0;
}
int64_t own_bytes(const Product& product) {
  // A normalised row lies there before the weights' part is used.
  return std::max(product.thread_scratch(), round_up<int64_t>(product.k() * 4, 64));
}

int64_t scratch(const NodeView& node, const CpuContext& context) {
  const Product product = Product::choose(context, node.input(1)->desc);
  const int64_t rows = node.graph.max_rows();
  const int64_t panels =
      std::max(panel_bytes(product, rows),
               panel_bytes(product, std::min(rows, kOwnRows)) * context.threads());
  return panels + own_bytes(product) * context.threads();
}

/// Rounds rows [begin, end) of x into the panels, normalised before where that is fused.
void fill_panels(const CpuCall& call, const TensorRef& x, Range rows, const PanelSet& panels,
                 float* normalised) {
  const VecOps& vec = call.vec();
  const Fused& fused = call.fused;
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* row = x.row<float>(0, r);
    if (fused.norm != nullptr) {
      const TensorRef& weight = fused.norm_weight;
      const float mean = vec.sum_squares(row, panels.k) / static_cast<float>(panels.k);
      vec.scale_mul(normalised, row, weight.data == nullptr ? nullptr : weight.row<float>(0, 0),
                    1.0f / std::sqrt(mean + fused.norm->eps), panels.k);
      row = normalised;
    }
    const int64_t width = PanelSet::width(panels.k, panels.rows);
    vec.quantise(row, panels.k, panels.panel(r / width), r % width);
  }
}

/// The groups of all matrices, shared among the threads: calls fn(matrix, its range).
template <typename Fn>
void for_my_groups(const CpuCall& call, std::span<const Matrix> matrices, int64_t columns, Fn fn) {
  if (call.fused.glu != nullptr) matrices = matrices.first(1);
  int64_t total = 0;
  for (const Matrix& m : matrices) total += m.product.layout.groups();
  const bool small = total * matrices[0].product.layout.group_bytes() * columns < kSharedBytes;
  call.context.pool->work().share(call.thread, total, small, [&](int64_t begin, int64_t end) {
    int64_t start = 0;
    for (size_t m = 0; m < matrices.size(); ++m) {
      const int64_t groups = matrices[m].product.layout.groups();
      const Range range{std::clamp<int64_t>(begin - start, 0, groups),
                        std::clamp<int64_t>(end - start, 0, groups)};
      start += groups;
      if (range.begin < range.end) fn(m, range);
    }
  });
}

void run(const CpuCall& call) {
  const TensorRef& x = call.inputs[0];
  const int64_t rows = x.desc.shape[2];
  const std::vector<Matrix> matrices = matrices_of(call, 1);
  const Product& product = matrices[0].product;
  int64_t own = 0;
  for (const Matrix& m : matrices) own = std::max(own, own_bytes(m.product));

  PanelSet panels{call.scratch, product.k(), rows};
  std::byte* own_scratch = call.scratch;
  if (product.quantised()) {
    const int64_t bytes = panel_bytes(product, rows);
    const bool alone = rows <= kOwnRows;
    own_scratch += alone ? bytes * call.threads() : bytes;
    own_scratch += own * call.thread;
    if (alone) panels.data += bytes * call.thread;
    fill_panels(call, x, alone ? Range{0, rows} : split_range(rows, call.thread, call.threads()),
                panels, reinterpret_cast<float*>(own_scratch));
    if (!alone) call.context.pool->barrier();
  } else {
    own_scratch += own * call.thread;
  }

  const int64_t width = product.columns(rows);
  for (int64_t first = 0; first < rows; first += width) {
    const float* in[kMaxColumns];
    Columns columns;
    columns.count = std::min(width, rows - first);
    if (product.quantised()) {
      columns.panel = panels.panel(first / width);
    } else {
      for (int64_t c = 0; c < columns.count; ++c) in[c] = x.row<float>(0, first + c);
      columns.rows = in;
    }
    for_my_groups(call, matrices, columns.count, [&](size_t m, Range groups) {
      Target targets[kMaxColumns];
      for (int64_t c = 0; c < columns.count; ++c) {
        const TensorRef& residual = call.fused.residual;
        targets[c] = {call.outputs[m].row<float>(0, first + c),
                      residual.data == nullptr ? nullptr : residual.row<float>(0, first + c)};
      }
      multiply(call, std::span(matrices).subspan(m), 0, groups, columns, targets, own_scratch);
    });
  }
}

}  // namespace

const CpuOp& matmul_cpu() {
  static const CpuOp op{OpId::Matmul, Sharing::whole, always_supported, scratch, run};
  return op;
}

}  // namespace infer::cpu
