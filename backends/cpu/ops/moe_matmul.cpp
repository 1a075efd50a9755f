// Products with a matrix per expert: the rows of each used expert are gathered, so that its weights
// are read once for the whole batch.
#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/cpu/parallel.h"
#include "backends/cpu/product.h"

namespace infer::cpu {
namespace {

/// In scratch: [a panel for each row of activations][first: experts + 1][pairs: rows·used]
/// [each thread's part: the product's, then a panel of gathered columns].
struct Layout {
  int64_t row;  ///< bytes of a panel of one column
  int64_t first, pairs, threads, gathered, own;

  /// `part`: the largest thread_scratch() of the products of a call.
  Layout(const Product& product, int64_t part, int64_t x_rows, int64_t experts,
         int64_t pair_count) {
    const int64_t k = product.k();
    row = product.quantised() ? Panel::bytes(1, k) : 0;
    first = row * x_rows;
    pairs = round_up<int64_t>(first + (experts + 1) * 4, 64);
    threads = round_up<int64_t>(pairs + pair_count * 4, 64);
    gathered = part;
    const int64_t width = std::min(PanelSet::widest(k), pair_count);
    own = gathered + (product.quantised() ? Panel::bytes(width, k) : 0);
  }
};

int64_t scratch(const NodeView& node, const CpuContext& context) {
  const TensorDesc& w = node.input(1)->desc;
  const Product product = Product::choose(context, w);
  const int64_t rows = node.graph.max_rows();
  const Layout layout(product, product.thread_scratch(), node.input(0)->desc.shape[1] * rows,
                      w.shape[2], node.input(2)->desc.shape[0] * rows);
  return layout.threads + layout.own * context.threads();
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

/// Pairs [begin, begin + count) of an expert, which are multiplied together.
struct Stretch {
  int64_t expert, begin, count;
};

/// Puts panels of one column side by side.
void gather(std::span<const std::byte* const> columns, int64_t k, const Panel& panel) {
  for (int64_t c = 0; c < panel.columns; ++c) {
    const Panel from{const_cast<std::byte*>(columns[static_cast<size_t>(c)]), 1};
    for (int64_t i = 0; i < k / 32; ++i) {
      PanelChunk(panel, i).take(c, PanelChunk(from, i), 0);
    }
  }
}

void run(const CpuCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& ids = call.inputs[1];
  const TensorRef& out = call.outputs[0];
  const std::vector<Matrix> matrices = matrices_of(call, 2);
  const Product& product = matrices[0].product;
  const int64_t used = ids.desc.shape[0];
  const int64_t x_heads = x.desc.shape[1];
  const int64_t x_rows = x_heads * x.desc.shape[2];
  const int64_t experts = matrices[0].w.desc.shape[2];
  int64_t part = 0;
  for (const Matrix& m : matrices) part = std::max(part, m.product.thread_scratch());
  const Layout layout(product, part, x_rows, experts, used * x.desc.shape[2]);
  auto* first = reinterpret_cast<int32_t*>(call.scratch + layout.first);
  auto* pairs = reinterpret_cast<int32_t*>(call.scratch + layout.pairs);
  if (call.thread == 0) sort_by_expert(ids, experts, first, pairs);
  if (product.quantised()) {
    const Range mine = split_range(x_rows, call.thread, call.threads());
    for (int64_t r = mine.begin; r < mine.end; ++r) {
      call.vec().quantise(x.row<float>(r % x_heads, r / x_heads), product.k(),
                          {call.scratch + r * layout.row, 1}, 0);
    }
  }
  call.context.pool->barrier();

  std::byte* own_scratch = call.scratch + layout.threads + call.thread * layout.own;
  const int64_t width =
      product.quantised() ? PanelSet::widest(product.k()) : product.columns(x_rows);
  std::vector<Stretch> stretches;
  for (int64_t e = 0; e < experts; ++e) {
    for (int64_t c = first[e]; c < first[e + 1]; c += width) {
      stretches.push_back({e, c, std::min<int64_t>(width, first[e + 1] - c)});
    }
  }
  const Stretch* gathered = nullptr;  // what lies in the thread's panel
  const auto multiply_stretch = [&](const Stretch& s, Range groups) {
    const std::byte* panels[kMaxColumns];
    const float* rows[kMaxColumns];
    Target targets[kMaxColumns];
    for (int64_t i = 0; i < s.count; ++i) {
      const int64_t row = pairs[s.begin + i] / used;
      const int64_t place = pairs[s.begin + i] % used;
      const int64_t h = x_heads == 1 ? 0 : place;
      panels[i] = call.scratch + (row * x_heads + h) * layout.row;
      rows[i] = x.row<float>(h, row);
      targets[i] = {out.row<float>(place, row), nullptr};
    }
    Columns columns;
    columns.count = s.count;
    if (!product.quantised()) {
      columns.rows = rows;
    } else if (s.count == 1) {
      columns.panel = {const_cast<std::byte*>(panels[0]), 1};
    } else {
      columns.panel = {own_scratch + layout.gathered, s.count};
      if (gathered != &s) {
        gather(std::span(panels, static_cast<size_t>(s.count)), product.k(), columns.panel);
        gathered = &s;
      }
    }
    multiply(call, matrices, s.expert, groups, columns, targets, own_scratch);
  };
  const int64_t groups = product.layout.groups();
  const auto count = static_cast<int64_t>(stretches.size());
  const bool small = count * groups * product.layout.group_bytes() < kSharedBytes;
  const auto multiply_groups = [&](int64_t s, int64_t begin, int64_t end) {
    multiply_stretch(stretches[static_cast<size_t>(s)], {begin, end});
  };
  WorkShare& work = call.context.pool->work();
  if (x.desc.shape[2] <= kOwnRows) {
    // As they were loaded: the weights of a thread lie at its memory node.
    work.share_runs(call.thread, count, groups, small, multiply_groups);
    return;
  }
  // Each thread gathers the columns of few experts.
  work.share(call.thread, count * groups, small, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end;) {
      const int64_t s = at / groups;
      const int64_t last = std::min(end, (s + 1) * groups);
      multiply_groups(s, at - s * groups, last - s * groups);
      at = last;
    }
  });
}

}  // namespace

const CpuOp& moe_matmul_cpu() {
  static const CpuOp op{OpId::MoeMatmul, Sharing::whole, always_supported, scratch, run};
  return op;
}

}  // namespace infer::cpu
