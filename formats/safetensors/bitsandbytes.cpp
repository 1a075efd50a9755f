// Weights of 4 bits as bitsandbytes writes them (Dettmers et al. 2023): of W, flattened along its
// rows, two codes a byte, the first in the high nibble; W.absmax, a scale for each `blocksize`
// weights, in float32 or in 8 bits with scales of their own; W.quant_map, the levels.
#include <cmath>

#include "engine/core/checked.h"
#include "engine/quant/fp4.h"
#include "engine/quant/nf4.h"
#include "formats/safetensors/assembled.h"
#include "formats/safetensors/json_document.h"

namespace infer::safetensors {
namespace {

constexpr int64_t kMaxBlock = 1 << 20;
constexpr int64_t kCodeBlock = Codec<DType::nf4>::kElements;
static_assert(kCodeBlock == Codec<DType::fp4>::kElements);

/// What quant_state says.
struct State {
  DType type = DType::nf4;
  std::vector<int64_t> shape;  ///< the fastest dimension first
  int64_t block = 0;
  int64_t nested_block = 0;  ///< 0: scales are float32
  double nested_offset = 0;
};

Result<State> read_state(const StoredTensor& tensor, DType type) {
  constexpr int64_t kMaxBytes = 65536;
  if (tensor.entry.desc.extent_bytes() > kMaxBytes) {
    return tl::unexpected(bad_tensor(tensor, fmt::format("expected at most {} bytes", kMaxBytes)));
  }
  INFER_TRY(const std::vector<char> text, read_all<char>(tensor));
  const std::string where =
      fmt::format("{}: tensor '{}'", tensor.file->path(), printable(tensor.entry.name));
  INFER_TRY(const Json json, parse_json(where, std::string(text.begin(), text.end())));
  JsonProblem problem{where, {}};
  const JsonPlace root(json, problem);
  State state;
  state.type = type;
  if (const JsonPlace quant = root.at("quant_type");
      quant.text() != dtype_info(type).ident && problem.ok()) {
    quant.expected(fmt::format("'{}'", dtype_info(type).ident));
  }
  state.block = root.at("blocksize").integer(1, kMaxBlock);
  const JsonPlace shape = root.at("shape");
  for (size_t i = shape.size(); i > 0; --i) {
    state.shape.push_back(shape.at(i - 1).integer(1, int64_t{1} << 40));
  }
  if (state.shape.empty()) shape.expected("dimensions");
  if (root.at("nested_blocksize").present()) {
    state.nested_block = root.at("nested_blocksize").integer(1, kMaxBlock);
    state.nested_offset = root.at("nested_offset").number();
  }
  if (!problem.ok()) return tl::unexpected(std::move(problem.status));
  return state;
}

class BitsAndBytesTensor final : public AssembledTensor {
 public:
  BitsAndBytesTensor(State state, DType made, const StoredTensor& codes, const StoredTensor& absmax)
      : state_(std::move(state)), made_(made), codes_(codes), absmax_(absmax) {}

  /// The scales of scales: level[code]·nested[i / nested_block] + offset.
  void set_nested(std::vector<float> levels, std::vector<float> scales) {
    nested_levels_ = std::move(levels);
    nested_scales_ = std::move(scales);
  }

  Status read(int64_t first, int64_t count, std::byte* out) const override {
    return made_ == DType::f32 ? read_floats(first, count, out) : read_blocks(first, count, out);
  }

 private:
  static int code(const std::vector<uint8_t>& bytes, int64_t i) {
    const uint8_t byte = bytes[static_cast<size_t>(i / 2)];
    return i % 2 == 0 ? byte >> 4 : byte & 15;
  }

  Status read_blocks(int64_t first, int64_t count, std::byte* out) const {
    std::vector<uint8_t> codes(static_cast<size_t>(count * kCodeBlock / 2));
    INFER_CHECK(read_part(codes_, first * kCodeBlock / 2, count * kCodeBlock / 2, codes.data()));
    std::vector<float> scales;
    INFER_CHECK(read_scales(first * kCodeBlock, count * kCodeBlock, scales));
    using Block = Codec<DType::nf4>::Block;
    const int64_t first_scale = first * kCodeBlock / state_.block;
    for (int64_t b = 0; b < count; ++b, out += sizeof(Block)) {
      const float scale =
          scales[static_cast<size_t>((first + b) * kCodeBlock / state_.block - first_scale)];
      const auto bits = std::bit_cast<uint32_t>(scale);
      Block block;
      block.absmax[0] = static_cast<uint16_t>(bits);
      block.absmax[1] = static_cast<uint16_t>(bits >> 16);
      for (int i = 0; i < kCodeBlock / 2; ++i) {
        const int64_t from = b * kCodeBlock + i / 16 * 32 + i % 16;
        block.qs[i] = static_cast<uint8_t>(code(codes, from) | code(codes, from + 16) << 4);
      }
      std::memcpy(out, &block, sizeof(block));
    }
    return {};
  }

