#include "backends/cpu/streams.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <vector>

#include "backends/cpu/product.h"
#include "engine/core/checked.h"
#include "engine/core/log.h"

namespace infer::cpu {
namespace {

constexpr int kStreams[] = {1, 2, 4};
constexpr size_t kWays = std::size(kStreams);
constexpr int64_t kLeastBytes = int64_t{64} << 20;
/// What each thread reads for one measurement of one way: far more than beginning takes, far less
/// than a millisecond.
constexpr int64_t kPieceBytes = int64_t{3} << 19;
constexpr size_t kMostRounds = 48;
constexpr double kBetter = 0.975;

/// The packed matrix of a product.
struct Weights {
  Product product;
  const std::byte* data;
};

std::vector<Weights> weights_of(const CpuContext& context, const CompileSpec& spec) {
  std::vector<Weights> all;
  const Graph& graph = *spec.segment.graph;
  for (const Node& node : spec.segment.nodes()) {
    if (node.op() != OpId::Matmul) continue;
    const ValueId id = graph.storage(node.inputs[1]);
    const Value& value = graph.value(node.inputs[1]);
    const Product product = Product::choose(context, value.desc);
    if (!product.packed) continue;
    const MemoryRef& at = spec.memory[static_cast<size_t>(id)];
    all.push_back({product, at.buffer->address() + at.offset + value.offset});
  }
  // The largest first, which are timed the most exactly.
  std::ranges::stable_sort(all, std::greater(),
                           [](const Weights& w) { return w.product.layout.matrix_bytes(); });
  return all;
}

/// Multiplies groups with one column, and nothing else.
class Trial {
 public:
  Trial(ThreadPool& pool, int64_t widest_k, int64_t most_rows)
      : pool_(pool),
        panel_(static_cast<size_t>(Panel::bytes(1, widest_k))),
        sums_(static_cast<size_t>(most_rows)) {}

  /// Seconds that all threads together take for `groups` groups each, from the first-th on of those
  /// of `w` that are a thread's.
  double time(const Weights& w, int64_t first, int64_t groups, int streams) {
    const PackedLayout& layout = w.product.layout;
    const auto start = std::chrono::steady_clock::now();
    pool_.run([&](int thread) {
      const int64_t begin = split_range(layout.groups(), thread, pool_.size()).begin + first;
      w.product.kernel->run(w.data + begin * layout.group_bytes(), groups, w.product.k(),
                            {panel_.data(), 1}, streams, sums_.data() + begin * layout.rows);
    });
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  ThreadPool& pool_;
  std::vector<std::byte> panel_;
  std::vector<float> sums_;
};

}  // namespace

std::optional<int> measure_streams(const CpuContext& context, const CompileSpec& spec) {
  const std::vector<Weights> all = weights_of(context, spec);
  int64_t bytes = 0;
  int64_t widest = 0;
  int64_t most_rows = 0;
  for (const Weights& w : all) {
    bytes += w.product.layout.matrix_bytes();
    widest = std::max(widest, w.product.k());
    most_rows = std::max(most_rows, w.product.layout.groups() * w.product.layout.rows);
  }
  if (bytes < kLeastBytes) return std::nullopt;

  // A matrix gives each way a stretch of its own, in an order that changes: what was read before is
  // in caches. The ways are compared matrix by matrix.
  Trial trial(*context.pool, widest, most_rows);
  std::vector<double> against_one[kWays];
  const int64_t threads = context.pool->size();
  for (size_t i = 0; i < all.size() && against_one[0].size() < kMostRounds; ++i) {
    const PackedLayout& layout = all[i].product.layout;
    const int64_t groups = std::min(div_ceil(kPieceBytes, layout.group_bytes()),
                                    layout.groups() / threads / static_cast<int64_t>(kWays));
    if (groups < 4) continue;
    double seconds[kWays];
    for (size_t turn = 0; turn < kWays; ++turn) {
      const size_t way = (turn + i) % kWays;
      const auto place = static_cast<int64_t>((turn + i / kWays) % kWays);
      seconds[way] = trial.time(all[i], place * groups, groups, kStreams[way]);
    }
    for (size_t way = 0; way < kWays; ++way) against_one[way].push_back(seconds[way] / seconds[0]);
  }
  if (against_one[0].empty()) return std::nullopt;
  int chosen = 1;
  double best = kBetter;
  for (size_t way = 1; way < kWays; ++way) {
    std::vector<double>& ratios = against_one[way];
    const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
    std::nth_element(ratios.begin(), middle, ratios.end());
    log(LogLevel::info, "cpu: {} streams take {:.2f} of the time of one", kStreams[way], *middle);
    if (*middle >= best) continue;
    best = *middle;
    chosen = kStreams[way];
  }
  return chosen;
}

}  // namespace infer::cpu
