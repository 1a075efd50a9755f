#include "engine/session/check_weights.h"

#include <algorithm>
#include <cmath>

#include "engine/core/thread_pool.h"
#include "engine/quant/quant.h"
#include "engine/session/guarded.h"

namespace infer {
namespace {

/// The first element of a tensor that is NaN or infinite.
struct BadElement {
  int64_t index = INT64_MAX;
  float value = 0;
};

/// Looks at the blocks [begin, end) of a weight and keeps the first bad element.
Status find_bad(const WeightSource& source, const Weight& weight, Range blocks, BadElement& bad) {
  const DTypeInfo& type = dtype_info(weight.desc.type);
  const int64_t most = std::max<int64_t>(1, (64 << 10) / type.block_elements);
  std::vector<std::byte> stored(static_cast<size_t>(most * type.block_bytes));
  std::vector<float> values(static_cast<size_t>(most * type.block_elements));
  for (int64_t first = blocks.begin; first < blocks.end; first += most) {
    const int64_t count = std::min(most, blocks.end - first);
    const std::span bytes = std::span(stored).first(static_cast<size_t>(count * type.block_bytes));
    const std::span numbers =
        std::span(values).first(static_cast<size_t>(count * type.block_elements));
    INFER_CHECK(source.read(weight.place, static_cast<uint64_t>(first * type.block_bytes), bytes));
    quant_traits(type.type).decode(stored.data(), values.data(), count * type.block_elements);
    const auto at = std::ranges::find_if(numbers, [](float v) { return !std::isfinite(v); });
    if (at == numbers.end()) continue;
    bad = {first * type.block_elements + (at - numbers.begin()), *at};
    return {};
  }
  return {};
}

}  // namespace

Status check_weights(const WeightSource& source, const LoadOptions& options) {
  ThreadPool pool(options.threads > 0 ? options.threads : available_threads());
  for (const Weight& weight : source.weights()) {
    Status stopped;
    if (options.progress && !call_back(stopped, [&] { return options.progress(0); })) {
      INFER_CHECK(stopped);
      return error(StatusCode::cancelled, "{}: loading was cancelled", source.metadata().source());
    }
    const int64_t blocks = weight.desc.elements() / dtype_info(weight.desc.type).block_elements;
    std::vector<BadElement> bad(static_cast<size_t>(pool.size()));
    std::vector<Status> statuses(bad.size());
    pool.run([&](int thread) {
      const auto t = static_cast<size_t>(thread);
      statuses[t] = find_bad(source, weight, split_range(blocks, thread, pool.size()), bad[t]);
    });
    for (const Status& status : statuses) INFER_CHECK(status);
    const BadElement& first = *std::ranges::min_element(bad, {}, &BadElement::index);
    if (first.index == INT64_MAX) continue;
    return error(StatusCode::bad_file,
                 "{}: tensor '{}': expected finite numbers, found {} in column {} of row {}",
                 source.metadata().source(), weight.name,
                 std::isnan(first.value) ? "NaN" : "infinity", first.index % weight.desc.shape[0],
                 first.index / weight.desc.shape[0]);
  }
  return {};
}

}  // namespace infer
