// Integers of 4 or 8 bits as compressed-tensors packs them ("pack-quantized", by llm-compressor):
//   value[n][k] = scale[n][group of k]·(code[n][k] − zero[n][group of k])
//   W_packed      i32 [N][K·bits/32], codes from the lowest bits up
//   W_scale       f16, bf16 or f32 [N][groups]
//   W_shape       i64 [2]: N, K
//   W_zero_point  i32 [N·bits/32][groups], the rows packed; without it zeros are 2^(bits−1)
//   W_g_idx       i32 [K], the group of each column: expected in order
#include <algorithm>
#include <optional>

#include "engine/core/checked.h"
#include "engine/quant/fit.h"
#include "engine/quant/q4_0.h"
#include "engine/quant/q5_0.h"
#include "engine/quant/q8_0.h"
#include "formats/safetensors/scale_grid.h"

namespace infer::safetensors {
namespace {

constexpr int64_t kPackedBlock = 32;

class PackedRows final : public AssembledTensor {
 public:
  PackedRows(int bits, MatrixShape shape, const StoredTensor& codes, ScaleGrid scales,
             const StoredTensor* zeros, DType made)
      : bits_(bits),
        each_(32 / bits),
        shape_(shape),
        codes_(codes),
        scales_(std::move(scales)),
        zeros_(zeros == nullptr ? std::nullopt : std::optional(*zeros)),
        made_(made) {}

  Status read(int64_t first, int64_t count, std::byte* out) const override {
    const int64_t unit = dtype_info(made_).block_elements;
    const int64_t row_units = shape_.columns / unit;
    Row row;
    while (count > 0) {
      const int64_t at = first / row_units;
      if (at != row.number) INFER_CHECK(fill(at, row));
      const int64_t take = std::min(count, (at + 1) * row_units - first);
      for (int64_t u = 0; u < take; ++u) {
        const int64_t column = (first + u - at * row_units) * unit;
        const auto group = static_cast<size_t>(column / scales_.columns_each());
        make(row.codes.data() + column, row.scales[group], row.zeros[group], out);
        out += dtype_info(made_).block_bytes;
      }
      first += take;
      count -= take;
    }
    return {};
  }

 private:
  struct Row {
    int64_t number = -1;
    std::vector<uint8_t> codes;
    std::vector<float> scales;
    std::vector<int> zeros;  ///< of each group
  };

  int number_in(uint32_t packed, int64_t place) const {
    return static_cast<int>(packed >> (bits_ * static_cast<int>(place)) & ((1u << bits_) - 1));
  }

  Status fill(int64_t n, Row& row) const {
    const int64_t numbers = div_ceil<int64_t>(shape_.columns, each_);
    std::vector<uint32_t> packed(static_cast<size_t>(numbers));
    INFER_CHECK(read_part(codes_, n * numbers, numbers, packed.data()));
    row.number = n;
    row.codes.resize(static_cast<size_t>(shape_.columns));
    for (int64_t k = 0; k < shape_.columns; ++k) {
      row.codes[static_cast<size_t>(k)] =
          static_cast<uint8_t>(number_in(packed[static_cast<size_t>(k / each_)], k % each_));
    }
    INFER_CHECK(scales_.read_line(scales_.line_of(n), row.scales));
    row.zeros.assign(row.scales.size(), 1 << (bits_ - 1));
    if (!zeros_) return {};
    const auto groups = static_cast<int64_t>(row.zeros.size());
    packed.resize(row.zeros.size());
    INFER_CHECK(read_part(*zeros_, n / each_ * groups, groups, packed.data()));
    for (size_t g = 0; g < row.zeros.size(); ++g) row.zeros[g] = number_in(packed[g], n % each_);
    return {};
  }

  void make(const uint8_t* codes, float scale, int zero, std::byte* out) const {
    const auto store = [&](const auto& block) { std::memcpy(out, &block, sizeof(block)); };
    switch (made_) {
      case DType::q4_0: {
        Codec<DType::q4_0>::Block block{f32_to_f16_finite(scale), {}};
        for (int j = 0; j < 16; ++j) {
          block.qs[j] = static_cast<uint8_t>(codes[j] | codes[j + 16] << 4);
        }
        return store(block);
      }
      case DType::q5_0: {
        Codec<DType::q5_0>::Block block{};
        block.d = f32_to_f16_finite(scale);
        uint32_t high = 0;
        for (int j = 0; j < 16; ++j) {
          const auto lower = static_cast<uint32_t>(codes[j] - zero + 16);
          const auto upper = static_cast<uint32_t>(codes[j + 16] - zero + 16);
          block.qs[j] = static_cast<uint8_t>((lower & 15) | (upper & 15) << 4);
          high |= lower >> 4 << j | upper >> 4 << (j + 16);
        }
        std::memcpy(block.qh, &high, sizeof(high));
        return store(block);
      }
      case DType::q8_0: {
        Codec<DType::q8_0>::Block block{};
        block.d = f32_to_f16_finite(scale);
        for (int j = 0; j < kPackedBlock; ++j) block.qs[j] = static_cast<int8_t>(codes[j] - zero);
        return store(block);
      }
      default: return store(scale * static_cast<float>(codes[0] - zero));
    }
  }

