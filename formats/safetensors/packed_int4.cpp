// Weights of 4 bits as GPTQ (Frantar et al. 2023) and AWQ (Lin et al. 2024) checkpoints keep them,
// with a scale and a zero point for every group of columns of a row:
//   value[n][k] = scales[group of k][n]·(code[k][n] − zero[group of k][n])
//             GPTQ                                   AWQ ("gemm")
//   qweight   i32 [K/8][N], 8 columns each           i32 [K][N/8], 8 rows each
//   qzeros    i32 [groups][N/8], 8 rows each         the same
//   scales    f16 [groups][N]                        the same
//   g_idx     i32 [K], the group of each column      –
// Eight codes of a number lie from its lowest bits up; AWQ's in the order of its rows 0 2 4 6 1 3 5
// 7. GPTQ's zeros are stored less one, but for "gptq_v2".
#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "engine/core/checked.h"
#include "engine/core/half.h"
#include "engine/quant/q4_0.h"
#include "engine/quant/q5_0.h"
#include "formats/safetensors/assembled.h"

namespace infer::safetensors {
namespace {

constexpr int64_t kBlock = 32;   ///< weights of a block of Q4_0 and Q5_0
constexpr uint32_t kMiddle = 8;  ///< the zero point of Q4_0

struct Format {
  bool awq = false;
  int zero_offset = 0;  ///< what is added to stored zero points

  /// Where what belongs to row n lies in the number that eight rows share.
  int shift(int64_t n) const {
    constexpr int kAwqPlace[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return 4 * (awq ? kAwqPlace[n % 8] : static_cast<int>(n % 8));
  }
  /// The zero point of row n.
  int zero(uint32_t number, int64_t n) const {
    return static_cast<int>(number >> shift(n) & 15) + zero_offset;
  }
};

struct Shape {
  int64_t k = 0, n = 0, groups = 0;
};

class PackedInt4Tensor final : public AssembledTensor {
 public:
  PackedInt4Tensor(Format format, Shape shape, const StoredTensor& codes,
                   const StoredTensor& scales, const StoredTensor& zeros,
                   std::vector<int32_t> order, std::vector<int32_t> groups, DType type)
      : format_(format),
        shape_(shape),
        codes_(codes),
        scales_(scales),
        zeros_(zeros),
        order_(std::move(order)),
        groups_(std::move(groups)),
        type_(type) {}

  Status read(int64_t first, int64_t count, std::byte* out) const override {
    // Eight rows share a number and are unpacked together.
    const int64_t blocks = shape_.k / kBlock;
    const int64_t bytes = dtype_info(type_).block_bytes;
    const int64_t most = std::clamp<int64_t>((int64_t{1} << 20) / shape_.k / 8 * 8, 8, 256);
    while (count > 0) {
      const int64_t row = first / blocks;
      const int64_t begin = row / 8 * 8;
      const int64_t end = std::min({begin + most, shape_.n, div_ceil(first + count, blocks)});
      Tile tile{begin, end, {}, {}, {}};
      INFER_CHECK(fill(tile));
      const int64_t take = std::min(count, end * blocks - first);
      for (int64_t b = first; b < first + take; ++b, out += bytes) {
        INFER_CHECK(make_block(tile, b / blocks, b % blocks, out));
      }
      first += take;
      count -= take;
    }
    return {};
  }

 private:
  struct Tile {
    int64_t begin, end;            ///< rows
    std::vector<uint8_t> codes;    ///< [rows][k]
    std::vector<uint16_t> scales;  ///< [groups][rows]
    std::vector<uint32_t> zeros;   ///< [groups][rows / 8]

    int64_t rows() const { return end - begin; }
    /// Numbers that eight rows share.
    int64_t eighths() const { return div_ceil<int64_t>(rows(), 8); }
  };

  Status fill(Tile& tile) const {
    const int64_t rows = tile.rows();
    tile.codes.resize(static_cast<size_t>(rows * shape_.k));
    std::vector<uint32_t> line;
    if (format_.awq) {
      line.resize(static_cast<size_t>(tile.eighths()));
      for (int64_t k = 0; k < shape_.k; ++k) {
        INFER_CHECK(
            read_part(codes_, k * (shape_.n / 8) + tile.begin / 8, tile.eighths(), line.data()));
        for (int64_t r = 0; r < rows; ++r) {
          tile.codes[static_cast<size_t>(r * shape_.k + k)] =
              line[static_cast<size_t>(r / 8)] >> format_.shift(r) & 15;
        }
      }
    } else {
      line.resize(static_cast<size_t>(rows));
      for (int64_t k = 0; k < shape_.k; k += 8) {
        INFER_CHECK(read_part(codes_, k / 8 * shape_.n + tile.begin, rows, line.data()));
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < 8; ++i) {
            tile.codes[static_cast<size_t>(r * shape_.k + k + i)] =
                line[static_cast<size_t>(r)] >> (4 * i) & 15;
          }
        }
      }
    }
    tile.scales.resize(static_cast<size_t>(shape_.groups * rows));
    for (int64_t g = 0; g < shape_.groups; ++g) {
      INFER_CHECK(
          read_part(scales_, g * shape_.n + tile.begin, rows, tile.scales.data() + g * rows));
    }
    if (type_ == DType::q4_0) return {};
    tile.zeros.resize(static_cast<size_t>(shape_.groups * tile.eighths()));
    for (int64_t g = 0; g < shape_.groups; ++g) {
      INFER_CHECK(read_part(zeros_, (g * shape_.n + tile.begin) / 8, tile.eighths(),
                            tile.zeros.data() + g * tile.eighths()));
    }
    return {};
  }

