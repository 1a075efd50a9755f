// Matrix products. One call may hold several matrices that meet the same activations (the device
// joins them): inputs x, then (W, bias, scale) for each; outputs in the same order.
#include <algorithm>

#include "backends/cpu/parallel.h"
#include "backends/cpu/product.h"

namespace infer::cpu {
namespace {

int64_t scratch(const NodeView& node, const CpuContext& context) {
  const Product product = Product::choose(context, node.input(1)->desc);
  return product.activation_bytes() * node.graph.max_rows() +
         product.thread_scratch() * context.threads();
}

/// The rows [begin, end) of one matrix with every column.
void multiply(const CpuCall& call, const Product& product, std::span<const TensorRef> matrix,
              const TensorRef& out, Range range, const std::byte* x, int64_t x_stride,
              std::byte* own_scratch) {
  const TensorRef& w = matrix[0];
  const int64_t columns = out.desc.shape[2];
  for (int64_t c = 0; c < columns; c += kPanel) {
    const int64_t count = std::min(kPanel, columns - c);
    const std::byte* xs[kPanel];
    float* ys[kPanel];
    for (int64_t i = 0; i < count; ++i) {
      xs[i] = x + (c + i) * x_stride;
      ys[i] = out.row<float>(0, c + i) + range.begin;
    }
    product.run(call, w.row<std::byte>(range.begin, 0), w.desc.stride[1], range.end - range.begin,
                xs, ys, count, own_scratch);
    finish_rows(call.vec(), ys, count, range, matrix[1], matrix[2], 0);
  }
}

void run(const CpuCall& call) {
  const TensorRef& x = call.inputs[0];
  const Product product = Product::choose(call.context, call.inputs[1].desc);
  const std::byte* rows = x.data;
  int64_t row_stride = x.desc.stride[2];
  std::byte* own_scratch = call.scratch + call.thread * product.thread_scratch();
  if (product.quantised_activations()) {
    row_stride = product.activation_bytes();
    quantise_rows(call, x, call.scratch, row_stride);
    rows = call.scratch;
    call.context.pool->barrier();
  }
  int64_t total = 0;
  for (const TensorRef& out : call.outputs) total += round_up<int64_t>(out.desc.shape[0], 16);
  const Range mine = split_range(total, call.thread, call.threads(), 16);
  int64_t start = 0;
  for (size_t m = 0; m < call.outputs.size(); ++m) {
    const TensorRef& out = call.outputs[m];
    const std::span<const TensorRef> matrix = call.inputs.subspan(1 + 3 * m, 3);
    const Range range{std::clamp<int64_t>(mine.begin - start, 0, out.desc.shape[0]),
                      std::clamp<int64_t>(mine.end - start, 0, out.desc.shape[0])};
    start += round_up<int64_t>(out.desc.shape[0], 16);
    if (range.begin < range.end) {
      // Joined matrices share a way of meeting the activations, not necessarily a type.
      multiply(call, Product::choose(call.context, matrix[0].desc), matrix, out, range, rows,
               row_stride, own_scratch);
    }
  }
}

}  // namespace

const CpuOp& matmul_cpu() {
  static const CpuOp op{OpId::Matmul, always_supported, scratch, run};
  return op;
}

}  // namespace infer::cpu
