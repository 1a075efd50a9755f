// Weights on their way from the host's memory: two streams take pieces in turns, so that one copies
// while the other repacks (repack.cu).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "backends/cuda/memory.h"
#include "backends/cuda/modules.h"
#include "backends/cuda/pinned_memory.h"
#include "backends/gpu/repacking.h"
#include "engine/backend/device.h"

namespace infer::cuda {

class CudaWeightStream final : public WeightStream {
 public:
  /// Whether a weight that lies so can be brought.
  static bool takes(const TensorDesc& desc, const HostLayout& layout, gpu::Repacking& repacking);
  /// Device::stream_bytes(), of weights that it takes.
  static int64_t work_bytes(std::span<const StreamedWeight> weights, gpu::Repacking& repacking);

  /// Device::open_stream(). `repacking` outlives it.
  static Result<std::unique_ptr<CudaWeightStream>> create(Context& context, Modules& modules,
                                                          gpu::Repacking& repacking,
                                                          std::span<const StreamedWeight> weights,
                                                          uint64_t work);
  ~CudaWeightStream() override;

  Status bring(std::span<const StreamedWeight> weights, int place) override;
  Status await(int place) override;

 private:
  CudaWeightStream(Context& context, gpu::Repacking& repacking)
      : context_(context), repacking_(repacking), pinned_(context), computed_(context) {}

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
  /// Pins what was not brought before.
  void pin(std::span<const StreamedWeight> weights);
  Status copy(const Lane& lane, const std::byte* from, int64_t bytes);
  Status repack(const Lane& lane, const gpu::RepackParams& params, int64_t groups);

  Context& context_;
  gpu::Repacking& repacking_;
  CUfunction kernel_ = nullptr;
  std::map<const gpu::RepackTables*, OnDevice> tables_;
  PinnedMemory pinned_;  ///< what was brought
  std::set<const std::byte*> used_;
  Event computed_;  ///< what was submitted before the copies
  std::vector<std::unique_ptr<Lane>> lanes_;
  size_t next_ = 0;  ///< lane
};

}  // namespace infer::cuda