  Status read_floats(int64_t first, int64_t count, std::byte* out) const {
    const int64_t begin = first / 2 * 2;
    std::vector<uint8_t> codes(static_cast<size_t>((first + count - begin + 1) / 2));
    INFER_CHECK(read_part(codes_, begin / 2, static_cast<int64_t>(codes.size()), codes.data()));
    std::vector<float> scales;
    INFER_CHECK(read_scales(first, count, scales));
    const float* levels = state_.type == DType::nf4 ? Nf4Levels::kValues : Fp4Levels::kValues;
    for (int64_t i = first; i < first + count; ++i, out += sizeof(float)) {
      const size_t scale = static_cast<size_t>(i / state_.block - first / state_.block);
      const float value = levels[code(codes, i - begin)] * scales[scale];
      std::memcpy(out, &value, sizeof(value));
    }
    return {};
  }

  /// Those of weights [first, first + count).
  Status read_scales(int64_t first, int64_t count, std::vector<float>& out) const {
    const int64_t begin = first / state_.block;
    const int64_t end = (first + count - 1) / state_.block + 1;
    out.resize(static_cast<size_t>(end - begin));
    if (state_.nested_block == 0) return read_part(absmax_, begin, end - begin, out.data());
    std::vector<uint8_t> codes(out.size());
    INFER_CHECK(read_part(absmax_, begin, end - begin, codes.data()));
    const auto offset = static_cast<float>(state_.nested_offset);
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i - begin);
      out[at] =
          nested_levels_[codes[at]] * nested_scales_[static_cast<size_t>(i / state_.nested_block)] +
          offset;
    }
    return {};
  }

  State state_;
  DType made_;
  StoredTensor codes_;
  StoredTensor absmax_;
  std::vector<float> nested_levels_;
  std::vector<float> nested_scales_;
};

/// Levels other than the type's own would be another type.
Status check_levels(const StoredTensor& tensor, DType type) {
  INFER_TRY_S(const std::vector<float> found, read_all<float>(tensor));
  const float* expected = type == DType::nf4 ? Nf4Levels::kValues : Fp4Levels::kValues;
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::fabs(found[i] - expected[i]) <= 1e-6f) continue;
    return error(StatusCode::unsupported,
                 "{}: tensor '{}': level {}: expected {} as of {}, found {}", tensor.file->path(),
                 printable(tensor.entry.name), i, expected[i], dtype_info(type).name, found[i]);
  }
  return {};
}

Result<Assembled> assemble(PartTable& parts, const std::string& name, const StoredTensor& described,
                           DType type) {
  INFER_TRY(const State state, read_state(described, type));
  const Result<TensorDesc> plain = make_tensor(DType::f32, state.shape);
  if (!plain) return tl::unexpected(bad_tensor(described, plain.error().message()));
  const int64_t elements = plain->elements();
  // As bytes, whatever type they are kept as (bnb_4bit_quant_storage).
  INFER_TRY(const StoredTensor* codes,
            parts.take(name, {DType::i8, DType::f16, DType::bf16, DType::f32}, 0));
  if (codes->entry.desc.extent_bytes() != (elements + 1) / 2) {
    return tl::unexpected(
        bad_tensor(*codes, fmt::format("expected {} bytes for {}, found {}", (elements + 1) / 2,
                                       shape_string(*plain), codes->entry.desc.extent_bytes())));
  }
  const int64_t scales = div_ceil(elements, state.block);
  const bool nested = state.nested_block > 0;
  INFER_TRY(const StoredTensor* absmax,
            parts.take(name + ".absmax", {nested ? DType::i8 : DType::f32}, scales));
  INFER_TRY(const StoredTensor* levels, parts.take(name + ".quant_map", {DType::f32}, 16));
  INFER_CHECK_R(check_levels(*levels, type));
  const bool whole = state.shape[0] % kCodeBlock == 0 && state.block % kCodeBlock == 0;
  const DType made = whole ? type : DType::f32;
  auto tensor = std::make_unique<BitsAndBytesTensor>(state, made, *codes, *absmax);
  if (nested) {
    INFER_TRY(const StoredTensor* map, parts.take(name + ".nested_quant_map", {DType::f32}, 256));
    INFER_TRY(const StoredTensor* of_scales, parts.take(name + ".nested_absmax", {DType::f32},
                                                        div_ceil(scales, state.nested_block)));
    INFER_TRY(std::vector<float> nested_levels, read_all<float>(*map));
    INFER_TRY(std::vector<float> nested_scales, read_all<float>(*of_scales));
    tensor->set_nested(std::move(nested_levels), std::move(nested_scales));
  }
  INFER_TRY(const TensorDesc desc, make_tensor(made, state.shape));
  const auto place = static_cast<size_t>(codes - parts.tensors().data());
  return Assembled{name, desc, place, std::move(tensor)};
}

}  // namespace

Result<std::vector<Assembled>> assemble_bitsandbytes(PartTable& parts) {
  std::vector<Assembled> all;
  for (const StoredTensor& tensor : parts.tensors()) {
    for (const DType type : {DType::nf4, DType::fp4}) {
      const std::string ending =
          fmt::format(".quant_state.bitsandbytes__{}", dtype_info(type).ident);
      std::string name;
      if (!PartTable::ends(tensor.entry.name, ending, name)) continue;
      parts.take(tensor.entry.name);
      INFER_TRY(Assembled made, assemble(parts, name, tensor, type));
      all.push_back(std::move(made));
    }
  }
  return all;
}

}  // namespace infer::safetensors
