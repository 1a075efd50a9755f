// Weights of HQQ (Badri and Shaji 2023), in the layout that its library and transformers write:
//   value[i] = scale[i / size]·(code[i] − zero[i / size]), weights counted through the whole matrix
//   X.W_q          u8 [groups / p][size], p = 8 / bits codes in a byte: byte b has those of the
//   weights
//                  b, b + n, b + 2n, … of p·n weights, the first one in the highest bits
//   X.scale, zero  f16, bf16 or f32, one for each group of `size` weights
//   X.shape        i64 [2]: rows, columns
//   X.nbits, axis  a whole number
//   X.packing …    further settings
// HQQ chooses zeros as it likes. The types here have levels around 0, so that they hold a weight
// exactly only if its zero is a whole number. Others are refused.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/core/checked.h"
#include "engine/core/half.h"
#include "engine/quant/q4_0.h"
#include "engine/quant/q5_0.h"
#include "engine/quant/q8_0.h"
#include "formats/safetensors/scale_grid.h"

namespace infer::safetensors {
namespace {

constexpr int64_t kHqqBlock = 32;  ///< weights of a block of Q4_0, Q5_0 and Q8_0

/// What a layer's tensors say of it.
struct HqqLayer {
  int bits = 0;
  int64_t rows = 0, columns = 0;
  int64_t size = 0;  ///< weights of a group

  int64_t weights() const { return rows * columns; }
  int parts() const { return 8 / bits; }
  int64_t part() const { return weights() / parts(); }  ///< weights, and bytes
};

class HqqTensor final : public AssembledTensor {
 public:
  HqqTensor(HqqLayer layer, const StoredTensor& codes, const StoredTensor& scales,
            const StoredTensor& zeros, DType made)
      : layer_(layer), codes_(codes), scales_(scales), zeros_(zeros), made_(made) {}

  Status read(int64_t first, int64_t count, std::byte* out) const override {
    constexpr int64_t kMost = int64_t{1} << 16;  // weights at once
    std::vector<uint8_t> packed;
    std::vector<float> scales, zeros;
    int64_t at = first * kHqqBlock;
    const int64_t end = at + count * kHqqBlock;
    while (at < end) {
      const int64_t part = at / layer_.part();
      const int64_t take = std::min({kMost, end - at, (part + 1) * layer_.part() - at});
      packed.resize(static_cast<size_t>(take));
      INFER_CHECK(read_part(codes_, at % layer_.part(), take, packed.data()));
      const int shift = 8 - layer_.bits * static_cast<int>(part + 1);
      for (uint8_t& byte : packed) {
        byte = static_cast<uint8_t>(byte >> shift & ((1 << layer_.bits) - 1));
      }
      const int64_t group = at / layer_.size;
      const int64_t groups = (at + take - 1) / layer_.size - group + 1;
      INFER_CHECK(read_floats(scales_, group, groups, scales));
      INFER_CHECK(read_floats(zeros_, group, groups, zeros));
      for (int64_t i = 0; i < take; i += kHqqBlock) {
        const auto g = static_cast<size_t>((at + i) / layer_.size - group);
        INFER_CHECK(make_block(packed.data() + i, scales[g], static_cast<int>(zeros[g]), out));
        out += dtype_info(made_).block_bytes;
      }
      at += take;
    }
    return {};
  }

