// BitNet's weights of three levels (Ma et al. 2024), as transformers packs them:
//   W        U8 [N/4][K]: byte n has the codes of the rows n, n + N/4, n + N/2, n + 3N/4, the first
//            one in the lowest bits; a code is the level plus one
//   W_scale  of one element; value = level·scale, or level/scale where linear_class is "bitlinear"
// They become TQ2_0 with scales of one, or F32 if rows are not multiples of 256 weights. The scale
// becomes a tensor of its own, BASE.scale of BASE.weight.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "engine/core/checked.h"
#include "engine/core/file.h"
#include "engine/core/half.h"
#include "engine/quant/tq2_0.h"
#include "formats/safetensors/scale_grid.h"

namespace infer::safetensors {
namespace {

constexpr int64_t kParts = 4;    ///< rows in a byte
constexpr int64_t kBlock = 256;  ///< weights of a block of TQ2_0

class TernaryTensor final : public AssembledTensor {
 public:
  TernaryTensor(const StoredTensor& codes, DType made) : codes_(codes), made_(made) {}

  Status read(int64_t first, int64_t count, std::byte* out) const override {
    const int64_t columns = codes_.entry.desc.shape[0];
    const int64_t part = columns * codes_.entry.desc.shape[1];  // weights, and bytes
    const int64_t each = dtype_info(made_).block_elements;
    std::vector<uint8_t> bytes(static_cast<size_t>(each));
    for (int64_t b = first; b < first + count; ++b) {
      // Blocks lie within rows, and so within a part.
      const int64_t at = b * each;
      INFER_CHECK(read_part(codes_, at % part, each, bytes.data()));
      const auto shift = static_cast<int>(2 * (at / part));
      for (uint8_t& byte : bytes) {
        byte = static_cast<uint8_t>(byte >> shift & 3);
        if (byte == 3) {
          return bad_tensor(codes_, "expected codes of three levels, 0 to 2, found 3");
        }
      }
      make(bytes.data(), out);
      out += dtype_info(made_).block_bytes;
    }
    return {};
  }

 private:
  void make(const uint8_t* codes, std::byte* out) const {
    if (made_ == DType::f32) {
      const float level = static_cast<float>(codes[0]) - 1.0f;
      std::memcpy(out, &level, sizeof(level));
      return;
    }
    Codec<DType::tq2_0>::Block block{{}, f32_to_f16(1.0f)};
    for (int64_t i = 0; i < kBlock; ++i) {
      uint8_t& packed = block.qs[i / 128 * 32 + i % 32];
      packed = static_cast<uint8_t>(packed | codes[i] << (i % 128 / 32 * 2));
    }
    std::memcpy(out, &block, sizeof(block));
  }

  StoredTensor codes_;
  DType made_;
};

Result<std::string> setting(const PartTable& parts, const char* key, const char* absent) {
  INFER_TRY(const auto found,
            parts.metadata().get_string("hf.config.quantization_config." + std::string(key)));
  return found.value_or(absent);
}

Status assemble(PartTable& parts, size_t place, const std::string& base, bool divides,
                std::vector<Assembled>& all) {
  INFER_TRY_S(const StoredTensor* const codes, parts.take(base + ".weight", {DType::i8}, 0));
  INFER_TRY_S(const StoredTensor* const stored,
              parts.take(base + ".weight_scale", {DType::f32, DType::bf16, DType::f16}, 1));
  std::vector<float> scale;
  INFER_CHECK(read_floats(*stored, 0, 1, scale));
  if (!std::isfinite(scale[0]) || scale[0] <= 0) {
    return bad_tensor(*stored, fmt::format("expected a positive scale, found {}", scale[0]));
  }
  const auto& shape = codes->entry.desc.shape;
  if (codes->entry.desc.elements() != shape[0] * shape[1]) {
    return bad_tensor(*codes,
                      fmt::format("expected a matrix, found {}", shape_string(codes->entry.desc)));
  }
  const DType made = shape[0] % kBlock == 0 ? DType::tq2_0 : DType::f32;
  const std::optional<int64_t> rows = checked_mul(shape[1], kParts);
  if (!rows) return bad_tensor(*codes, "expected fewer rows");
  INFER_TRY_S(const TensorDesc desc, make_tensor(made, std::array{shape[0], *rows}));
  all.push_back({base + ".weight", desc, place, std::make_unique<TernaryTensor>(*codes, made)});
  const float factor = divides ? 1.0f / scale[0] : scale[0];
  INFER_TRY_S(Assembled number, assembled_number(base + ".scale", factor, place));
  all.push_back(std::move(number));
  return {};
}

}  // namespace

Result<std::vector<Assembled>> assemble_packed_ternary(PartTable& parts) {
  std::vector<Assembled> all;
  INFER_TRY(const std::string method, setting(parts, "quant_method", ""));
  if (method != "bitnet") return all;
  INFER_TRY(const std::string mode, setting(parts, "quantization_mode", "offline"));
  INFER_TRY(const std::string kind, setting(parts, "linear_class", "bitlinear"));
  INFER_TRY(const auto norms,
            parts.metadata().get_bool("hf.config.quantization_config.use_rms_norm"));
  if (mode != "offline" || (kind != "bitlinear" && kind != "autobitlinear") ||
      norms.value_or(false)) {
    return fail(StatusCode::unsupported,
                "{}: config.json: quantization_config: linear_class '{}' with quantization_mode "
                "'{}' and use_rms_norm {} is not supported (expected bitlinear or autobitlinear, "
                "offline, false)",
                parts.metadata().source(), printable(kind), printable(mode), norms.value_or(false));
  }
  for (size_t place = 0; place < parts.tensors().size(); ++place) {
    std::string base;
    const TensorEntry& entry = parts.tensors()[place].entry;
    if (!PartTable::ends(entry.name, ".weight", base) || entry.desc.type != DType::i8) continue;
    INFER_CHECK_R(assemble(parts, place, base, kind == "bitlinear", all));
  }
  return all;
}

}  // namespace infer::safetensors
