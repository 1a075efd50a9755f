#include "engine/jobs/conformance_memory.h"

#include <algorithm>

#include "engine/core/checked.h"

namespace infer {
namespace {

constexpr int64_t kGuardBytes = 64;
constexpr int32_t kPagesPerSlab = 2;

/// Adds a place with its guards. Guards begin where the value ends, not where the next may begin.
int64_t add_place(GuardedLayout& layout, int64_t bytes, int64_t alignment) {
  const int64_t step = std::max(alignment, kGuardBytes);
  const int64_t begin = layout.bytes + step;
  const int64_t end = round_up(begin + bytes + kGuardBytes, step);
  layout.guards.emplace_back(layout.bytes, begin);
  layout.guards.emplace_back(begin + bytes, end);
  layout.bytes = end;
  return begin;
}

/// Makes memory untouched where the device keeps bytes as they are; else it starts as it is.
Status fill(Device& device, const MemoryRef& to, int64_t bytes) {
  const TensorDesc desc = tensor(DType::i8, bytes);
  if (device.packed_bytes(desc) != bytes) return {};
  return device.load_weight(
      desc,
      [](uint64_t, std::span<std::byte> out) {
        std::ranges::fill(out, kUntouched);
        return Status();
      },
      to);
}

}  // namespace

GuardedLayout guarded_layout(const Graph& graph, const Device* device) {
  GuardedLayout layout;
  for (const Value& value : graph.values()) {
    const bool weight = value.kind == Value::Kind::weight;
    if (!weight && value.kind != Value::Kind::result) {
      layout.offsets.push_back(0);
      continue;
    }
    const int64_t bytes =
        weight && device != nullptr ? device->packed_bytes(value.desc) : value.desc.extent_bytes();
    layout.offsets.push_back(
        add_place(layout, bytes, device == nullptr ? kGuardBytes : device->alignment()));
  }
  return layout;
}

GuardedLayout single_layout(int64_t bytes, const Device& device) {
  GuardedLayout layout;
  layout.offsets.push_back(add_place(layout, bytes, device.alignment()));
  return layout;
}

Result<std::unique_ptr<GuardedBuffer>> GuardedBuffer::make(Device& device, GuardedLayout layout,
                                                           Purpose purpose) {
  std::unique_ptr<GuardedBuffer> made(new GuardedBuffer(device, std::move(layout)));
  const int64_t bytes = std::max<int64_t>(made->layout_.bytes, kGuardBytes);
  INFER_TRY(made->buffer_, device.alloc(bytes, purpose));
  INFER_CHECK_R(fill(device, {made->buffer_.get(), 0}, bytes));
  return made;
}

Result<std::vector<std::byte>> GuardedBuffer::read_guards() const {
  std::vector<std::byte> bytes;
  for (const auto& [begin, end] : layout_.guards) {
    std::vector<std::byte> guard(static_cast<size_t>(end - begin));
    INFER_CHECK_R(device_.read({buffer_.get(), begin}, guard));
    bytes.insert(bytes.end(), guard.begin(), guard.end());
  }
  return bytes;
}

Status GuardedBuffer::remember_guards() {
  INFER_TRY_S(remembered_, read_guards());
  return {};
}

Status GuardedBuffer::check_guards() const {
  INFER_TRY_S(const std::vector<std::byte> now, read_guards());
  if (now == remembered_) return {};
  return error(StatusCode::internal, "bytes outside of the values were written");
}

Result<KvArena> KvArena::make(Device& device, const KvKind& kind, int32_t sequences,
                              int64_t tokens) {
  const int64_t page_bytes = kind.page_bytes;
  KvArena arena;
  arena.page_bytes_ = page_bytes;
  // Any one sequence might get all tokens; one entry more in a table leads to the forbidden page.
  const auto pages_each =
      kind.state ? 1 : static_cast<int32_t>(div_ceil<int64_t>(tokens, kPageTokens));
  arena.table_stride_ = pages_each + 1;
  const int32_t slabs = div_ceil(sequences * pages_each + 1, kPagesPerSlab);
  int32_t next = slabs * kPagesPerSlab;
  arena.tables_.assign(static_cast<size_t>(sequences) * static_cast<size_t>(arena.table_stride_),
                       kind.state ? -1 : 0);
  for (int32_t page = 0; page < pages_each; ++page) {
    for (int32_t s = 0; s < sequences; ++s) {
      arena.tables_[static_cast<size_t>(s * arena.table_stride_ + page)] = --next;
    }
  }
  for (int32_t s = 0; s < slabs; ++s) {
    const int64_t bytes = page_bytes * kPagesPerSlab;
    arena.host_memory_.emplace_back(static_cast<size_t>(bytes), kUntouched);
    arena.host_slabs_.push_back(arena.host_memory_.back().data());
    GuardedLayout places = single_layout(bytes, device);
    if (s == 0) {  // the forbidden page comes first
      const int64_t begin = places.offsets[0];
      places.guards.emplace_back(begin, begin + page_bytes);
    }
    INFER_TRY(auto memory, GuardedBuffer::make(device, std::move(places), Purpose::kv));
    INFER_CHECK_R(memory->remember_guards());
    const MemoryRef at = memory->at(0);
    arena.device_slabs_.push_back(at.buffer->address() + at.offset);
    arena.device_memory_.push_back(std::move(memory));
  }
  return arena;
}

KvPages KvArena::pages(const std::vector<std::byte*>& slabs) const {
  return {slabs.data(), kPagesPerSlab, page_bytes_, tables_.data(), table_stride_};
}

Status KvArena::check_guards() const {
  for (const auto& memory : device_memory_) INFER_CHECK(memory->check_guards());
  return {};
}

}  // namespace infer
