#include "backends/gpu/repacking.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <utility>

#include "engine/core/checked.h"

namespace infer::gpu {
namespace {

using Bytes = std::vector<std::byte>;

static_assert(kRepackPlanes == kMaxPlanes);

/// What 16 bits can number the words of.
constexpr size_t kMostCellBytes = size_t{4} << 16;
/// Groups of threads of a dispatch along y.
constexpr int64_t kMostGroups = 65535;

bool bit_of(const Bytes& bytes, size_t bit) {
  return std::to_integer<int>(bytes[bit / 8] >> static_cast<int>(bit % 8) & std::byte{1}) != 0;
}

/// One cell of a type as the file has it, [row][block], and as the kernels have it, plane by plane.
class Cell {
 public:
  Cell(DType type, Repacking::LayoutOf layout) : layout_(layout(tensor(type, kElements, 1))) {
    for (size_t p = 0; p < layout_.planes; ++p)
      starts_[p + 1] = starts_[p] + layout_.plane_bytes[p];
  }

  const WeightLayout& layout() const { return layout_; }
  size_t stored_bytes() const {
    return static_cast<size_t>(layout_.together * layout_.block_bytes);
  }
  size_t packed_bytes() const { return static_cast<size_t>(starts_[layout_.planes]); }
  int64_t start(size_t plane) const { return starts_[plane]; }

  Bytes pack(const Bytes& stored) const {
    std::array<int64_t, kMaxPlanes> starts{};
    std::copy_n(starts_.begin(), layout_.planes, starts.begin());
    Bytes packed(packed_bytes());
    layout_.pack(layout_, stored.data(), layout_.block_bytes, layout_.together, 1, packed.data(),
                 starts);
    return packed;
  }

 private:
  static constexpr int64_t kElements = 256;  // a whole number of blocks of every type
  WeightLayout layout_;
  std::array<int64_t, kMaxPlanes + 1> starts_{};
};

/// Where the bits of a packed cell come from.
struct BitMap {
  std::vector<int32_t> from;  ///< by packed bit: the stored bit; −1: none
  Bytes flip;                 ///< what a cell of zeros becomes

