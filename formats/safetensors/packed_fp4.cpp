// 4-bit floats with a scale for each group of columns:
//   value[n][k] = level[n][k]·scale[n][group of k]·(scale of the whole tensor)
//   compressed-tensors: W_packed and W_scale; ModelOpt of NVIDIA: W and W_scale; DeepSeek-V4:
//   W.weight and W.scale, MXFP4
//     codes   U8 [N][K/2], the earlier column in the low nibble
//     scales  NVFP4: F8_E4M3 [N][K/16]; MXFP4: U8 [N][K/32], powers of two
//   of the whole tensor, NVFP4 only, F32 of one element: W_scale_2 of ModelOpt; W_global_scale of
//     compressed-tensors, which divides
// They become NVFP4 and MXFP4 with the same codes and scales. The scale of the whole tensor becomes
// a tensor of its own, BASE.scale of BASE.weight.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "engine/core/checked.h"
#include "engine/quant/mxfp4.h"
#include "engine/quant/nvfp4.h"
#include "formats/safetensors/assembled.h"

namespace infer::safetensors {
namespace {

/// What differs between the two types.
struct Fp4Kind {
  DType type;
  int64_t group;  ///< columns of a scale
};

constexpr Fp4Kind kNvfp4{DType::nvfp4, 16};
constexpr Fp4Kind kMxfp4{DType::mxfp4, 32};

uint8_t code_at(const uint8_t* codes, int64_t k) { return codes[k / 2] >> 4 * (k % 2) & 15; }

/// The weights k, k + half, k + 1, … of a group in the order of its bytes.
void interleave(const uint8_t* codes, int64_t half, uint8_t* out) {
  for (int64_t j = 0; j < half; ++j) {
    out[j] = static_cast<uint8_t>(code_at(codes, j) | code_at(codes, j + half) << 4);
  }
}

/// Codes and scales of some rows as stored become blocks.
class PackedFp4 final : public AssembledTensor {
 public:
  PackedFp4(const StoredTensor& codes, const StoredTensor& scales, Fp4Kind kind)
      : codes_(codes), scales_(scales), kind_(kind) {}

  Status read(int64_t first, int64_t count, std::byte* out) const override {
    const int64_t each = dtype_info(kind_.type).block_elements;
    const int64_t groups = each / kind_.group;
    std::vector<uint8_t> codes(static_cast<size_t>(count * each / 2));
    std::vector<uint8_t> scales(static_cast<size_t>(count * groups));
    INFER_CHECK(read_part(codes_, first * each / 2, count * each / 2, codes.data()));
    INFER_CHECK(read_part(scales_, first * groups, count * groups, scales.data()));
    for (int64_t b = 0; b < count; ++b) {
      const uint8_t* block_codes = codes.data() + b * each / 2;
      const uint8_t* block_scales = scales.data() + b * groups;
      if (kind_.type == DType::mxfp4) {
        Codec<DType::mxfp4>::Block block{block_scales[0], {}};
        interleave(block_codes, 16, block.qs);
        std::memcpy(out, &block, sizeof(block));
      } else {
        Codec<DType::nvfp4>::Block block{};
        for (int64_t s = 0; s < groups; ++s) {
          INFER_CHECK(check(block_scales[s]));
          block.scales[s] = block_scales[s] & 127;
          interleave(block_codes + 8 * s, 8, block.qs + 8 * s);
        }
        std::memcpy(out, &block, sizeof(block));
      }
      out += dtype_info(kind_.type).block_bytes;
    }
    return {};
  }

 private:
  Status check(uint8_t scale) const {
    if (scale <= 128 && scale != 127) return {};
    return bad_tensor(scales_, fmt::format("expected positive scales, found the bits {:#04x}",
                                           static_cast<unsigned>(scale)));
  }