 private:
  Status make_block(const uint8_t* codes, float scale, int zero, std::byte* out) const {
    const uint16_t d = f32_to_f16(scale);
    if (f16_to_f32(d) != scale) {
      return error(StatusCode::unsupported,
                   "{}: tensor '{}': expected scales that binary16 can hold, found {}",
                   scales_.file->path(), printable(scales_.entry.name), scale);
    }
    const auto store = [&](const auto& block) { std::memcpy(out, &block, sizeof(block)); };
    const auto level = [&](int64_t j) { return static_cast<int>(codes[j]) - zero; };
    if (made_ == DType::q8_0) {
      Codec<DType::q8_0>::Block block{d, {}};
      for (int64_t j = 0; j < kHqqBlock; ++j) block.qs[j] = static_cast<int8_t>(level(j));
      store(block);
    } else if (made_ == DType::q4_0) {
      Codec<DType::q4_0>::Block block{d, {}};
      for (int64_t j = 0; j < 16; ++j) {
        block.qs[j] = static_cast<uint8_t>((level(j) + 8) | (level(j + 16) + 8) << 4);
      }
      store(block);
    } else {
      Codec<DType::q5_0>::Block block{};
      block.d = d;
      uint32_t high = 0;
      for (int64_t j = 0; j < 16; ++j) {
        const auto lower = static_cast<uint32_t>(level(j) + 16);
        const auto upper = static_cast<uint32_t>(level(j + 16) + 16);
        block.qs[j] = static_cast<uint8_t>((lower & 15) | (upper & 15) << 4);
        high |= lower >> 4 << j | upper >> 4 << (j + 16);
      }
      std::memcpy(block.qh, &high, sizeof(high));
      store(block);
    }
    return {};
  }

