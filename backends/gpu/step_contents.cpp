#include "backends/gpu/step_contents.h"

#include <algorithm>
#include <cstring>

#include "backends/gpu/step.h"
#include "engine/core/checked.h"

namespace infer::gpu {

StepContents::StepContents(const Segment& segment, uint64_t tables)
    : graph_(*segment.graph),
      roles_(segment.roles),
      tables_(tables),
      kv_layout_(canonical_kv_layout(graph_.kv())),
      kinds_(kv_layout_.kinds.size(), false) {
  std::vector<bool> read(graph_.values().size(), false);
  for (const Node& node : segment.nodes()) {
    for (const ValueId id : node.inputs) {
      if (id != kNoValue) read[static_cast<size_t>(graph_.storage(id))] = true;
    }
    for (const int32_t layer : {cache_layer(node), pooled_layer(node)}) {
      if (layer < 0) continue;
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

const int32_t* StepContents::ints(const Bindings& bindings, ValueId id) const {
  return reinterpret_cast<const int32_t*>(bindings.inputs[static_cast<size_t>(id)]);
}

StepContents::PageShape StepContents::page_shape(const Bindings& bindings) const {
  if (!paged() || bindings.pages.empty()) return {};
  const int32_t* slots = ints(bindings, slots_);
  const int32_t* sequences = ints(bindings, sequences_);
  return {*std::max_element(sequences, sequences + bindings.rows) + 1,
          *std::max_element(slots, slots + bindings.rows) / kPageTokens + 1};
}

int64_t StepContents::page_bytes(const Bindings& bindings) const {
  const PageShape shape = page_shape(bindings);
  return static_cast<int64_t>(kv_layout_.kinds.size() * sizeof(uint64_t)) * shape.sequences *
         shape.stride;
}

void StepContents::write(const Bindings& bindings, std::byte* data, std::byte* pages,
                         uint64_t pages_address) {
  const StepHeader header{
      {static_cast<uint32_t>(bindings.rows), static_cast<uint32_t>(bindings.outputs),
       roles_ == Roles::both ? static_cast<uint32_t>(bindings.generated) : 0, 0},
      tables_};
  std::memcpy(data, &header, sizeof(header));
  for (size_t id = 0; id < offsets_.size(); ++id) {
    if (offsets_[id] < 0 || bindings.inputs[id] == nullptr) continue;
    TensorDesc desc = graph_.values()[id].desc;
    const Rows rows = graph_.values()[id].rows;
    if (rows == Rows::tokens) desc.shape[2] = bindings.rows;
    if (rows == Rows::outputs) desc.shape[2] = bindings.outputs;
    if (desc.elements() == 0) continue;
    std::memcpy(data + offsets_[id], bindings.inputs[id], static_cast<size_t>(desc.extent_bytes()));
  }
  if (page_shape(bindings).sequences > 0) write_pages(bindings, data, pages, pages_address);
}

void StepContents::write_pages(const Bindings& bindings, std::byte* data, std::byte* pages,
                               uint64_t pages_address) {
  const int32_t* slots = ints(bindings, slots_);
  const int32_t* sequences = ints(bindings, sequences_);
  const auto [count, stride] = page_shape(bindings);
  const int64_t kind_bytes = count * stride * int64_t{sizeof(uint64_t)};
  for (size_t k = 0; k < kv_layout_.kinds.size(); ++k) {
    if (!kinds_[k]) continue;  // on another device
    const int32_t window = kv_layout_.kinds[k].window;
    const bool state = kv_layout_.kinds[k].state;
    reach_.assign(static_cast<size_t>(count), {INT32_MAX, -1});
    for (int64_t r = 0; r < bindings.rows; ++r) {
      Reach& reach = reach_[static_cast<size_t>(sequences[r])];
      if (state) {
        reach = {0, 0};
        continue;
      }
      const int32_t first = window > 0 ? std::max(0, slots[r] - window + 1) : 0;
      reach.first = std::min(reach.first, first / kPageTokens);
      reach.last = std::max(reach.last, slots[r] / kPageTokens);
    }
    const int64_t at = kind_bytes * static_cast<int64_t>(k);
    const StepKind kind{pages_address + static_cast<uint64_t>(at), static_cast<uint32_t>(stride),
                        0};
    std::memcpy(data + sizeof(StepHeader) + k * sizeof(StepKind), &kind, sizeof(kind));
    const KvPages& cache = bindings.pages[k];
    for (int64_t s = 0; s < count; ++s) {
      const Reach& reach = reach_[static_cast<size_t>(s)];
      for (int64_t page = reach.first; page <= reach.last; ++page) {
        const std::byte* where = cache.page(static_cast<int32_t>(s), page * kPageTokens);
        const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(where));
        const int64_t entry = s * stride + page;
        std::memcpy(pages + at + entry * int64_t{sizeof(address)}, &address, sizeof(address));
      }
    }
  }
}

}  // namespace infer::gpu