  Bytes apply(const Bytes& stored) const {
    Bytes packed = flip;
    for (size_t o = 0; o < from.size(); ++o) {
      if (from[o] < 0 || !bit_of(stored, static_cast<size_t>(from[o]))) continue;
      packed[o / 8] ^= std::byte{1} << static_cast<int>(o % 8);
    }
    return packed;
  }
};

/// Packs cells that hold bit k of the number of each stored bit, counted from 1: so each packed bit
/// says, bit by bit, the number of the one that it is.
BitMap trace(const Cell& cell) {
  const size_t bits = cell.stored_bytes() * 8;
  BitMap map{std::vector<int32_t>(cell.packed_bytes() * 8, -1),
             cell.pack(Bytes(cell.stored_bytes()))};
  std::vector<uint32_t> numbers(map.from.size(), 0);
  for (int k = 0; k < static_cast<int>(std::bit_width(bits)); ++k) {
    Bytes stored(cell.stored_bytes());
    for (size_t i = 0; i < bits; ++i) {
      if (((i + 1) >> k & 1) != 0) stored[i / 8] |= std::byte{1} << static_cast<int>(i % 8);
    }
    const Bytes packed = cell.pack(stored);
    for (size_t o = 0; o < numbers.size(); ++o) {
      if (bit_of(packed, o) != bit_of(map.flip, o)) numbers[o] |= 1u << k;
    }
  }
  for (size_t o = 0; o < numbers.size(); ++o) {
    if (numbers[o] <= bits) map.from[o] = static_cast<int32_t>(numbers[o]) - 1;
  }
  return map;
}

/// Whether packing does what the map says, with other numbers too.
bool holds(const BitMap& map, const Cell& cell) {
  std::minstd_rand random(1);
  for (int round = 0; round < 8; ++round) {
    Bytes stored(cell.stored_bytes());
    for (std::byte& byte : stored) byte = static_cast<std::byte>(random() >> 8);
    if (map.apply(stored) != cell.pack(stored)) return false;
  }
  return true;
}

/// The host's fields of a cell's row. Weights as in the file are one field of words.
struct HostFields {
  int64_t rows;         ///< of a group
  int64_t block_bytes;  ///< of a row
  int64_t blocks;       ///< of a cell's row
  std::vector<HostLayout::Field> fields;
};

std::optional<HostFields> host_fields(const Cell& cell, DType type, const HostLayout& from) {
  const int64_t cell_bytes = cell.layout().block_bytes;
  HostFields host{from.rows, dtype_info(type).block_bytes, 1, from.fields};
  if (from.rows == 1) {
    if (cell_bytes % 4 != 0) return std::nullopt;
    host.block_bytes = cell_bytes;
    host.fields = {{4, static_cast<int32_t>(cell_bytes / 4)}};
  }
  host.blocks = cell_bytes / host.block_bytes;
  const int64_t cell_rows = cell.layout().together;
  if (from.rows % cell_rows != 0 && cell_rows % from.rows != 0) return std::nullopt;
  int64_t bytes = 0;
  for (const HostLayout::Field& field : host.fields) {
    if (std::min(from.rows, cell_rows) * field.unit % 4 != 0) return std::nullopt;
    if (from.rows * bytes % 4 != 0) return std::nullopt;
    bytes += int64_t{field.unit} * field.count;
  }
  return bytes == host.block_bytes && from.rows * bytes % 4 == 0 ? std::optional(host)
                                                                 : std::nullopt;
}

/// The words of a cell, field by field: [block][field][unit][row]. And by stored byte, its place.
void place_cell(const HostFields& host, int64_t cell_rows, RepackTables& tables,
                std::vector<size_t>& places) {
  const int64_t together = std::min(host.rows, cell_rows);
  const int64_t row_bytes = host.blocks * host.block_bytes;
  places.resize(static_cast<size_t>(cell_rows * row_bytes));
  int64_t at = 0;  // in the cell
  for (int64_t stored = 0; stored < host.blocks; ++stored) {
    int64_t before = 0;  // bytes of a row's block
    for (const auto& [unit, count] : host.fields) {
      for (int32_t u = 0; u < count; ++u, before += unit) {
        for (int64_t row = 0; row < cell_rows; ++row) {
          for (int64_t i = 0; i < unit; ++i) {
            places[static_cast<size_t>(row * row_bytes + stored * host.block_bytes + before + i)] =
                static_cast<size_t>(at + row * unit + i);
          }
        }
        for (int64_t b = 0; b < cell_rows * unit; b += 4) {
          const int64_t in_group = b % (together * unit);
          tables.cells.push_back(
              {static_cast<uint32_t>((stored * host.block_bytes + before) * host.rows + in_group),
               static_cast<uint16_t>(unit), static_cast<uint8_t>(b / (together * unit)),
               static_cast<uint8_t>(stored)});
        }
        at += cell_rows * unit;
      }
    }
  }
}

/// The words of each plane as turned and masked words of the cell.
void place_words(const Cell& cell, const BitMap& map, const std::vector<size_t>& places,
                 RepackTables& tables) {
  for (size_t p = 0; p < cell.layout().planes; ++p) {
    for (int64_t at = 0; at < cell.layout().plane_bytes[p]; at += 4) {
      const auto begin = static_cast<size_t>(cell.start(p) + at);
      PackedWord word{static_cast<uint32_t>(tables.terms.size()), 0, static_cast<uint16_t>(p),
                      static_cast<uint32_t>(at), 0};
      std::memcpy(&word.flip, &map.flip[begin], sizeof(word.flip));
      std::map<std::pair<size_t, size_t>, uint32_t> terms;  // word and turn: mask
      for (size_t bit = 0; bit < 32; ++bit) {
        const int32_t from = map.from[begin * 8 + bit];
        if (from < 0) continue;
        const size_t source =
            places[static_cast<size_t>(from) / 8] * 8 + static_cast<size_t>(from) % 8;
        terms[{source / 32, (bit + 32 - source % 32) % 32}] |= 1u << bit;
      }
      for (const auto& [term, mask] : terms) {
        tables.terms.push_back(
            {static_cast<uint16_t>(term.first), static_cast<uint16_t>(term.second), mask});
      }
      word.terms = static_cast<uint16_t>(terms.size());
      tables.words.push_back(word);
    }
  }
}

std::unique_ptr<RepackTables> make_tables(DType type, Repacking::LayoutOf layout_of,
                                          const HostLayout& from) {
  const Cell cell(type, layout_of);
  const WeightLayout& layout = cell.layout();
  if (layout.together == 1 || cell.stored_bytes() > kMostCellBytes) return nullptr;
  for (size_t p = 0; p < layout.planes; ++p) {
    if (layout.plane_bytes[p] % 4 != 0) return nullptr;
  }
  const std::optional<HostFields> host = host_fields(cell, type, from);
  if (!host) return nullptr;
  const BitMap map = trace(cell);
  if (!holds(map, cell)) return nullptr;
  auto tables = std::make_unique<RepackTables>();
  tables->host_blocks = host->blocks;
  tables->host_block_bytes = host->block_bytes * host->rows;
  std::vector<size_t> places;
  place_cell(*host, layout.together, *tables, places);
  place_words(cell, map, places, *tables);
  return tables;
}

/// Rows that both layouts have in whole groups.
int64_t common_rows(const WeightLayout& layout, const HostLayout& host) {
  return std::max(layout.together, host.rows);  // powers of two
}

}  // namespace

int64_t RepackTables::bytes() const {
  const auto of = [](const auto& all) {
    return round_up<int64_t>(std::ssize(all) * int64_t{sizeof(all[0])}, 16);
  };
  return of(cells) + of(words) + of(terms);
}

const RepackTables* Repacking::find(DType type, const HostLayout& from) {
  const std::lock_guard lock(mutex_);
  const auto [it, made] = found_.try_emplace({type, from.rows});
  if (made) it->second = make_tables(type, layout_, from);
  return it->second.get();
}

const RepackTables* Repacking::find(const TensorDesc& desc, const HostLayout& from) {
  if (!desc.contiguous() || desc.elements() == 0) return nullptr;
  const RepackTables* tables = find(desc.type, from);
  if (tables == nullptr) return nullptr;
  if (from.rows == 1 && desc.row_bytes() % tables->host_block_bytes != 0) return nullptr;
  const bool fits = desc.row_bytes() * common_rows(layout_(desc), from) <= kPieceBytes;
  return fits ? tables : nullptr;
}

std::vector<const RepackTables*> Repacking::find_all(std::span<const StreamedWeight> weights) {
  std::vector<const RepackTables*> all;
  for (const StreamedWeight& weight : weights) {
    const RepackTables* tables = find(weight.desc.type, weight.layout);
    if (std::ranges::find(all, tables) == all.end()) all.push_back(tables);
  }
  return all;
}

RepackSteps::RepackSteps(const WeightLayout& layout, const HostLayout& host)
    : common_(common_rows(layout, host)),
      packed_groups_(layout.matrix_groups),
      packed_step_(common_ / layout.together),
      host_groups_(div_ceil(layout.desc.shape[1], host.rows)),
      host_step_(common_ / host.rows),
      group_bytes_(layout.row_bytes * host.rows),
      of_matrix_(div_ceil(layout.desc.shape[1], common_)),
      all_(of_matrix_ * layout.desc.shape[2] * layout.desc.shape[3]) {}

int64_t RepackSteps::byte(int64_t step) const {
  const int64_t group = std::min(step % of_matrix_ * host_step_, host_groups_);
  return step / of_matrix_ * matrix_bytes() + group * group_bytes_;
}

int64_t RepackSteps::group(int64_t step) const {
  return step / of_matrix_ * packed_groups_ +
         std::min(step % of_matrix_ * packed_step_, packed_groups_);
}

int64_t RepackSteps::end_of_piece(int64_t begin) const {
  const auto most = [](int64_t bytes, int64_t groups) {
    return std::max<int64_t>(std::min(kPieceBytes / bytes, kMostGroups / groups), 1);
  };
  if (matrix_bytes() <= kPieceBytes && packed_groups_ <= kMostGroups) {
    return std::min(begin + most(matrix_bytes(), packed_groups_) * of_matrix_, all_);
  }
  const int64_t end = (begin / of_matrix_ + 1) * of_matrix_;
  return std::min(begin + most(host_step_ * group_bytes_, packed_step_), end);
}

RepackShape RepackSteps::shape(const WeightLayout& layout, const HostLayout& host,
                               const RepackTables& tables) const {
  RepackShape shape{};
  shape.matrix_bytes = static_cast<uint64_t>(matrix_bytes());
  shape.group_bytes = static_cast<uint64_t>(group_bytes_);
  for (size_t p = 0; p < layout.planes; ++p) {
    shape.offsets[p] = static_cast<uint64_t>(layout.offsets[p]);
    shape.plane_bytes[p] = static_cast<uint32_t>(layout.plane_bytes[p]);
  }
  shape.cell_words = static_cast<uint32_t>(tables.cells.size());
  shape.packed_words = static_cast<uint32_t>(tables.words.size());
  shape.matrix_groups = static_cast<uint32_t>(layout.matrix_groups);
  shape.cell_rows = static_cast<uint32_t>(layout.together);
  shape.row_blocks = static_cast<uint32_t>(layout.row_blocks);
  shape.host_rows = static_cast<uint32_t>(host.rows);
  shape.host_groups = static_cast<uint32_t>(host_groups_);
  shape.host_block_bytes = static_cast<uint32_t>(tables.host_block_bytes);
  shape.host_blocks = static_cast<uint32_t>(group_bytes_ / tables.host_block_bytes);
  shape.stored_blocks = static_cast<uint32_t>(tables.host_blocks);
  return shape;
}

}  // namespace infer::gpu
