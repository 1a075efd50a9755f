// Weights on their way from the host's memory: a queue of their own repacks them (repack.comp)
// while the other computes. The shader reads the host's memory across the bus where the driver
// imports it; what it does not import is copied to memory that the driver shares, piece by piece.
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

/// Memory of the host that shaders read as it is, as far as the driver allows it.
class HostMemory {
 public:
  HostMemory(Context& context, std::span<const std::span<const std::byte>> memory);

  /// The address of these bytes, at most gpu::kPieceBytes; 0: they have none, or it is not one of
  /// words.
  VkDeviceAddress address_of(const std::byte* data, int64_t bytes) const;

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
                     std::span<const std::span<const std::byte>> host)
      : context_(context), pipelines_(pipelines), repacking_(repacking), host_(context, host) {}

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
  void record(const Commands& commands, const Piece& piece, VkDeviceAddress from) const;
  Status bring_direct(std::span<const Piece> pieces, Commands& commands) const;
  Status bring_staged(const Piece& piece);

  Context& context_;
  Pipelines& pipelines_;
  gpu::Repacking& repacking_;
  HostMemory host_;
  struct KindOnDevice {
    VkDeviceAddress shape;  ///< gpu::RepackShape
    VkPipeline pipeline;
  };
  std::map<Kind, KindOnDevice> kinds_;
  std::unique_ptr<Marks> computed_;  ///< what was submitted before the pieces
  std::unique_ptr<Marks> arrived_[kPlaces];
  std::unique_ptr<Commands> direct_[kPlaces];
  Lane lanes_[2];
  size_t next_ = 0;  ///< lane
};

}  // namespace infer::vulkan