  /// binary16 of a scale.
  Status scale_of(uint16_t stored, uint16_t& out) const {
    out = stored;
    if (scales_.entry.desc.type == DType::f16) return {};
    const float value = bf16_to_f32(stored);
    out = f32_to_f16(value);
    if (f16_to_f32(out) == value) return {};
    return error(StatusCode::unsupported,
                 "{}: tensor '{}': expected scales that binary16 can hold, found {}",
                 scales_.file->path(), printable(scales_.entry.name), value);
  }

  Status make_block(const Tile& tile, int64_t row, int64_t b, std::byte* out) const {
    const int64_t r = row - tile.begin;
    const uint8_t* codes = tile.codes.data() + r * shape_.k;
    const auto column = [&](int64_t i) {
      return order_.empty() ? b * kBlock + i : order_[static_cast<size_t>(b * kBlock + i)];
    };
    // A block lies within a group.
    const int64_t group = groups_.empty() ? b * kBlock / (shape_.k / shape_.groups)
                                          : groups_[static_cast<size_t>(column(0))];
    uint16_t scale = 0;
    INFER_CHECK(scale_of(tile.scales[static_cast<size_t>(group * tile.rows() + r)], scale));
    if (type_ == DType::q4_0) {
      Codec<DType::q4_0>::Block block{scale, {}};
      for (int64_t j = 0; j < 16; ++j) {
        block.qs[j] = static_cast<uint8_t>(codes[column(j)] | codes[column(j + 16)] << 4);
      }
      std::memcpy(out, &block, sizeof(block));
      return {};
    }
    const int zero =
        format_.zero(tile.zeros[static_cast<size_t>(group * tile.eighths() + r / 8)], r);
    Codec<DType::q5_0>::Block block{};
    block.d = scale;
    uint32_t high = 0;
    for (int64_t j = 0; j < 16; ++j) {
      const auto first = static_cast<uint32_t>(codes[column(j)] - zero + 16);
      const auto second = static_cast<uint32_t>(codes[column(j + 16)] - zero + 16);
      block.qs[j] = static_cast<uint8_t>((first & 15) | (second & 15) << 4);
      high |= first >> 4 << j | second >> 4 << (j + 16);
    }
    std::memcpy(block.qh, &high, sizeof(high));
    std::memcpy(out, &block, sizeof(block));
    return {};
  }

  Format format_;
  Shape shape_;
  StoredTensor codes_;
  StoredTensor scales_;
  StoredTensor zeros_;
  std::vector<int32_t> order_;   ///< the column that each comes from, or empty
  std::vector<int32_t> groups_;  ///< of the stored columns, or empty: runs of equal length
  DType type_;
};

/// Numbers that were made when the checkpoint was opened.
class OrderTensor final : public AssembledTensor {
 public:
  explicit OrderTensor(std::vector<int32_t> values) : values_(std::move(values)) {}
  Status read(int64_t first, int64_t count, std::byte* out) const override {
    std::memcpy(out, values_.data() + first, static_cast<size_t>(count) * sizeof(int32_t));
    return {};
  }

