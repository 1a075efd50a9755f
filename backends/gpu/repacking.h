// How weights get from the host's layout to that of the kernels (repack.h): the tables, and the
// pieces that are brought at a time.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "backends/gpu/repack.h"
#include "backends/gpu/weight_layout.h"
#include "engine/backend/device.h"

namespace infer::gpu {

/// The tables of a type for one layout of the host. They are found by packing: what it makes of
/// cells that number their bits says where each bit goes. So they hold for any type that it packs.
struct RepackTables {
  std::vector<CellWord> cells;
  std::vector<PackedWord> words;
  std::vector<PackedTerm> terms;
  int64_t host_blocks = 1;       ///< of a cell's row
  int64_t host_block_bytes = 0;  ///< of a group of rows

  /// Of all three, each a multiple of 16.
  int64_t bytes() const;
};

/// The tables that were asked for. Thread-safe.
class Repacking {
 public:
  using LayoutOf = WeightLayout (*)(const TensorDesc& desc);

  /// `layout`: that of the kernels.
  explicit Repacking(LayoutOf layout) : layout_(layout) {}

  WeightLayout layout(const TensorDesc& desc) const { return layout_(desc); }
  /// Null if packing does more than to move and flip bits, or the host's layout is not one of
  /// words. Valid as long as this is.
  const RepackTables* find(DType type, const HostLayout& from);
  /// The same of all weights, which have tables, once each.
  std::vector<const RepackTables*> find_all(std::span<const StreamedWeight> weights);
  /// Null also if a weight has no elements or no whole blocks, or a step of it (RepackSteps) is
  /// more than a piece.
  const RepackTables* find(const TensorDesc& desc, const HostLayout& from);

 private:
  LayoutOf layout_;
  std::mutex mutex_;
  std::map<std::pair<DType, int64_t>, std::unique_ptr<RepackTables>> found_;  ///< also by rows
};

/// What is brought of a weight at a time: so much that the bus is busy, and little beside a layer.
inline constexpr int64_t kPieceBytes = int64_t{16} << 20;

/// A weight in steps of rows that both layouts have in whole groups, counted over all matrices.
class RepackSteps {
 public:
  RepackSteps(const WeightLayout& layout, const HostLayout& host);

  int64_t all() const { return all_; }
  /// Byte of the host's weight at which a step begins.
  int64_t byte(int64_t step) const;
  /// The group of the packed weight.
  int64_t group(int64_t step) const;
  /// The end of a piece that begins there: whole matrices if they are small, else within one.
  int64_t end_of_piece(int64_t begin) const;
  /// Where the tables are is left open.
  RepackShape shape(const WeightLayout& layout, const HostLayout& host,
                    const RepackTables& tables) const;

 private:
  int64_t matrix_bytes() const { return host_groups_ * group_bytes_; }

  int64_t common_;
  int64_t packed_groups_, packed_step_;
  int64_t host_groups_, host_step_;
  int64_t group_bytes_;
  int64_t of_matrix_;
  int64_t all_;
};

}  // namespace infer::gpu
