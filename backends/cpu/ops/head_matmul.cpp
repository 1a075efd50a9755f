// Products with a matrix per head: the rows of all heads' matrices are shared among the threads.
#include <algorithm>

#include "backends/cpu/parallel.h"
#include "backends/cpu/product.h"

namespace infer::cpu {
namespace {

int64_t scratch(const NodeView& node, const CpuContext& context) {
  const TensorDesc& w = node.input(1)->desc;
  const Product product = Product::choose(context, w);
  return product.activation_bytes() * w.shape[2] * node.graph.max_rows() +
         product.thread_scratch() * context.threads();
}

void run(const CpuCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& w = call.inputs[1];
  const TensorRef& out = call.outputs[0];
  const int64_t heads = w.desc.shape[2];
  const int64_t n = w.desc.shape[1];
  const int64_t rows = x.desc.shape[2];
  const Product product = Product::choose(call.context, w.desc);
  std::byte* own_scratch = call.scratch + call.thread * product.thread_scratch();
  if (product.quantised_activations()) {
    quantise_rows(call, x, call.scratch, product.activation_bytes());
    call.context.pool->barrier();
  }
  const int64_t padded = round_up<int64_t>(n, 16);
  const Range mine = split_range(padded * heads, call.thread, call.threads(), 16);
  for (int64_t h = mine.begin / padded; h < heads && h * padded < mine.end; ++h) {
    const int64_t begin = std::clamp<int64_t>(mine.begin - h * padded, 0, n);
    const int64_t end = std::clamp<int64_t>(mine.end - h * padded, 0, n);
    if (begin >= end) continue;
    for (int64_t c = 0; c < rows; c += kPanel) {
      const int64_t count = std::min(kPanel, rows - c);
      const std::byte* xs[kPanel];
      float* ys[kPanel];
      for (int64_t i = 0; i < count; ++i) {
        xs[i] = product.quantised_activations()
                    ? call.scratch + ((c + i) * heads + h) * product.activation_bytes()
                    : x.row<std::byte>(h, c + i);
        ys[i] = out.row<float>(h, c + i) + begin;
      }
      product.run(call, w.row<std::byte>(begin, h), w.desc.stride[1], end - begin, xs, ys, count,
                  own_scratch);
    }
  }
}

}  // namespace

const CpuOp& head_matmul_cpu() {
  static const CpuOp op{OpId::HeadMatmul, always_supported, scratch, run};
  return op;
}

}  // namespace infer::cpu