 private:
  std::vector<int32_t> values_;
};

Result<Format> read_format(const Metadata& metadata) {
  const std::string section = "hf.config.quantization_config.";
  const auto text = [&](const char* key, const char* absent) -> Result<std::string> {
    INFER_TRY(const auto found, metadata.get_string(section + key));
    return found.value_or(absent);
  };
  INFER_TRY(const std::string method, text("quant_method", ""));
  INFER_TRY(const auto bits, metadata.get_int(section + "bits", 0, 64));
  INFER_TRY(const std::string version, text("version", "gemm"));
  INFER_TRY(const std::string format, text("checkpoint_format", "gptq"));
  const auto refuse = [&](const std::string& what) {
    return fail(StatusCode::unsupported,
                "{}: config.json: quantization_config: {} is not supported (expected gptq of 4 "
                "bits, or awq of 4 bits and version gemm)",
                metadata.source(), what);
  };
  if (method != "gptq" && method != "awq") {
    return refuse(fmt::format("quant_method '{}'", printable(method)));
  }
  if (bits.value_or(4) != 4) return refuse(fmt::format("{} bits", *bits));
  if (method == "awq") {
    std::string lower = version;
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (lower != "gemm") return refuse(fmt::format("version '{}'", printable(version)));
    return Format{true, 0};
  }
  if (format != "gptq" && format != "gptq_v2") {
    return refuse(fmt::format("checkpoint_format '{}'", printable(format)));
  }
  return Format{false, format == "gptq" ? 1 : 0};
}

/// Whether the zero points are those of Q4_0.
Result<bool> all_middle(const StoredTensor& tensor, Format format) {
  INFER_TRY(const std::vector<uint32_t> packed, read_all<uint32_t>(tensor));
  const auto number = kMiddle - static_cast<uint32_t>(format.zero_offset);
  return std::ranges::count(packed, number * 0x11111111u) == std::ssize(packed);
}

/// The group of each column as the checkpoint says it: bad_file unless all are of the same length.
Result<std::vector<int32_t>> read_groups(const StoredTensor& tensor, Shape shape) {
  INFER_TRY(std::vector<int32_t> groups, read_all<int32_t>(tensor));
  std::vector<int64_t> sizes(static_cast<size_t>(shape.groups));
  for (const int32_t group : groups) {
    if (group < 0 || group >= shape.groups) {
      return tl::unexpected(bad_tensor(
          tensor, fmt::format("expected groups 0 to {}, found {}", shape.groups - 1, group)));
    }
    ++sizes[static_cast<size_t>(group)];
  }
  for (const int64_t size : sizes) {
    if (size == shape.k / shape.groups) continue;
    return tl::unexpected(
        bad_tensor(tensor, fmt::format("expected groups of {} columns, found {} in one",
                                       shape.k / shape.groups, size)));
  }
  return groups;
}

Status assemble(PartTable& parts, const std::string& base, const StoredTensor& codes, Format format,
                std::vector<Assembled>& out) {
  const TensorDesc& desc = codes.entry.desc;
  Shape shape;
  shape.n = desc.shape[0] * (format.awq ? 8 : 1);
  shape.k = desc.shape[1] * (format.awq ? 1 : 8);
  INFER_TRY_S(const StoredTensor* scales,
              parts.take(base + ".scales", {DType::f16, DType::bf16}, 0));
  shape.groups = scales->entry.desc.shape[1];
  if (scales->entry.desc.shape[0] != shape.n || shape.groups > shape.k ||
      shape.k % shape.groups != 0 || shape.k / shape.groups % kBlock != 0 || shape.n % 8 != 0) {
    return bad_tensor(*scales, fmt::format("expected [{}, groups] with groups of 32 or more of {} "
                                           "columns, found {}",
                                           shape.n, shape.k, shape_string(scales->entry.desc)));
  }
  INFER_TRY_S(const StoredTensor* zeros,
              parts.take(base + ".qzeros", {DType::i32}, shape.groups * shape.n / 8));
  INFER_TRY_S(const bool middle, all_middle(*zeros, format));

  std::vector<int32_t> groups;
  std::vector<int32_t> order;
  if (const StoredTensor* index = parts.take(base + ".g_idx"); index != nullptr) {
    INFER_TRY_S(index, parts.take(base + ".g_idx", {DType::i32}, shape.k));
    INFER_TRY_S(groups, read_groups(*index, shape));
    order.resize(groups.size());
    std::iota(order.begin(), order.end(), 0);
    const auto less = [&](int32_t a, int32_t b) {
      return groups[static_cast<size_t>(a)] < groups[static_cast<size_t>(b)];
    };
    std::ranges::stable_sort(order, less);
    if (std::ranges::is_sorted(groups)) {
      order.clear();
      groups.clear();
    }
  }
  const DType type = middle ? DType::q4_0 : DType::q5_0;
  const auto place = static_cast<size_t>(&codes - parts.tensors().data());
  INFER_TRY_S(const TensorDesc made, make_tensor(type, std::array{shape.k, shape.n}));
  if (!order.empty()) {
    INFER_TRY_S(const TensorDesc list, make_tensor(DType::i32, std::array{shape.k}));
    out.push_back({base + ".order", list, place, std::make_unique<OrderTensor>(order)});
  }
  out.push_back({base + ".weight", made, place,
                 std::make_unique<PackedInt4Tensor>(format, shape, codes, *scales, *zeros,
                                                    std::move(order), std::move(groups), type)});
  return {};
}

}  // namespace

Result<std::vector<Assembled>> assemble_packed_int4(PartTable& parts) {
  std::vector<Assembled> all;
  std::optional<Format> format;
  for (const StoredTensor& tensor : parts.tensors()) {
    std::string base;
    if (!PartTable::ends(tensor.entry.name, ".qweight", base)) continue;
    if (!format) {
      INFER_TRY(format, read_format(parts.metadata()));
    }
    INFER_TRY(const StoredTensor* codes, parts.take(tensor.entry.name, {DType::i32}, 0));
    INFER_CHECK_R(assemble(parts, base, *codes, *format, all));
  }
  return all;
}

}  // namespace infer::safetensors