  HqqLayer layer_;
  StoredTensor codes_;
  StoredTensor scales_;
  StoredTensor zeros_;
  DType made_;
};

Status refuse(const StoredTensor& tensor, const std::string& what) {
  return error(StatusCode::unsupported, "{}: tensor '{}': HQQ with {} is not supported",
               tensor.file->path(), printable(tensor.entry.name), what);
}

/// Whole numbers of any width; `count` of them.
Result<std::vector<int64_t>> read_ints(PartTable& parts, const std::string& name, int64_t count) {
  INFER_TRY(const StoredTensor* stored,
            parts.take(name, {DType::i8, DType::i16, DType::i32, DType::i64}, count));
  std::vector<int64_t> values;
  const auto take = [&](auto read) {
    if (read) values.assign(read->begin(), read->end());
    return read ? Status() : read.error();
  };
  switch (stored->entry.desc.type) {
    case DType::i8: INFER_CHECK_R(take(read_all<uint8_t>(*stored))); break;
    case DType::i16: INFER_CHECK_R(take(read_all<int16_t>(*stored))); break;
    case DType::i32: INFER_CHECK_R(take(read_all<int32_t>(*stored))); break;
    default: INFER_CHECK_R(take(read_all<int64_t>(*stored)));
  }
  return values;
}

/// A setting of one whole number; `absent` if the checkpoint lacks it.
Result<int64_t> setting(PartTable& parts, const std::string& name, int64_t absent) {
  if (parts.find(name) == nullptr) return absent;
  INFER_TRY(const std::vector<int64_t> values, read_ints(parts, name, 1));
  return values.front();
}

/// Takes what belongs to the layer, and says how its weights lie.
Result<HqqLayer> read_layer(PartTable& parts, const std::string& base, const StoredTensor& codes,
                            int64_t groups) {
  HqqLayer layer;
  INFER_TRY(const std::vector<int64_t> shape, read_ints(parts, base + ".shape", 2));
  INFER_TRY(const int64_t bits, setting(parts, base + ".nbits", 4));
  INFER_TRY(const int64_t axis, setting(parts, base + ".axis", 1));
  for (const char* part : {".quant_scale", ".quant_zero", ".view_as_float"}) {
    INFER_TRY(const int64_t set, setting(parts, base + part, 0));
    if (set != 0) return tl::unexpected(refuse(codes, std::string(part + 1)));
  }
  for (const char* part : {".packing", ".group_size", ".unpack_view_dtype", ".compute_dtype",
                           ".channel_wise", ".optimize", ".round_zero", ".stores_quant_config",
                           ".encoded_state_dict", ".offload_meta"}) {
    parts.take(base + part);
  }
  if (bits != 8 && bits != 4 && bits != 2 && bits != 1) {
    return tl::unexpected(refuse(codes, fmt::format("{} bits", bits)));
  }
  if (axis != 1) return tl::unexpected(refuse(codes, "groups along axis 0"));
  layer.bits = static_cast<int>(bits);
  layer.rows = shape[0];
  layer.columns = shape[1];
  for (const int64_t side : shape) {
    if (side > 0 && side <= int64_t{1} << 30) continue;
    return tl::unexpected(bad_tensor(
        codes,
        fmt::format("expected rows and columns in '{}.shape', found {}", printable(base), side)));
  }
  const int64_t bytes = codes.entry.desc.elements();
  if (layer.weights() % groups != 0 || groups % layer.parts() != 0 || bytes != layer.part()) {
    return tl::unexpected(bad_tensor(
        codes,
        fmt::format("expected codes of {} bits for {} rows of {} columns in {} groups, found "
                    "{} bytes",
                    bits, layer.rows, layer.columns, groups, bytes)));
  }
  layer.size = layer.weights() / groups;
  if (layer.size % kHqqBlock != 0 || layer.columns % kHqqBlock != 0) {
    return tl::unexpected(refuse(
        codes, fmt::format("groups of {} weights in rows of {}", layer.size, layer.columns)));
  }
  return layer;
}

/// The type whose levels are all codes less their zeros.
Result<DType> type_for(const StoredTensor& tensor, int bits, int64_t groups) {
  std::vector<float> zeros;
  INFER_CHECK_R(read_floats(tensor, 0, groups, zeros));
  for (const float zero : zeros) {
    if (zero == std::floor(zero) && std::fabs(zero) <= 255) continue;
    return tl::unexpected(
        refuse(tensor, fmt::format("the zero {}, which is no whole number: no type here holds such "
                                   "weights without loss",
                                   zero)));
  }
  const auto [least, most] = std::ranges::minmax(zeros);
  const int low = -static_cast<int>(most);
  const int high = (1 << bits) - 1 - static_cast<int>(least);
  if (low >= -8 && high <= 7) return DType::q4_0;
  if (low >= -16 && high <= 15) return DType::q5_0;
  if (low >= -128 && high <= 127) return DType::q8_0;
  return tl::unexpected(refuse(tensor, fmt::format("levels from {} to {}", low, high)));
}

Result<Assembled> assemble_layer(PartTable& parts, size_t place, const std::string& base) {
  const StoredTensor& found = parts.tensors()[place];
  INFER_TRY(const StoredTensor* codes, parts.take(found.entry.name, {DType::i8}, 0));
  INFER_TRY(const StoredTensor* scales,
            parts.take(base + ".scale", {DType::f16, DType::bf16, DType::f32}, 0));
  const int64_t groups = scales->entry.desc.elements();
  INFER_TRY(const StoredTensor* zeros,
            parts.take(base + ".zero", {DType::f16, DType::bf16, DType::f32}, groups));
  INFER_TRY(const HqqLayer layer, read_layer(parts, base, *codes, groups));
  INFER_TRY(const DType made, type_for(*zeros, layer.bits, groups));
  INFER_TRY(const TensorDesc desc, make_tensor(made, std::array{layer.columns, layer.rows}));
  return Assembled{base + ".weight", desc, place,
                   std::make_unique<HqqTensor>(layer, *codes, *scales, *zeros, made)};
}

}  // namespace

Result<std::vector<Assembled>> assemble_packed_hqq(PartTable& parts) {
  std::vector<Assembled> all;
  for (size_t place = 0; place < parts.tensors().size(); ++place) {
    std::string base;
    if (!PartTable::ends(parts.tensors()[place].entry.name, ".W_q", base)) continue;
    INFER_TRY(Assembled made, assemble_layer(parts, place, base));
    all.push_back(std::move(made));
  }
  return all;
}

}  // namespace infer::safetensors
