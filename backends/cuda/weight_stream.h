// Weights on their way from the host's memory: two streams take pieces in turns, so that one copies
// while the other repacks (repack.cu).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/memory.h"
#include "backends/cuda/modules.h"
#include "backends/gpu/repacking.h"
#include "engine/backend/device.h"

namespace infer::cuda {

/// Memory of the host, whole pages, that the device copies from without the processor if the driver
/// allows it.
class RegisteredMemory {
 public:
  RegisteredMemory(Context& context, uintptr_t begin, uintptr_t end);
  ~RegisteredMemory();
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

 private:
  Context& context_;
  void* begin_ = nullptr;  ///< null: it is not
};

class CudaWeightStream final : public WeightStream {
 public:
  /// Whether a weight that lies so can be brought.
  static bool takes(const TensorDesc& desc, const HostLayout& layout, gpu::Repacking& repacking);
  /// Device::stream_bytes(), of weights that it takes.
  static int64_t work_bytes(std::span<const StreamedWeight> weights, gpu::Repacking& repacking);

  /// Device::open_stream(). `repacking` outlives it.
  static Result<std::unique_ptr<CudaWeightStream>> create(
      Context& context, Modules& modules, gpu::Repacking& repacking,
      std::span<const StreamedWeight> weights, std::span<const std::span<const std::byte>> host,
      uint64_t work);
  ~CudaWeightStream() override;

  Status bring(std::span<const StreamedWeight> weights, int place) override;
  Status await(int place) override;

 private:
  CudaWeightStream(Context& context, gpu::Repacking& repacking)
      : context_(context), repacking_(repacking), computed_(context) {}

  /// A stream that copies a piece, then repacks it.
  struct Lane {
    explicit Lane(Context& context) : arrived{Event(context), Event(context)} {}
    CUstream stream = nullptr;
    uint64_t piece = 0;  ///< kPieceBytes of the device's memory
    Event arrived[kPlaces];
  };
  /// Addresses of gpu::RepackTables on the device.
  struct OnDevice {
    uint64_t cells, words, terms;
  };

  Status upload_tables(std::span<const StreamedWeight> weights, uint64_t to);
  Status bring(const StreamedWeight& weight);
  Status repack(const Lane& lane, const gpu::RepackParams& params, int64_t groups);

  Context& context_;
  gpu::Repacking& repacking_;
  CUfunction kernel_ = nullptr;
  std::map<const gpu::RepackTables*, OnDevice> tables_;
  std::vector<std::unique_ptr<RegisteredMemory>> registered_;
  Event computed_;  ///< what was submitted before the copies
  std::vector<std::unique_ptr<Lane>> lanes_;
  size_t next_ = 0;  ///< lane
};

}  // namespace infer::cuda