  int bits_;
  int64_t each_;  ///< codes in a number
  MatrixShape shape_;
  StoredTensor codes_;
  ScaleGrid scales_;
  std::optional<StoredTensor> zeros_;
  DType made_;
};

/// N and K.
Result<MatrixShape> read_shape(PartTable& parts, const std::string& name) {
  INFER_TRY(const StoredTensor* stored, parts.take(name + "_shape", {DType::i64, DType::i32}, 2));
  std::vector<int64_t> sides;
  if (stored->entry.desc.type == DType::i64) {
    INFER_TRY(sides, read_all<int64_t>(*stored));
  } else {
    INFER_TRY(const std::vector<int32_t> narrow, read_all<int32_t>(*stored));
    sides.assign(narrow.begin(), narrow.end());
  }
  for (const int64_t side : sides) {
    if (side > 0 && side <= int64_t{1} << 40) continue;
    return tl::unexpected(
        bad_tensor(*stored, fmt::format("expected rows and columns, found {}", side)));
  }
  return MatrixShape{sides[1], sides[0], 1};
}

Status check_groups(const StoredTensor& index, const ScaleGrid& grid) {
  INFER_TRY_S(const std::vector<int32_t> groups, read_all<int32_t>(index));
  for (size_t k = 0; k < groups.size(); ++k) {
    if (groups[k] == static_cast<int64_t>(k) / grid.columns_each()) continue;
    return error(StatusCode::unsupported,
                 "{}: tensor '{}': groups whose columns are not in order are not supported",
                 index.file->path(), printable(index.entry.name));
  }
  return {};
}

Result<Assembled> assemble(PartTable& parts, size_t place, const std::string& name) {
  const StoredTensor& packed = parts.tensors()[place];
  INFER_TRY(const StoredTensor* codes, parts.take(packed.entry.name, {DType::i32}, 0));
  INFER_TRY(const MatrixShape shape, read_shape(parts, name));
  const TensorDesc& found = codes->entry.desc;
  int bits = 0;
  for (const int each : {4, 8}) {
    if (found.shape[0] == div_ceil<int64_t>(shape.columns, 32 / each)) bits = each;
  }
  if (bits == 0 || found.shape[1] != shape.rows || found.shape[2] != 1 || found.shape[3] != 1) {
    return tl::unexpected(
        bad_tensor(packed, fmt::format("expected codes of 4 or 8 bits for {} rows of {} columns, "
                                       "found {}",
                                       shape.rows, shape.columns, shape_string(found))));
  }
  INFER_TRY(const StoredTensor* scales,
            parts.take(name + "_scale", {DType::f16, DType::bf16, DType::f32}, 0));
  INFER_TRY(ScaleGrid grid, ScaleGrid::create(*scales, shape, 0, 1));
  const StoredTensor* zeros = parts.take(name + "_zero_point");
  if (zeros != nullptr) {
    INFER_TRY(zeros, parts.take(name + "_zero_point", {DType::i32},
                                div_ceil<int64_t>(shape.rows, 32 / bits) * grid.across()));
  }
  if (parts.take(name + "_g_idx") != nullptr) {
    INFER_TRY(const StoredTensor* index, parts.take(name + "_g_idx", {DType::i32}, shape.columns));
    INFER_CHECK_R(check_groups(*index, grid));
  }
  const bool whole = shape.columns % kPackedBlock == 0 &&
                     (grid.across() == 1 || grid.columns_each() % kPackedBlock == 0) &&
                     (bits == 4 || zeros == nullptr);
  const DType made = !whole             ? DType::f32
                     : bits == 8        ? DType::q8_0
                     : zeros == nullptr ? DType::q4_0
                                        : DType::q5_0;
  INFER_TRY(const TensorDesc desc, make_tensor(made, std::array{shape.columns, shape.rows}));
  auto tensor = std::make_unique<PackedRows>(bits, shape, *codes, std::move(grid), zeros, made);
  return Assembled{name, desc, place, std::move(tensor)};
}

}  // namespace

Result<std::vector<Assembled>> assemble_packed_rows(PartTable& parts) {
  std::vector<Assembled> all;
  for (size_t place = 0; place < parts.tensors().size(); ++place) {
    std::string name;
    if (parts.is_taken(place)) continue;
    if (!PartTable::ends(parts.tensors()[place].entry.name, "_packed", name)) continue;
    INFER_TRY(Assembled made, assemble(parts, place, name));
    all.push_back(std::move(made));
  }
  return all;
}

}  // namespace infer::safetensors
