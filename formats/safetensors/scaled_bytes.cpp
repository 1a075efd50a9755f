// Weights of 8 bits with scales: value = code·scale.
//   FP8, as DeepSeek and Qwen publish them: W in F8_E4M3 or F8_E5M2, W_scale_inv or W_scale with a
//     scale for each rectangle of `weight_block_size`, for each row, or one; W.scale for W.weight
//     with exponents (E8M0) as DeepSeek-V4
//   LLM.int8 of bitsandbytes (Dettmers et al. 2022): W in I8, SCB beside it, 127 times a scale for
//     each row
//   compressed-tensors: W in I8 or F8_E4M3, W_scale for each group of columns, each row, or one
// They become Q8_0. Codes of I8 are kept. Those of FP8 are multiples of a power of two that is
// chosen for each block: all are exact whose magnitude is an eighth of the block's largest or
// more, the others are off by at most a 128th of it.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "engine/core/checked.h"
#include "engine/core/half.h"
#include "engine/quant/fit.h"
#include "engine/quant/q8_0.h"
#include "formats/safetensors/header.h"
#include "formats/safetensors/scale_grid.h"

namespace infer::safetensors {
namespace {

using ByteBlock = Codec<DType::q8_0>::Block;
constexpr int64_t kByteBlock = 32;

/// The values of all codes.
std::array<float, 256> values_of(Widen widen) {
  std::array<float, 256> values{};
  for (size_t code = 0; code < values.size(); ++code) {
    values[code] = widen == Widen::none ? static_cast<float>(static_cast<int8_t>(code))
                                        : f16_to_f32(widened(widen, static_cast<std::byte>(code)));
  }
  return values;
}

class ScaledBytes final : public AssembledTensor {
 public:
  ScaledBytes(const StoredTensor& codes, ScaleGrid scales, float factor, DType made)
      : codes_(codes),
        scales_(std::move(scales)),
        columns_(codes.entry.desc.shape[0]),
        factor_(factor),
        made_(made),
        values_(values_of(codes.entry.widen)) {}

  Status read(int64_t first, int64_t count, std::byte* out) const override {
    const int64_t unit = made_ == DType::q8_0 ? kByteBlock : 1;  // elements of a block
    const int64_t row_units = columns_ / unit;
    std::vector<uint8_t> codes;
    std::vector<float> scales;
    int64_t line = -1;
    while (count > 0) {
      const int64_t row = first / row_units;
      const int64_t take = std::min(count, (row + 1) * row_units - first);
      codes.resize(static_cast<size_t>(take * unit));
      INFER_CHECK(read_part(codes_, first * unit, take * unit, codes.data()));
      if (scales_.line_of(row) != line) {
        line = scales_.line_of(row);
        INFER_CHECK(scales_.read_line(line, scales));
      }
      for (int64_t u = 0; u < take; ++u) {
        const int64_t column = (first + u - row * row_units) * unit;
        const float scale = scales[static_cast<size_t>(column / scales_.columns_each())] * factor_;
        INFER_CHECK(make(codes.data() + u * unit, scale, out));
        out += dtype_info(made_).block_bytes;
      }
      first += take;
      count -= take;
    }
    return {};
  }

 private:
  Status make(const uint8_t* codes, float scale, std::byte* out) const {
    if (made_ == DType::f32) {
      INFER_CHECK(finite(values_[codes[0]]));
      const float value = values_[codes[0]] * scale;
      std::memcpy(out, &value, sizeof(value));
      return {};
    }
    ByteBlock block{};
    if (codes_.entry.widen == Widen::none) {
      block.d = f32_to_f16_finite(scale);
      std::memcpy(block.qs, codes, sizeof(block.qs));
    } else {
      INFER_CHECK(align(codes, scale, block));
    }
    std::memcpy(out, &block, sizeof(block));
    return {};
  }

