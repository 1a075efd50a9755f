#include "backends/vulkan/weight_stream.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "backends/gpu/calls.h"
#include "backends/vulkan/constants.h"
#include "engine/core/checked.h"
#include "engine/core/log.h"

namespace infer::vulkan {
namespace {

/// Of the host's memory, what is imported at a time.
constexpr size_t kChunkBytes = size_t{1} << 30;
/// Of them, what a submission reads at most: a slow bus takes a second for it, and a driver's
/// watchdog gives two.
constexpr int64_t kSubmissionBytes = int64_t{256} << 20;
/// What every device takes along a dimension of a dispatch.
constexpr int64_t kMostBlocks = 65535;

/// Of the host's memory, what is imported at most: some drivers hold all that a device may read of
/// it in place whenever it is given work, and have room for no more than a heap.
int64_t most_imported(const PhysicalDevice& device) {
  VkDeviceSize largest = 0;
  for (uint32_t i = 0; i < device.memory.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = device.memory.memoryHeaps[i];
    const bool local = (heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0;
    if (!local || device.memory.memoryHeapCount == 1) largest = std::max(largest, heap.size);
  }
  return static_cast<int64_t>(largest / 4 * 3);
}

}  // namespace

HostMemory::HostMemory(Context& context, std::span<const std::span<const std::byte>> memory) {
  const auto page = static_cast<uintptr_t>(context.physical().import_alignment);
  if (page == 0) return;
  auto left = static_cast<size_t>(most_imported(context.physical()));
  bool told = false;
  for (const std::span<const std::byte> part : memory) {
    const auto at = reinterpret_cast<uintptr_t>(part.data());
    const uintptr_t end = round_up<uintptr_t>(at + part.size(), page);
    for (uintptr_t begin = at / page * page; begin < end; begin += kChunkBytes) {
      const size_t bytes = std::min(end - begin, kChunkBytes + gpu::kPieceBytes);
      if (bytes > left) {
        if (!std::exchange(told, true)) {
          log(LogLevel::info,
              "{}: some weights of the host are copied more slowly: its driver has too little room "
              "for all of them",
              context.physical().name);
        }
        break;
      }
      left -= bytes;
      // Nothing is written there.
      Result<std::unique_ptr<RawBuffer>> made =
          RawBuffer::import(context, {reinterpret_cast<std::byte*>(begin), bytes});
      if (!made) {
        log(LogLevel::info, "{}; weights there are copied more slowly", made.error().message());
        break;
      }
      chunks_.push_back({reinterpret_cast<const std::byte*>(begin), *std::move(made)});
      if (begin + bytes == end) break;
    }
  }
  std::ranges::sort(chunks_, {}, &Chunk::begin);
}

Place HostMemory::place_of(const std::byte* data, int64_t bytes) const {
  const auto behind = std::ranges::upper_bound(chunks_, data, {}, &Chunk::begin);
  // The last one that begins before, or the one before that, which reaches beyond it.
  for (auto it = behind; it != chunks_.begin() && behind - it < 2;) {
    --it;
    const int64_t offset = data - it->begin;
    if (offset + bytes > it->buffer->size()) continue;
    return {it->buffer->handle(), offset};
  }
  return {};
}

bool VulkanWeightStream::takes(const TensorDesc& desc, const HostLayout& layout,
                               gpu::Repacking& repacking, const PhysicalDevice& device) {
  const gpu::RepackTables* tables = repacking.find(desc, layout);
  return tables != nullptr && repacking.layout(desc).row_blocks <= kMostBlocks &&
         tables->cells.size() * sizeof(uint32_t) <= device.limits.maxComputeSharedMemorySize;
}

VulkanWeightStream::Kind VulkanWeightStream::kind_of(const StreamedWeight& weight) {
  return {weight.desc.type, weight.desc.shape, weight.layout.rows};
}

int64_t VulkanWeightStream::work_bytes(std::span<const StreamedWeight> weights,
                                       gpu::Repacking& repacking) {
  int64_t bytes = kAreas * gpu::kPieceBytes;
  for (const gpu::RepackTables* tables : repacking.find_all(weights)) bytes += tables->bytes();
  std::set<Kind> kinds;
  for (const StreamedWeight& weight : weights) kinds.insert(kind_of(weight));
  return bytes + std::ssize(kinds) * int64_t{sizeof(gpu::RepackShape)};
}

Result<std::unique_ptr<VulkanWeightStream>> VulkanWeightStream::create(
    Context& context, Pipelines& pipelines, Transfer& transfer, gpu::Repacking& repacking,
    std::span<const StreamedWeight> weights, std::span<const std::span<const std::byte>> host,
    const Place& work, VkDeviceAddress address) {
  std::unique_ptr<VulkanWeightStream> made(
      new VulkanWeightStream(context, pipelines, repacking, host, work, address));
  made->computed_ = std::make_unique<Marks>(context);
  INFER_CHECK_R(made->computed_->create());
  for (std::unique_ptr<Marks>& marks : made->arrived_) {
    marks = std::make_unique<Marks>(context);
    INFER_CHECK_R(marks->create());
  }
  for (std::unique_ptr<Commands>& commands : made->direct_) {
    commands = std::make_unique<Commands>(context, Queue::streams);
    INFER_CHECK_R(commands->create());
  }
  constexpr int64_t kBefore = kAreas * gpu::kPieceBytes;
  INFER_CHECK_R(made->upload_tables(weights, transfer, {work.buffer, work.offset + kBefore},
                                    address + static_cast<VkDeviceAddress>(kBefore)));
  return made;
}

VulkanWeightStream::~VulkanWeightStream() { context_.wait_idle(); }

Status VulkanWeightStream::upload_tables(std::span<const StreamedWeight> weights,
                                         Transfer& transfer, const Place& work,
                                         VkDeviceAddress address) {
  std::vector<std::byte> all;
  const auto add = [&](std::span<const std::byte> bytes) {
    const auto at = address + all.size();
    all.insert(all.end(), bytes.begin(), bytes.end());
    all.resize(round_up<size_t>(all.size(), 16));
    return at;
  };
  std::map<const gpu::RepackTables*, gpu::RepackShape> tables;
  for (const gpu::RepackTables* of : repacking_.find_all(weights)) {
    gpu::RepackShape& at = tables[of];
    at.cells = add(std::as_bytes(std::span(of->cells)));
    at.words = add(std::as_bytes(std::span(of->words)));
    at.terms = add(std::as_bytes(std::span(of->terms)));
  }
  for (const StreamedWeight& weight : weights) {
    const auto [kind, made] = kinds_.try_emplace(kind_of(weight));
    if (!made) continue;
    const gpu::WeightLayout layout = repacking_.layout(weight.desc);
    const gpu::RepackTables* of = repacking_.find(weight.desc.type, weight.layout);
    gpu::RepackShape shape =
        gpu::RepackSteps(layout, weight.layout).shape(layout, weight.layout, *of);
    shape.cells = tables[of].cells;
    shape.words = tables[of].words;
    shape.terms = tables[of].terms;
    kind->second.shape = add(std::as_bytes(std::span(&shape, 1)));
    INFER_TRY_S(kind->second.pipeline,
                pipelines_.get("repack", by_id(RepackConstants{shape.cell_words})));
  }
  return transfer.write(all, work);
}

Status VulkanWeightStream::bring(std::span<const StreamedWeight> weights, int place) {
  std::vector<Piece> pieces;
  for (const StreamedWeight& weight : weights) add_pieces(weight, pieces);
  INFER_CHECK(computed_->set(Queue::programs));
  INFER_CHECK(computed_->hold(Queue::streams));
  const auto staged = std::ranges::stable_partition(pieces, [&](const Piece& piece) {
    return host_.place_of(piece.data, piece.bytes).buffer != VK_NULL_HANDLE;
  });
  INFER_CHECK(bring_direct({pieces.begin(), staged.begin()}, *direct_[place]));
  for (const Piece& piece : staged) INFER_CHECK(bring_staged(piece));
  return arrived_[place]->set(Queue::streams);
}

Status VulkanWeightStream::await(int place) { return arrived_[place]->hold(Queue::programs); }

void VulkanWeightStream::add_pieces(const StreamedWeight& weight,
                                    std::vector<Piece>& pieces) const {
  const gpu::WeightLayout layout = repacking_.layout(weight.desc);
  const gpu::RepackSteps steps(layout, weight.layout);
  const KindOnDevice& kind = kinds_.at(kind_of(weight));
  for (int64_t step = 0, end = 0; step < steps.all(); step = end) {
    end = steps.end_of_piece(step);
    const int64_t before = steps.byte(step);
    const int64_t group = steps.group(step);
    pieces.push_back({.pipeline = kind.pipeline,
                      .data = weight.data + before,
                      .bytes = steps.byte(end) - before,
                      .before = before,
                      .push = {.shape = kind.shape,
                               .from = 0,
                               .to = gpu::address_of(weight.to),
                               .first_group = static_cast<uint32_t>(group),
                               .unused = 0},
                      .row_blocks = static_cast<uint32_t>(layout.row_blocks),
                      .groups = static_cast<uint32_t>(steps.group(end) - group)});
  }
}

void VulkanWeightStream::record_copy(const Commands& commands, const Piece& piece,
                                     const Place& from, size_t area) const {
  const VkBufferCopy copy{
      static_cast<VkDeviceSize>(from.offset),
      static_cast<VkDeviceSize>(work_.offset + static_cast<int64_t>(area) * gpu::kPieceBytes),
      static_cast<VkDeviceSize>(piece.bytes)};
  context_.vk().vkCmdCopyBuffer(commands.handle(), from.buffer, work_.buffer, 1, &copy);
}

void VulkanWeightStream::record_repack(const Commands& commands, const Piece& piece,
                                       size_t area) const {
  const VolkDeviceTable& vk = context_.vk();
  Push push = piece.push;
  push.from = address_ + area * static_cast<VkDeviceAddress>(gpu::kPieceBytes) -
              static_cast<VkDeviceAddress>(piece.before);
  vk.vkCmdBindPipeline(commands.handle(), VK_PIPELINE_BIND_POINT_COMPUTE, piece.pipeline);
  vk.vkCmdPushConstants(commands.handle(), pipelines_.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                        sizeof(push), &push);
  vk.vkCmdDispatch(commands.handle(), piece.row_blocks, piece.groups, 1);
}

/// While a piece is copied to one area, the one before is repacked from the other.
Status VulkanWeightStream::bring_direct(std::span<const Piece> pieces, Commands& commands) const {
  if (pieces.empty()) return {};
  INFER_CHECK(commands.begin(true));
  wait_for_areas(commands);
  int64_t bytes = 0;
  for (size_t i = 0; i <= pieces.size(); ++i) {
    if (i < pieces.size()) {
      const Piece& piece = pieces[i];
      if (bytes > 0 && bytes + piece.bytes > kSubmissionBytes) {
        INFER_CHECK(commands.divide());
        bytes = 0;
      }
      bytes += piece.bytes;
      record_copy(commands, piece, host_.place_of(piece.data, piece.bytes), i % kAreas);
    }
    if (i > 0) record_repack(commands, pieces[i - 1], (i - 1) % kAreas);
    wait_for_areas(commands);
  }
  INFER_CHECK(commands.end());
  return commands.submit();
}

/// What was recorded or submitted before has read and written the areas.
void VulkanWeightStream::wait_for_areas(const Commands& commands) const {
  constexpr VkPipelineStageFlags kBoth =
      VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
  full_barrier(context_, commands.handle(), kBoth, kBoth);
}

/// The processor copies a piece while the device repacks the one before.
Status VulkanWeightStream::bring_staged(const Piece& piece) {
  const size_t area = next_;
  Lane& lane = lanes_[area];
  next_ = (next_ + 1) % kAreas;
  if (lane.commands == nullptr) {
    INFER_TRY_S(lane.staging, RawBuffer::create_mapped(context_, gpu::kPieceBytes, 0));
    auto made = std::make_unique<Commands>(context_, Queue::streams);
    INFER_CHECK(made->create());
    lane.commands = std::move(made);
  }
  INFER_CHECK(lane.commands->wait());
  std::memcpy(lane.staging->data(), piece.data, static_cast<size_t>(piece.bytes));
  INFER_CHECK(lane.commands->begin(true));
  wait_for_areas(*lane.commands);
  record_copy(*lane.commands, piece, {lane.staging->handle(), 0}, area);
  wait_for_areas(*lane.commands);
  record_repack(*lane.commands, piece, area);
  INFER_CHECK(lane.commands->end());
  return lane.commands->submit();
}

}  // namespace infer::vulkan
