// How weights get from the host's layout to that of the kernels, as tables for repack.cu.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/cuda/repack.h"
#include "engine/backend/device.h"

namespace infer::cuda {

/// The tables of a type for one layout of the host. They are found by packing: what it makes of
/// cells that number their bits says where each bit goes. So they hold for any type that it packs.
struct RepackTables {
  std::vector<CellWord> cells;
  std::vector<PackedWord> words;
  std::vector<PackedTerm> terms;
  int64_t host_blocks = 1;       ///< of a cell's row
  int64_t host_block_bytes = 0;  ///< of a group of rows

  /// Null if packing does more than to move and flip bits, or the host's layout is not one of
  /// words.
  static std::unique_ptr<RepackTables> make(DType type, const HostLayout& from);
  /// Of all three, each a multiple of 16.
  int64_t bytes() const;
};

/// The tables that were asked for. Thread-safe.
class Repacking {
 public:
  /// Null as above. Valid as long as this is.
  const RepackTables* find(DType type, const HostLayout& from);

 private:
  std::mutex mutex_;
  std::map<std::pair<DType, int64_t>, std::unique_ptr<RepackTables>> found_;  ///< also by rows
};

}  // namespace infer::cuda
