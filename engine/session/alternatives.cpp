// Which other settings would fit if the given ones do not.
#include "engine/core/dtype.h"
#include "engine/session/engine_impl.h"

namespace infer {
namespace {

/// Whether a cache of this type would be smaller if its type were q8_0.
bool can_shrink(const std::string& type) {
  const std::optional<DType> known = dtype_from_name(type);
  return known && dtype_info(*known).block_elements == 1;
}

}  // namespace

Result<std::vector<Alternative>> alternatives(const std::string& path, const LoadOptions& options) {
  return guarded([&]() -> Result<std::vector<Alternative>> {
    std::vector<Alternative> found;
    if (plan_model(path, options)) return found;
    const auto offer = [&](Alternative::Kind kind, LoadOptions changed) {
      Result<MemoryReport> plan = plan_model(path, changed);
      if (plan) found.push_back({kind, std::move(changed), *std::move(plan)});
    };
    LoadOptions small = options;
    if (can_shrink(small.cache_type_k)) small.cache_type_k = "q8_0";
    if (can_shrink(small.cache_type_v)) small.cache_type_v = "q8_0";
    if (small.cache_type_k != options.cache_type_k || small.cache_type_v != options.cache_type_v) {
      offer(Alternative::Kind::cache_type, small);
    }
    if (options.context > 0) {
      LoadOptions shorter = options;
      shorter.context = 0;
      offer(Alternative::Kind::context, shorter);
    }
    if (options.gpu_layers > 0) {
      LoadOptions fewer = options;
      fewer.gpu_layers = fewer.cpu_experts = -1;
      offer(Alternative::Kind::gpu_layers, fewer);
    }
    if (!options.spill) {
      LoadOptions spilled = options;
      spilled.spill = true;
      offer(Alternative::Kind::spill, spilled);
    }
    LoadOptions larger = options;
    larger.memory_limit = int64_t{1} << 60;
    offer(Alternative::Kind::memory, larger);
    for (auto& [kind, changed, plan] : found) {
      if (kind == Alternative::Kind::context) changed.context = plan.context;
      // A little more than the sum, since the cache grows by whole pages.
      if (kind == Alternative::Kind::memory) changed.memory_limit = plan.total + (plan.total >> 8);
    }
    return found;
  });
}

}  // namespace infer
