// A heap of virtual memory; see heap.h.
#pragma once

#include <map>
#include <mutex>

#include "backends/cuda/context.h"
#include "backends/cuda/heap.h"

namespace infer::cuda {

class VirtualHeap final : public Heap {
 public:
  static Result<std::unique_ptr<Heap>> create(Context& context);
  ~VirtualHeap() override;
  VirtualHeap(const VirtualHeap&) = delete;
  VirtualHeap& operator=(const VirtualHeap&) = delete;

  Result<uint64_t> allocate(int64_t bytes) override;
  void release(uint64_t address) override;
  int64_t held() const override;
  int64_t taken_by(std::span<const int64_t> parts) const override;
  int64_t unused() const override;

 private:
  explicit VirtualHeap(Context& context) : context_(context) {}

  /// Physical memory, mapped as a whole: bytes of the range from its key on.
  struct Chunk {
    int64_t bytes = 0;
    CUmemGenericAllocationHandle handle = 0;
    int64_t users = 0;  ///< parts that lie in it
  };
  using Chunks = std::map<int64_t, Chunk>;

  /// The chunk that holds a byte; end(): it is not mapped.
  Chunks::iterator chunk_at(int64_t offset);
  /// Maps what is not mapped yet of [begin, end). On failure what was mapped for it is given back.
  Status map(int64_t begin, int64_t end);
  Status map_chunk(int64_t begin, int64_t bytes);
  void unmap(Chunks::iterator chunk);
  /// Lets devices read and write what is mapped there: this one and those that reach it.
  Status set_access(int64_t begin, int64_t bytes);
  /// Calls use(chunk) for those of a part; unmapping that chunk is allowed.
  template <typename Use>
  void for_chunks(int64_t begin, int64_t end, const Use& use);

  Context& context_;
  CUdeviceptr base_ = 0;
  int64_t range_ = 0;    ///< bytes of addresses
  int64_t granule_ = 0;  ///< bytes
  mutable std::mutex mutex_;
  std::map<int64_t, int64_t> gaps_;   ///< parts that are free: offset → bytes
  std::map<int64_t, int64_t> parts_;  ///< parts in use
  Chunks chunks_;                     ///< by offset
};

}  // namespace infer::cuda
