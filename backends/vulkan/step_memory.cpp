#include "backends/vulkan/step_memory.h"

#include <algorithm>
#include <cstring>

#include "engine/core/checked.h"

namespace infer::vulkan {
namespace {

/// As glsl/common.glsl has them.
struct StepHeader {
  uint32_t rows[4];  ///< tokens, outputs, generated tokens, none
  VkDeviceAddress tables;
};
struct StepKind {
  VkDeviceAddress table;  ///< u64 [sequences][stride], addresses of pages
  uint32_t stride;
  uint32_t unused;
};

}  // namespace

StepMemory::StepMemory(Context& context, const Segment& segment, VkDeviceAddress tables)
    : context_(context),
      graph_(*segment.graph),
      roles_(segment.roles),
      constants_(tables),
      kv_layout_(canonical_kv_layout(graph_.kv())),
      kinds_(kv_layout_.kinds.size(), false) {
  std::vector<bool> read(graph_.values().size(), false);
  for (const Node& node : segment.nodes()) {
    for (const ValueId id : node.inputs) {
      if (id != kNoValue) read[static_cast<size_t>(graph_.storage(id))] = true;
    }
    if (const int32_t layer = cache_layer(node); layer >= 0) {
      kinds_[static_cast<size_t>(kv_layout_.layers[static_cast<size_t>(layer)].kind)] = true;
    }
  }
  bytes_ = static_cast<int64_t>(sizeof(StepHeader) + kv_layout_.kinds.size() * sizeof(StepKind));
  for (size_t id = 0; id < graph_.values().size(); ++id) {
    const Value& value = graph_.values()[id];
    offsets_.push_back(-1);
    if (value.kind != Value::Kind::input || !read[id]) continue;
    if (value.input == StepInput::slots) slots_ = static_cast<ValueId>(id);
    if (value.input == StepInput::sequences) sequences_ = static_cast<ValueId>(id);
    offsets_.back() = round_up<int64_t>(bytes_, 64);
    bytes_ = offsets_.back() + value.desc.extent_bytes();
  }
}

Result<std::unique_ptr<StepMemory>> StepMemory::create(Context& context, const Segment& segment,
                                                       VkDeviceAddress tables) {
  std::unique_ptr<StepMemory> made(new StepMemory(context, segment, tables));
  INFER_TRY(made->buffer_,
            RawBuffer::create_mapped(context, made->bytes_, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT));
  return made;
}

Status StepMemory::write(const Bindings& bindings) {
  const StepHeader header{
      {static_cast<uint32_t>(bindings.rows), static_cast<uint32_t>(bindings.outputs),
       roles_ == Roles::both ? static_cast<uint32_t>(bindings.generated) : 0, 0},
      constants_};
  std::memcpy(buffer_->data(), &header, sizeof(header));
  for (size_t id = 0; id < offsets_.size(); ++id) {
    if (offsets_[id] < 0 || bindings.inputs[id] == nullptr) continue;
    TensorDesc desc = graph_.values()[id].desc;
    const Rows rows = graph_.values()[id].rows;
    if (rows == Rows::tokens) desc.shape[2] = bindings.rows;
    if (rows == Rows::outputs) desc.shape[2] = bindings.outputs;
    if (desc.elements() == 0) continue;
    std::memcpy(buffer_->data() + offsets_[id], bindings.inputs[id],
                static_cast<size_t>(desc.extent_bytes()));
  }
  const bool cached = slots_ != kNoValue && sequences_ != kNoValue && !bindings.pages.empty();
  return cached ? write_pages(bindings) : Status();
}

Status StepMemory::write_pages(const Bindings& bindings) {
  const auto ints = [&](ValueId id) {
    return reinterpret_cast<const int32_t*>(bindings.inputs[static_cast<size_t>(id)]);
  };
  const int32_t* slots = ints(slots_);
  const int32_t* sequences = ints(sequences_);
  const size_t count =
      static_cast<size_t>(*std::max_element(sequences, sequences + bindings.rows)) + 1;
  const size_t kinds = kv_layout_.kinds.size();
  const int64_t stride = *std::max_element(slots, slots + bindings.rows) / kPageTokens + 1;
  const auto kind_bytes = static_cast<int64_t>(count * sizeof(VkDeviceAddress)) * stride;
  const int64_t needed = kind_bytes * static_cast<int64_t>(kinds);
  if (tables_ == nullptr || tables_->size() < needed) {
    tables_.reset();
    INFER_TRY_S(tables_, RawBuffer::create_mapped(context_, std::max<int64_t>(needed * 2, 4096),
                                                  VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT));
  }
  for (size_t k = 0; k < kinds; ++k) {
    if (!kinds_[k]) continue;  // on another device
    const int32_t window = kv_layout_.kinds[k].window;
    reach_.assign(count, {INT32_MAX, -1});
    for (int64_t r = 0; r < bindings.rows; ++r) {
      Reach& reach = reach_[static_cast<size_t>(sequences[r])];
      const int32_t first = window > 0 ? std::max(0, slots[r] - window + 1) : 0;
      reach.first = std::min(reach.first, first / kPageTokens);
      reach.last = std::max(reach.last, slots[r] / kPageTokens);
    }
    const int64_t at = kind_bytes * static_cast<int64_t>(k);
    const StepKind kind{tables_->address() + static_cast<VkDeviceAddress>(at),
                        static_cast<uint32_t>(stride), 0};
    std::memcpy(buffer_->data() + sizeof(StepHeader) + k * sizeof(StepKind), &kind, sizeof(kind));
    const KvPages& pages = bindings.pages[k];
    for (size_t s = 0; s < count; ++s) {
      for (int64_t page = reach_[s].first; page <= reach_[s].last; ++page) {
        const std::byte* where = pages.page(static_cast<int32_t>(s), page * kPageTokens);
        const auto address = static_cast<VkDeviceAddress>(reinterpret_cast<uintptr_t>(where));
        const int64_t entry = static_cast<int64_t>(s) * stride + page;
        std::memcpy(tables_->data() + at + entry * int64_t{sizeof(address)}, &address,
                    sizeof(address));
      }
    }
  }
  return {};
}

}  // namespace infer::vulkan