  /// Levels of which the block's largest magnitude is 64 to 127.
  Status align(const uint8_t* codes, float scale, ByteBlock& block) const {
    float largest = 0;
    for (int64_t i = 0; i < kByteBlock; ++i) {
      INFER_CHECK(finite(values_[codes[i]]));
      largest = std::max(largest, std::fabs(values_[codes[i]]));
    }
    if (largest == 0) return {};
    int exponent = 0;  // largest is below 2^exponent
    std::frexp(largest, &exponent);
    for (int64_t i = 0; i < kByteBlock; ++i) {
      const float level = std::nearbyint(std::ldexp(values_[codes[i]], 7 - exponent));
      block.qs[i] = static_cast<int8_t>(level);
    }
    block.d = f32_to_f16_finite(std::ldexp(scale, exponent - 7));
    return {};
  }

  Status finite(float value) const {
    if (std::isfinite(value)) return {};
    return bad_tensor(codes_, fmt::format("expected finite weights, found {}", value));
  }

  StoredTensor codes_;
  ScaleGrid scales_;
  int64_t columns_;
  float factor_;
  DType made_;
  std::array<float, 256> values_;
};

/// The scales of a weight of 8 bits; null if it has none.
Result<const StoredTensor*> take_scales(PartTable& parts, const StoredTensor& codes,
                                        float& factor) {
  const std::string& name = codes.entry.name;
  const auto typed = [&](const std::string& scales) {
    return parts.take(scales, {DType::f32, DType::bf16, DType::f16}, 0);
  };
  const bool floats = codes.entry.widen != Widen::none;
  std::string base;
  const bool weight = PartTable::ends(name, ".weight", base);
  if (weight && codes.entry.widen == Widen::none && parts.take(base + ".SCB") != nullptr) {
    factor = 1.0f / 127;
    parts.take(base + ".weight_format");
    return typed(base + ".SCB");
  }
  if (weight && floats && parts.take(base + ".scale") != nullptr) {
    return parts.take(base + ".scale", {DType::f32, DType::bf16, DType::f16, DType::i8}, 0);
  }
  for (const char* ending : {"_scale_inv", "_scale"}) {
    if (parts.take(name + ending) != nullptr) return typed(name + ending);
  }
  return nullptr;
}

Result<std::optional<Assembled>> assemble(PartTable& parts, size_t place) {
  const StoredTensor& codes = parts.tensors()[place];
  const TensorEntry& entry = codes.entry;
  if (parts.is_taken(place) || (entry.widen == Widen::none && entry.desc.type != DType::i8)) {
    return std::nullopt;
  }
  float factor = 1;
  INFER_TRY(const StoredTensor* scales, take_scales(parts, codes, factor));
  if (scales == nullptr) return std::nullopt;
  if (const StoredTensor* zeros = parts.take(entry.name + "_zero_point"); zeros != nullptr) {
    INFER_TRY(const std::vector<char> bytes, read_all<char>(*zeros));
    if (std::ranges::any_of(bytes, [](char byte) { return byte != 0; })) {
      return fail(StatusCode::unsupported,
                  "{}: tensor '{}': zero points of 8-bit weights other than 0 are not supported",
                  zeros->file->path(), printable(zeros->entry.name));
    }
  }
  parts.take(entry.name);
  INFER_TRY(const auto said, parts.metadata().get_ints(
                                 "hf.config.quantization_config.weight_block_size", 1, 1 << 20));
  std::vector<int64_t> sides = said.value_or(std::vector<int64_t>{});
  sides.resize(2);
  INFER_TRY(ScaleGrid grid,
            ScaleGrid::create(*scales, MatrixShape::of(entry.desc), sides[1], sides[0]));
  const bool whole = entry.desc.shape[0] % kByteBlock == 0 &&
                     (grid.across() == 1 || grid.columns_each() % kByteBlock == 0);
  const DType made = whole ? DType::q8_0 : DType::f32;
  INFER_TRY(const TensorDesc desc, make_tensor(made, entry.desc.shape));
  auto tensor = std::make_unique<ScaledBytes>(codes, std::move(grid), factor, made);
  return Assembled{entry.name, desc, place, std::move(tensor)};
}

}  // namespace

Result<std::vector<Assembled>> assemble_scaled_bytes(PartTable& parts) {
  std::vector<Assembled> all;
  for (size_t place = 0; place < parts.tensors().size(); ++place) {
    INFER_TRY(std::optional<Assembled> made, assemble(parts, place));
    if (made) all.push_back(std::move(*made));
  }
  return all;
}

}  // namespace infer::safetensors
