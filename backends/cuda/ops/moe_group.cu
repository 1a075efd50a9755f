#include "backends/cuda/ops/moe_group.h"

#include "backends/cuda/device/prefix.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

// Places of one expert have no order, as what becomes of one does not depend on its group.
INFER_KERNEL(moe_group, MoeGroupParams, kGroupThreads, 1) {
  const uint32_t first = thread();
  const uint32_t all = step_rows(p.step, p.rows) * p.used;
  const SharedPtr<uint32_t> counts = dynamic_shared<uint32_t>(0, p.experts);
  const SharedPtr<uint32_t> places = dynamic_shared<uint32_t>(4 * p.experts, p.experts);
  const SharedPtr<uint32_t> groups = dynamic_shared<uint32_t>(8 * p.experts, p.experts);
  const Global<const int32_t> ids(p.ids);
  const Global<int32_t> out(p.groups);
  const auto expert_of = [&](uint32_t i) {
    const auto id = static_cast<uint32_t>(ids[i / p.used * p.ids_stride + i % p.used]);
    return id < p.experts ? id : p.experts - 1;
  };
  for (uint32_t e = first; e < p.experts; e += threads()) counts[e] = 0u;
  sync_block();
  for (uint32_t i = first; i < all; i += threads()) atomic_add(counts, expert_of(i), 1);
  sync_block();
  // A thread has neighbouring experts.
  const uint32_t own = (p.experts + threads() - 1) / threads();
  const uint32_t begin = first * own < p.experts ? first * own : p.experts;
  const uint32_t end = begin + own < p.experts ? begin + own : p.experts;
  const auto groups_of = [&](uint32_t e) { return (counts[e] + p.most - 1) / p.most; };
  uint32_t own_places = 0;
  uint32_t own_groups = 0;
  for (uint32_t e = begin; e < end; ++e) {
    own_places += counts[e];
    own_groups += groups_of(e);
  }
  uint32_t place = sum_before(own_places).before;
  const SumBefore group_sums = sum_before(own_groups);
  uint32_t group = group_sums.before;
  for (uint32_t e = begin; e < end; ++e) {
    places[e] = place;
    groups[e] = group;
    place += counts[e];
    group += groups_of(e);
  }
  if (first == 0) out[0] = static_cast<int32_t>(group_sums.all);
  sync_block();
  for (uint32_t e = first; e < p.experts; e += threads()) {
    const uint32_t count = counts[e];
    uint32_t to = 4 + groups[e] * 4;
    for (uint32_t done = 0; done < count; done += p.most) {
      out[to] = static_cast<int32_t>(e);
      out[to + 1] = static_cast<int32_t>(p.places + 2 * (places[e] + done));
      out[to + 2] = static_cast<int32_t>(count - done < p.most ? count - done : p.most);
      to += 4;
    }
  }
  sync_block();
  for (uint32_t i = first; i < all; i += threads()) {
    const uint32_t to = p.places + 2 * atomic_add(places, expert_of(i), 1);
    out[to] = static_cast<int32_t>(i % p.used);
    out[to + 1] = static_cast<int32_t>(i / p.used);
  }
}

}  // namespace infer::cuda
