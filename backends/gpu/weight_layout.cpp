#include "backends/gpu/weight_layout.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "engine/core/checked.h"
#include "engine/quant/quant.h"

namespace infer::gpu {
namespace {

/// A field of a block as stored: bytes [offset, offset + bytes).
struct Field {
  int32_t offset = 0;
  int32_t bytes = 0;

  int32_t unit() const { return bytes % 16 == 0 ? 16 : bytes; }
};

constexpr Field kByte[] = {{0, 1}};
constexpr Field kHalf[] = {{0, 2}};
constexpr Field kHalves[] = {{0, 64}};
constexpr Field kWord[] = {{0, 4}};
constexpr Field kNibbles32[] = {{2, 16}, {0, 2}};  // levels, scale
constexpr Field kQ41[] = {{4, 16}, {0, 4}};
constexpr Field kQ50[] = {{6, 16}, {2, 4}, {0, 2}};
constexpr Field kQ51[] = {{8, 16}, {4, 4}, {0, 4}};
constexpr Field kQ80[] = {{2, 32}, {0, 2}};
constexpr Field kQ81[] = {{4, 32}, {0, 4}};
constexpr Field kQ2K[] = {{16, 64}, {0, 16}, {80, 4}};
constexpr Field kQ3K[] = {{32, 64}, {0, 32}, {96, 12}, {108, 2}};
constexpr Field kQ4K[] = {{16, 128}, {0, 16}};
constexpr Field kQ5K[] = {{48, 128}, {16, 32}, {0, 16}};
constexpr Field kQ6K[] = {{0, 128}, {128, 64}, {192, 16}, {208, 2}};
constexpr Field kQ8K[] = {{4, 256}, {0, 4}};
constexpr Field kIq2Xxs[] = {{2, 64}, {0, 2}};
constexpr Field kIq2Xs[] = {{2, 64}, {66, 8}, {0, 2}};
constexpr Field kIq2S[] = {{2, 32}, {34, 32}, {66, 8}, {74, 8}, {0, 2}};
constexpr Field kIq3Xxs[] = {{2, 64}, {66, 32}, {0, 2}};
constexpr Field kIq3S[] = {{2, 64}, {74, 32}, {66, 8}, {106, 4}, {0, 2}};
constexpr Field kIq1S[] = {{2, 32}, {34, 16}, {0, 2}};
constexpr Field kIq1M[] = {{0, 32}, {32, 16}, {48, 8}};
constexpr Field kIq4Xs[] = {{8, 128}, {0, 8}};
constexpr Field kTq10[] = {{0, 48}, {48, 4}, {52, 2}};
constexpr Field kTq20[] = {{0, 64}, {64, 2}};
constexpr Field kMxfp4[] = {{1, 16}, {0, 1}};
constexpr Field kNibbles64[] = {{4, 32}, {0, 4}};

std::span<const Field> fields_of(DType type) {
  switch (type) {
    case DType::i8: return kByte;
    case DType::i16: return kHalf;
    case DType::f16:
    case DType::bf16: return kHalves;
    case DType::f32:
    case DType::i32:
    case DType::f64:
    case DType::i64: return kWord;
    case DType::q4_0:
    case DType::iq4_nl:
    case DType::q1_0:
    case DType::q2_0: return kNibbles32;
    case DType::q4_1: return kQ41;
    case DType::q5_0: return kQ50;
    case DType::q5_1: return kQ51;
    case DType::q8_0: return kQ80;
    case DType::q8_1: return kQ81;
    case DType::q2_k: return kQ2K;
    case DType::q3_k: return kQ3K;
    case DType::q4_k: return kQ4K;
    case DType::q5_k: return kQ5K;
    case DType::q6_k: return kQ6K;
    case DType::q8_k: return kQ8K;
    case DType::iq2_xxs: return kIq2Xxs;
    case DType::iq2_xs: return kIq2Xs;
    case DType::iq2_s: return kIq2S;
    case DType::iq3_xxs: return kIq3Xxs;
    case DType::iq3_s: return kIq3S;
    case DType::iq1_s: return kIq1S;
    case DType::iq1_m: return kIq1M;
    case DType::iq4_xs: return kIq4Xs;
    case DType::tq1_0: return kTq10;
    case DType::tq2_0: return kTq20;
    case DType::mxfp4: return kMxfp4;
    case DType::nvfp4:
    case DType::nf4:
    case DType::fp4: return kNibbles64;
  }
  return kByte;
}

template <int kUnit>
void pack_plane(const std::byte* field, int64_t stride, int64_t step, int64_t rows, int64_t blocks,
                int64_t units, int64_t together, std::byte* out) {
  for (int64_t b = 0; b < blocks; ++b) {
    for (int64_t u = 0; u < units; ++u, out += together * kUnit) {
      const std::byte* from = field + b * step + u * kUnit;
      for (int64_t r = 0; r < rows; ++r) std::memcpy(out + r * kUnit, from + r * stride, kUnit);
      std::memset(out + rows * kUnit, 0, static_cast<size_t>((together - rows) * kUnit));
    }
  }
}

/// f64 and i64 become f32.
void pack_converted(const WeightLayout& layout, const std::byte* stored, int64_t, int64_t,
                    int64_t blocks, std::byte* out, const std::array<int64_t, kMaxPlanes>& starts) {
  quant_traits(layout.desc.type).decode(stored, reinterpret_cast<float*>(out + starts[0]), blocks);
}

/// Elements that are not in blocks, row by row.
void pack_elements(const WeightLayout& layout, const std::byte* stored, int64_t, int64_t,
                   int64_t blocks, std::byte* out, const std::array<int64_t, kMaxPlanes>& starts) {
  std::memcpy(out + starts[0], stored, static_cast<size_t>(blocks * layout.block_bytes));
}

void pack_fields(const WeightLayout& layout, const std::byte* stored, int64_t stride, int64_t rows,
                 int64_t blocks, std::byte* out, const std::array<int64_t, kMaxPlanes>& starts) {
  const std::span<const Field> fields = fields_of(layout.desc.type);
  for (size_t p = 0; p < fields.size(); ++p) {
    const Field field = fields[p];
    const auto pack = [&](auto unit) {
      pack_plane<decltype(unit)::value>(stored + field.offset, stride, layout.block_bytes, rows,
                                        blocks, field.bytes / field.unit(), layout.together,
                                        out + starts[p]);
    };
    switch (field.unit()) {
      case 1: pack(std::integral_constant<int, 1>()); break;
      case 2: pack(std::integral_constant<int, 2>()); break;
      case 4: pack(std::integral_constant<int, 4>()); break;
      case 8: pack(std::integral_constant<int, 8>()); break;
      case 12: pack(std::integral_constant<int, 12>()); break;
      default: pack(std::integral_constant<int, 16>()); break;
    }
  }
}

/// The plain form of a type. `bytes` gets the bytes of its planes.
PackedForm plain_form(const TensorDesc& desc, std::array<int64_t, kMaxPlanes>& bytes) {
  const DType type = desc.type;
  const bool halves = type == DType::f16 || type == DType::bf16;
  PackedForm form;
  form.elements = halves ? 32 : dtype_info(type).block_elements;
  form.together = form.elements == 1 ? 1 : 32;
  form.pack = pack_fields;
  if (form.together == 1) form.pack = pack_elements;
  if (type == DType::f64 || type == DType::i64) form.pack = pack_converted;
  const std::span<const Field> fields = fields_of(type);
  for (size_t p = 0; p < fields.size(); ++p) bytes[p] = fields[p].bytes * form.together;
  form.plane_bytes = std::span(bytes).first(fields.size());
  return form;
}

/// Holds what the form refers to until the layout is made.
struct PlainForm {
  explicit PlainForm(const TensorDesc& desc) : form(plain_form(desc, bytes)) {}
  std::array<int64_t, kMaxPlanes> bytes{};
  PackedForm form;
};

}  // namespace

WeightLayout::WeightLayout(const TensorDesc& of) : WeightLayout(of, PlainForm(of).form) {}

WeightLayout::WeightLayout(const TensorDesc& of, const PackedForm& form)
    : desc(of), pack(form.pack), planes(form.plane_bytes.size()), together(form.together) {
  const DTypeInfo& info = dtype_info(desc.type);
  block_bytes = info.block_bytes * (form.elements / info.block_elements);
  row_blocks = div_ceil(desc.shape[0], form.elements);
  row_bytes = desc.shape[0] / info.block_elements * info.block_bytes;
  matrix_groups = div_ceil(desc.shape[1], together);
  groups = row_blocks > 0 ? matrix_groups * desc.shape[2] * desc.shape[3] : 0;
  for (size_t p = 0; p < planes; ++p) {
    plane_bytes[p] = form.plane_bytes[p];
    offsets[p] = bytes;
    bytes += round_up<int64_t>(groups * row_blocks * plane_bytes[p], 16);
  }
}

int64_t WeightLayout::group_block_bytes() const {
  int64_t sum = 0;
  for (size_t p = 0; p < planes; ++p) sum += plane_bytes[p];
  return sum;
}

WeightLayout::Rows WeightLayout::rows_of(int64_t group) const {
  const int64_t first = group % matrix_groups * together;
  return {group / matrix_groups * desc.shape[1] + first, std::min(together, desc.shape[1] - first)};
}

}  // namespace infer::gpu
