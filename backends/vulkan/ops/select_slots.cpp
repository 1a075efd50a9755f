// The slots that rows attend to: ops/select_slots.comp. If there are not rows enough for all of a
// GPU, a row has a workgroup for each part of its keys; no cut changes what is chosen.
#include <utility>

#include "backends/gpu/split_rows.h"
#include "backends/vulkan/cache.h"
#include "backends/vulkan/op.h"
#include "engine/core/checked.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, q, weights, slots, sequences, y, buffers;
  StridePush q_strides;
  uint32_t weights_stride, y_stride;
  uint32_t heads;
  uint32_t kind;
  uint32_t k_offset, k_row;
};

/// ops/select_slots_merge.comp
struct MergePush {
  VkDeviceAddress step, slots, y, from, to;
  uint32_t y_stride;
  uint32_t room, parts, joined;
};

constexpr int64_t kMostParts = 256;
constexpr int64_t kMerged = 16;  ///< parts that a workgroup merges
constexpr int64_t kLanes = 64;

/// Numbers of a buffer: it is trimmed about as often as it could have been filled with the best.
/// `count`: of blocks.
int64_t room_of(int64_t count) { return 2 * count + 2 * kLanes; }
/// Of lists of so many parts, which have room for so many numbers each.
int64_t buffers_bytes(const TensorDesc& y, int64_t parts, int64_t room) {
  return y.shape[1] * y.shape[2] * parts * (1 + room) * int64_t{sizeof(uint64_t)};
}
int64_t parts_of(const TensorDesc& y, const Tuning& tuning) {
  return gpu::select_parts(y, kMostParts, tuning.split_rows);
}

void record(const NodeCall& call) {
  const auto& p = call.params<op::SelectSlots>();
  const KvGeometry& kv = call.graph.kv();
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(p.kv_layer)];
  const Operand& q = call.inputs[0];
  const Operand& weights = call.inputs[1];
  const Operand& slots = call.inputs[2];
  const Operand& y = call.outputs[0];
  const int64_t rows = y.dim(2);
  const int64_t parts = parts_of(y.value->desc, call.tuning);
  const int64_t lists = y.dim(1);
  const int64_t count = p.best();
  const SelectSlotsConstants constants{
      .key_type = *cache_type(kv.k_type),
      .across = at.k_element > 0 ? 1u : 0u,
      .whole = at.k_element == 0 && whole_rows(kv.k_type, q.dim(0), at.k_row) ? 1u : 0u,
      .count = static_cast<uint32_t>(count),
      .room = static_cast<uint32_t>(room_of(count)),
      .parts = static_cast<uint32_t>(parts),
      .block = static_cast<uint32_t>(p.block),
      .weighted = weights.given() ? 1u : 0u,
      .tokens = static_cast<uint32_t>(at.tokens),
      .numbers = p.numbers ? 1u : 0u,
      .by_head = p.by_head ? 1u : 0u,
      .dim = q.size(0),
      .merged = static_cast<uint32_t>(kMerged),
      .merge_lanes = call.tuning.merge_lanes};
  call.recorder.dispatch("select_slots", constants,
                         Push{.step = call.step,
                              .q = q.address,
                              .weights = weights.address,
                              .slots = slots.address,
                              .sequences = call.inputs[3].address,
                              .y = y.address,
                              .buffers = call.scratch,
                              .q_strides = strides_of(q),
                              .weights_stride = weights.given() ? weights.stride(2) : 0,
                              .y_stride = y.stride(2),
                              .heads = q.size(1),
                              .kind = static_cast<uint32_t>(at.kind),
                              .k_offset = static_cast<uint32_t>(at.k_offset),
                              .k_row = static_cast<uint32_t>(at.k_row)},
                         {parts, rows, lists}, Parts::along_y);
  if (parts == 1) return;
  MergePush merge{.step = call.step,
                  .slots = slots.address,
                  .y = y.address,
                  .from = call.scratch,
                  .to = 0,
                  .y_stride = y.stride(2),
                  .room = constants.room,
                  .parts = constants.parts,
                  .joined = 1};
  const int64_t groups = div_ceil(parts, kMerged);
  if (groups > 1) {
    merge.to =
        merge.from + static_cast<VkDeviceSize>(buffers_bytes(y.value->desc, parts, room_of(count)));
    call.recorder.barrier();
    call.recorder.dispatch("select_slots_merge", constants, merge, {rows, lists, groups});
    merge.from = std::exchange(merge.to, 0);
    merge.room = constants.count;
    merge.parts = static_cast<uint32_t>(groups);
    merge.joined = constants.merged;
  }
  call.recorder.barrier();
  call.recorder.dispatch("select_slots_merge", constants, merge, {rows, lists, 1});
}

/// The buffers of parts, and of groups of them.
int64_t scratch(const NodeView& node, const Tuning& tuning, Roles) {
  const auto& p = std::get<op::SelectSlots>(node.node.params);
  const TensorDesc& y = node.graph.value(node.node.outputs[0]).desc;
  const int64_t parts = parts_of(y, tuning);
  const int64_t groups = div_ceil(parts, kMerged);
  return buffers_bytes(y, parts, room_of(p.best())) +
         (groups > 1 ? buffers_bytes(y, groups, p.best()) : 0);
}

}  // namespace

const VulkanOp& select_slots_vulkan() {
  static const VulkanOp op{OpId::SelectSlots, cache_supports, record, scratch, CacheUse::reads};
  return op;
}

}  // namespace infer::vulkan
