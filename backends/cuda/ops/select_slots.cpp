#include "backends/cuda/ops/select_slots.h"

#include <utility>

#include "backends/cuda/cache.h"
#include "backends/cuda/op.h"
#include "backends/gpu/split_rows.h"
#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

/// Numbers of a buffer: it is trimmed about as often as it could have been filled with the best.
int64_t room_of(int64_t count) { return 2 * count + 2 * kSelectThreads; }

/// Parts of each list of a result: blocks enough for all multiprocessors.
int64_t parts_of(const TensorDesc& y, const Tuning& tuning) {
  return gpu::select_parts(y, kSelectParts, tuning.split_rows);
}

/// Of lists of so many parts, which have room for so many numbers each.
int64_t buffers_bytes(const TensorDesc& y, int64_t parts, int64_t room) {
  return y.shape[1] * y.shape[2] * parts * (1 + room) * int64_t{sizeof(uint64_t)};
}

void record(const NodeCall& call) {
  const auto& p = call.params<op::SelectSlots>();
  const KvGeometry& kv = call.graph.kv();
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(p.kv_layer)];
  const Operand& q = call.inputs[0];
  const Operand& y = call.outputs[0];
  const int64_t dim = q.dim(0);
  SelectSlotsParams params{};
  params.step = call.step;
  params.q = q.address;
  params.weights = call.inputs[1].address;
  params.slots = call.inputs[2].address;
  params.sequences = call.inputs[3].address;
  params.y = y.address;
  params.buffers = call.scratch;
  params.q_strides = strides_of(q);
  params.weights_stride = call.inputs[1].given() ? call.inputs[1].stride(2) : 0;
  params.y_stride = y.stride(2);
  params.list_stride = y.stride(1);
  params.heads = q.size(1);
  params.dim = q.size(0);
  params.kind = static_cast<uint32_t>(at.kind);
  params.k_offset = static_cast<uint32_t>(at.k_offset);
  params.k_row = static_cast<uint32_t>(at.k_row);
  params.k_type = *cache_type(kv.k_type);
  params.across = at.k_element > 0 ? 1 : 0;
  params.whole = whole_rows(kv.k_type, dim, at.k_row) ? 1 : 0;
  params.count = static_cast<uint32_t>(p.best());
  params.room = static_cast<uint32_t>(room_of(params.count));
  params.block = static_cast<uint32_t>(p.block);
  params.tokens = static_cast<uint32_t>(at.tokens);
  params.numbers = p.numbers ? 1 : 0;
  const int64_t parts = parts_of(y.value->desc, call.tuning);
  params.parts = static_cast<uint32_t>(parts);
  params.lists = y.size(1);
  params.by_head = p.by_head ? 1 : 0;
  const int64_t queries = p.by_head ? 1 : int64_t{kSelectHeads};
  call.recorder.launch(p.by_head ? "select_slots_by_head" : "select_slots", params,
                       {parts, y.dim(2), y.dim(1)}, kSelectThreads,
                       queries * round_up<int64_t>(dim, 4) * int64_t{sizeof(float)});
  if (parts == 1) return;
  SelectMergeParams merge{};
  merge.select = params;
  merge.from = params.buffers;
  merge.room = params.room;
  merge.parts = params.parts;
  merge.joined = 1;
  const auto launch = [&] {
    call.recorder.barrier();
    call.recorder.launch("select_slots_merge", merge, {y.dim(2), y.dim(1), merge.groups},
                         kSelectMergeThreads);
  };
  const int64_t groups = div_ceil<int64_t>(parts, kSelectTogether);
  if (groups > 1) {
    merge.groups = static_cast<uint32_t>(groups);
    merge.to = merge.from +
               static_cast<uint64_t>(buffers_bytes(y.value->desc, parts, room_of(params.count)));
    launch();
    merge.from = std::exchange(merge.to, 0);
    merge.room = params.count;
    merge.parts = merge.groups;
    merge.joined = kSelectTogether;
  }
  merge.groups = 1;
  launch();
}

/// The buffers of parts, and of groups of them.
int64_t scratch(const NodeView& node, const Tuning& tuning, Roles) {
  const auto& p = std::get<op::SelectSlots>(node.node.params);
  const TensorDesc& y = node.graph.value(node.node.outputs[0]).desc;
  const int64_t parts = parts_of(y, tuning);
  const int64_t groups = div_ceil<int64_t>(parts, kSelectTogether);
  return buffers_bytes(y, parts, room_of(p.best())) +
         (groups > 1 ? buffers_bytes(y, groups, p.best()) : 0);
}

}  // namespace

const CudaOp& select_slots_cuda() {
  static const CudaOp op{.id = OpId::SelectSlots,
                         .supports = cache_supports,
                         .record = record,
                         .scratch = scratch,
                         .cache = CacheUse::reads};
  return op;
}

}  // namespace infer::cuda