  StoredTensor codes_;
  StoredTensor scales_;
  Fp4Kind kind_;
};

/// The scale of the whole tensor `weight` and its place, if there is one.
Result<std::optional<Assembled>> whole_scale(PartTable& parts, const std::string& weight,
                                             const std::string& base, size_t place) {
  const bool divides = parts.take(weight + "_global_scale") != nullptr;
  const std::string name = weight + (divides ? "_global_scale" : "_scale_2");
  if (!divides && parts.take(name) == nullptr) return std::nullopt;
  INFER_TRY(const StoredTensor* stored, parts.take(name, {DType::f32}, 1));
  INFER_TRY(const std::vector<float> values, read_all<float>(*stored));
  const float scale = divides ? 1.0f / values[0] : values[0];
  if (!std::isfinite(scale) || scale <= 0) {
    return tl::unexpected(
        bad_tensor(*stored, fmt::format("expected a positive scale, found {}", values[0])));
  }
  return assembled_number(base + ".scale", scale, place);
}

/// The codes and, after them, the scale of the whole tensor.
Status assemble(PartTable& parts, size_t place, const std::string& weight,
                const StoredTensor& scales, std::vector<Assembled>& all) {
  const StoredTensor& codes = parts.tensors()[place];
  const Fp4Kind kind = scales.entry.widen == Widen::f8_e4m3 ? kNvfp4 : kMxfp4;
  const auto& found = codes.entry.desc.shape;
  std::array<int64_t, 3> shape{found[0] * 2, found[1], found[2]};
  const int64_t each = dtype_info(kind.type).block_elements;
  if (shape[0] % each != 0) {
    return error(StatusCode::unsupported,
                 "{}: tensor '{}': rows of {} 4-bit floats are not supported: expected a multiple "
                 "of {}",
                 codes.file->path(), printable(codes.entry.name), shape[0], each);
  }
  const auto& groups = scales.entry.desc.shape;
  if (groups[0] != shape[0] / kind.group || groups[1] != shape[1] || groups[2] != shape[2]) {
    return bad_tensor(scales, fmt::format("expected a scale for {} columns of {} rows, found {}",
                                          kind.group, shape[1], shape_string(scales.entry.desc)));
  }
  parts.take(codes.entry.name);
  parts.take(scales.entry.name);
  INFER_TRY_S(const TensorDesc desc, make_tensor(kind.type, shape));
  all.push_back({weight, desc, place, std::make_unique<PackedFp4>(codes, scales, kind)});
  std::string base;
  if (!PartTable::ends(weight, ".weight", base)) return {};
  INFER_TRY_S(auto whole, whole_scale(parts, weight, base, place));
  if (whole) all.push_back(std::move(*whole));
  return {};
}

}  // namespace

Result<std::vector<Assembled>> assemble_packed_fp4(PartTable& parts) {
  std::vector<Assembled> all;
  for (size_t place = 0; place < parts.tensors().size(); ++place) {
    const TensorEntry& entry = parts.tensors()[place].entry;
    if (entry.widen != Widen::none || entry.desc.type != DType::i8) continue;
    std::string weight = entry.name;
    const bool packed = PartTable::ends(entry.name, "_packed", weight);
    const StoredTensor* scales = parts.find(weight + "_scale");
    std::string base;
    if (scales == nullptr && PartTable::ends(weight, ".weight", base)) {
      scales = parts.find(base + ".scale");
      if (scales != nullptr && scales->entry.widen == Widen::none &&
          scales->entry.desc.type == DType::i8) {
        INFER_CHECK_R(assemble(parts, place, weight, *scales, all));
      }
      continue;
    }
    if (scales == nullptr) continue;
    // Numbers of 8 bits have scales of more bits.
    const bool floats = scales->entry.widen == Widen::f8_e4m3;
    if (!floats && !(packed && scales->entry.desc.type == DType::i8)) continue;
    INFER_CHECK_R(assemble(parts, place, weight, *scales, all));
  }
  return all;
}

}  // namespace infer::safetensors
