// Products with a matrix per head: the groups of rows of all heads' matrices are shared among the
// threads.
#include <algorithm>

#include "backends/cpu/parallel.h"
#include "backends/cpu/product.h"

namespace infer::cpu {
namespace {

/// In scratch: [each head's panels][each thread's part].
int64_t head_bytes(const Product& product, int64_t rows) {
  return product.quantised() ? round_up<int64_t>(PanelSet::bytes(product.k(), rows), 64) : 0;
}

int64_t scratch(const NodeView& node, const CpuContext& context) {
  const TensorDesc& w = node.input(1)->desc;
  const Product product = Product::choose(context, w);
  return head_bytes(product, node.graph.max_rows()) * w.shape[2] +
         product.thread_scratch() * context.threads();
}

void run(const CpuCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& w = call.inputs[1];
  const TensorRef& out = call.outputs[0];
  const int64_t heads = w.desc.shape[2];
  const int64_t rows = x.desc.shape[2];
  const Matrix matrix{Product::choose(call.context, w.desc), w, {}, {}};
  const Product& product = matrix.product;
  const int64_t bytes = head_bytes(product, rows);
  const auto panels_of = [&](int64_t h) {
    return PanelSet{call.scratch + h * bytes, product.k(), rows};
  };
  const int64_t width = product.columns(rows);
  if (product.quantised()) {
    for_each_row(call, x.desc, [&](int64_t h, int64_t r) {
      call.vec().quantise(x.row<float>(h, r), product.k(), panels_of(h).panel(r / width),
                          r % width);
    });
    call.context.pool->barrier();
  }
  std::byte* own_scratch = call.scratch + bytes * heads + call.thread * product.thread_scratch();
  const int64_t groups = product.layout.groups();
  const auto multiply_head = [&](int64_t h, Range range) {
    for (int64_t first = 0; first < rows; first += width) {
      const float* in[kMaxColumns];
      Target targets[kMaxColumns];
      Columns columns;
      columns.count = std::min(width, rows - first);
      columns.rows = in;
      if (product.quantised()) columns.panel = panels_of(h).panel(first / width);
      for (int64_t c = 0; c < columns.count; ++c) {
        in[c] = x.row<float>(h, first + c);
        targets[c] = {out.row<float>(h, first + c), nullptr};
      }
      multiply(call, std::span(&matrix, 1), h, range, columns, targets, own_scratch);
    }
  };
  const bool small = groups * heads * product.layout.group_bytes() * rows < kSharedBytes;
  call.context.pool->work().share(call.thread, groups * heads, small,
                                  [&](int64_t begin, int64_t end) {
                                    for (int64_t at = begin; at < end;) {
                                      const int64_t h = at / groups;
                                      const int64_t last = std::min(end, (h + 1) * groups);
                                      multiply_head(h, {at - h * groups, last - h * groups});
                                      at = last;
                                    }
                                  });
}

}  // namespace

const CpuOp& head_matmul_cpu() {
  static const CpuOp op{OpId::HeadMatmul, Sharing::whole, always_supported, scratch, run};
  return op;
}

}  // namespace infer::cpu
