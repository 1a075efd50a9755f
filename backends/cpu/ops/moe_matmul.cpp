// Products with a matrix per expert: the rows of each used expert are gathered, so that its weights
// are read once for the whole batch.
#include <algorithm>

#include "backends/cpu/parallel.h"
#include "backends/cpu/product.h"

namespace infer::cpu {
namespace {

/// In scratch: [activations][first: experts + 1][pairs: rows·used][each thread's part].
struct Layout {
  int64_t first;
  int64_t pairs;
  int64_t threads;

  Layout(const Product& product, int64_t x_rows, int64_t experts, int64_t pair_count) {
    first = product.activation_bytes() * x_rows;
    pairs = round_up<int64_t>(first + (experts + 1) * 4, 64);
    threads = round_up<int64_t>(pairs + pair_count * 4, 64);
  }
};

int64_t scratch(const NodeView& node, const CpuContext& context) {
  const TensorDesc& w = node.input(1)->desc;
  const Product product = Product::choose(context, w);
  const int64_t rows = node.graph.max_rows();
  const Layout layout(product, node.input(0)->desc.shape[1] * rows, w.shape[2],
                      node.input(2)->desc.shape[0] * rows);
  return layout.threads + product.thread_scratch() * context.threads();
}

/// Sorts the (row, place) pairs by expert, keeping their order: a counting sort.
void sort_by_expert(const TensorRef& ids, int64_t experts, int32_t* first, int32_t* pairs) {
  const int64_t used = ids.desc.shape[0];
  const int64_t rows = ids.desc.shape[2];
  std::fill_n(first, experts + 1, 0);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t e = 0; e < used; ++e) ++first[ids.row<int32_t>(0, r)[e] + 1];
  }
  for (int64_t e = 0; e < experts; ++e) first[e + 1] += first[e];
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t e = 0; e < used; ++e) {
      pairs[first[ids.row<int32_t>(0, r)[e]]++] = static_cast<int32_t>(r * used + e);
    }
  }
  for (int64_t e = experts; e > 0; --e) first[e] = first[e - 1];
  first[0] = 0;
}

void run(const CpuCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& w = call.inputs[1];
  const TensorRef& ids = call.inputs[2];
  const TensorRef& out = call.outputs[0];
  const int64_t used = ids.desc.shape[0];
  const int64_t experts = w.desc.shape[2];
  const Product product = Product::choose(call.context, w.desc);
  const Layout layout(product, x.desc.shape[1] * x.desc.shape[2], experts, used * x.desc.shape[2]);
  auto* first = reinterpret_cast<int32_t*>(call.scratch + layout.first);
  auto* pairs = reinterpret_cast<int32_t*>(call.scratch + layout.pairs);
  if (call.thread == 0) sort_by_expert(ids, experts, first, pairs);
  if (product.quantised_activations()) {
    quantise_rows(call, x, call.scratch, product.activation_bytes());
  }
  call.context.pool->barrier();

  std::byte* own_scratch = call.scratch + layout.threads + call.thread * product.thread_scratch();
  const Range range = split_range(w.desc.shape[1], call.thread, call.threads(), 16);
  const int64_t n = range.end - range.begin;
  if (n == 0) return;
  for (int64_t e = 0; e < experts; ++e) {
    for (int64_t c = first[e]; c < first[e + 1]; c += kPanel) {
      const int64_t count = std::min<int64_t>(kPanel, first[e + 1] - c);
      const std::byte* xs[kPanel];
      float* ys[kPanel];
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = pairs[c + i] / used;
        const int64_t place = pairs[c + i] % used;
        const int64_t h = x.desc.shape[1] == 1 ? 0 : place;
        xs[i] = product.quantised_activations()
                    ? call.scratch + (row * x.desc.shape[1] + h) * product.activation_bytes()
                    : x.row<std::byte>(h, row);
        ys[i] = out.row<float>(place, row) + range.begin;
      }
      product.run(call, w.row<std::byte>(range.begin, e), w.desc.stride[1], n, xs, ys, count,
                  own_scratch);
      finish_rows(call.vec(), ys, count, range, call.inputs[3], call.inputs[4], e);
    }
  }
}

}  // namespace

const CpuOp& moe_matmul_cpu() {
  static const CpuOp op{OpId::MoeMatmul, always_supported, scratch, run};
  return op;
}

}  // namespace infer::cpu
