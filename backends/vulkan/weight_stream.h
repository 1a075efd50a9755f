// Weights on their way from the host's memory: a queue of their own copies them to the device,
// piece by piece, and repacks them there (repack.comp) while the other computes. It copies from the
// host's memory as it is where the driver imports it; what it does not import the processor copies
// first, to memory that the driver shares.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "backends/gpu/repacking.h"
#include "backends/vulkan/pipelines.h"
#include "backends/vulkan/transfer.h"
#include "engine/backend/device.h"

namespace infer::vulkan {

/// Memory of the host that queues read as it is, as far as the driver allows it.
class HostMemory {
 public:
  HostMemory(Context& context, std::span<const std::span<const std::byte>> memory);

  /// Where these bytes are, at most gpu::kPieceBytes; without a buffer if in none.
  Place place_of(const std::byte* data, int64_t bytes) const;

 private:
  /// Chunks overlap, so that each piece lies in one.
  struct Chunk {
    const std::byte* begin;
    std::unique_ptr<RawBuffer> buffer;
  };
  std::vector<Chunk> chunks_;
};

class VulkanWeightStream final : public WeightStream {
 public:
  /// Whether a weight that lies so can be brought.
  static bool takes(const TensorDesc& desc, const HostLayout& layout, gpu::Repacking& repacking,
                    const PhysicalDevice& device);
  /// Device::stream_bytes(), of weights that it takes.
  static int64_t work_bytes(std::span<const StreamedWeight> weights, gpu::Repacking& repacking);

  /// Device::open_stream(). `work`: its place and its address. `repacking` outlives the stream.
  static Result<std::unique_ptr<VulkanWeightStream>> create(
      Context& context, Pipelines& pipelines, Transfer& transfer, gpu::Repacking& repacking,
      std::span<const StreamedWeight> weights, std::span<const std::span<const std::byte>> host,
      const Place& work, VkDeviceAddress address);
  ~VulkanWeightStream() override;

  Status bring(std::span<const StreamedWeight> weights, int place) override;
  Status await(int place) override;

 private:
  VulkanWeightStream(Context& context, Pipelines& pipelines, gpu::Repacking& repacking,
                     std::span<const std::span<const std::byte>> host, const Place& work,
                     VkDeviceAddress address)
      : context_(context),
        pipelines_(pipelines),
        repacking_(repacking),
        host_(context, host),
        work_(work),
        address_(address) {}

  /// Pieces of the work space that are copied to in turns.
  static constexpr size_t kAreas = 2;

  /// Type, shape and rows of the host's groups.
  using Kind = std::tuple<DType, std::array<int64_t, kMaxDims>, int64_t>;
  struct Push {
    VkDeviceAddress shape, from, to;
    uint32_t first_group, unused;
  };
  struct Piece {
    VkPipeline pipeline;
    const std::byte* data;
    int64_t bytes;
    int64_t before;  ///< bytes of the weight
    Push push;       ///< all but `from`
    uint32_t row_blocks, groups;
  };
  /// What copies pieces that the driver does not import.
  struct Lane {
    std::unique_ptr<RawBuffer> staging;
    std::unique_ptr<Commands> commands;
  };

  static Kind kind_of(const StreamedWeight& weight);
  Status upload_tables(std::span<const StreamedWeight> weights, Transfer& transfer,
                       const Place& work, VkDeviceAddress address);
  void add_pieces(const StreamedWeight& weight, std::vector<Piece>& pieces) const;
  void record_copy(const Commands& commands, const Piece& piece, const Place& from,
                   size_t area) const;
  void record_repack(const Commands& commands, const Piece& piece, size_t area) const;
  void wait_for_areas(const Commands& commands) const;
  Status bring_direct(std::span<const Piece> pieces, Commands& commands) const;
  Status bring_staged(const Piece& piece);

  Context& context_;
  Pipelines& pipelines_;
  gpu::Repacking& repacking_;
  HostMemory host_;
  Place work_;  ///< [kAreas] of gpu::kPieceBytes, then tables
  VkDeviceAddress address_;
  struct KindOnDevice {
    VkDeviceAddress shape;  ///< gpu::RepackShape
    VkPipeline pipeline;
  };
  std::map<Kind, KindOnDevice> kinds_;
  std::unique_ptr<Marks> computed_;  ///< what was submitted before the pieces
  std::unique_ptr<Marks> arrived_[kPlaces];
  std::unique_ptr<Commands> direct_[kPlaces];
  Lane lanes_[kAreas];
  size_t next_ = 0;  ///< lane and area
};

}  // namespace infer::vulkan
