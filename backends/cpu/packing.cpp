#include "backends/cpu/packing.h"

#include <cstring>

#include "engine/backend/device.h"
#include "engine/core/half.h"
#include "engine/quant/fit.h"

namespace infer::cpu {
namespace {

/// A run of a block's bytes that is interleaved in units of 1, 2 or 4 bytes.
struct Field {
  int16_t unit;
  int16_t count;      ///< units; 0 ends the list
  bool half = false;  ///< of float32, kept as binary16

  int64_t bytes() const { return int64_t{unit} * count; }
  int64_t packed_bytes() const { return half ? 2 * count : bytes(); }
};

constexpr int kMaxFields = 4;
struct Fields {
  DType type;
  Field fields[kMaxFields];
};

constexpr Fields kFields[] = {
    {DType::q4_0, {{2, 1}, {4, 4}}},
    {DType::q4_1, {{4, 5}}},
    {DType::q5_0, {{2, 1}, {4, 5}}},
    {DType::q5_1, {{4, 6}}},
    {DType::q8_0, {{2, 1}, {4, 8}}},
    {DType::q2_k, {{4, 21}}},
    {DType::q3_k, {{4, 27}, {2, 1}}},
    {DType::q4_k, {{4, 36}}},
    {DType::q5_k, {{4, 44}}},
    {DType::q6_k, {{4, 52}, {2, 1}}},
    {DType::iq2_xxs, {{2, 1}, {4, 16}}},
    {DType::iq2_xs, {{2, 1}, {4, 18}}},
    {DType::iq2_s, {{2, 1}, {4, 20}}},
    {DType::iq3_xxs, {{2, 1}, {4, 24}}},
    {DType::iq3_s, {{2, 1}, {4, 27}}},
    {DType::iq1_s, {{2, 1}, {4, 12}}},
    {DType::iq1_m, {{4, 14}}},
    {DType::iq4_nl, {{2, 1}, {4, 4}}},
    {DType::iq4_xs, {{2, 2}, {4, 33}}},
    {DType::mxfp4, {{1, 1}, {4, 4}}},
    {DType::nvfp4, {{4, 9}}},
    {DType::tq1_0, {{4, 13}, {2, 1}}},
    {DType::tq2_0, {{4, 16}, {2, 1}}},
    {DType::q1_0, {{2, 1}, {4, 4}}},
    {DType::q2_0, {{2, 1}, {4, 4}}},
    {DType::nf4, {{4, 1, true}, {4, 8}}},
    {DType::fp4, {{4, 1, true}, {4, 8}}},
};

const Fields* fields_of(DType type) {
  for (const Fields& f : kFields) {
    if (f.type == type) return &f;
  }
  return nullptr;
}

/// from[r·stride + i·unit] → to[(i·rows + r)·unit].
template <typename Unit>
void interleave(const std::byte* from, int64_t stride, int64_t count, int64_t units, int64_t rows,
                std::byte* to) {
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t i = 0; i < units; ++i) {
      std::memcpy(to + (i * rows + r) * int64_t{sizeof(Unit)},
                  from + r * stride + i * int64_t{sizeof(Unit)}, sizeof(Unit));
    }
  }
}

template <typename Unit>
void separate(const std::byte* from, int64_t row, int64_t units, int64_t rows, std::byte* to) {
  for (int64_t i = 0; i < units; ++i) {
    std::memcpy(to + i * int64_t{sizeof(Unit)}, from + (i * rows + row) * int64_t{sizeof(Unit)},
                sizeof(Unit));
  }
}

void interleave_half(const std::byte* from, int64_t stride, int64_t count, std::byte* to) {
  for (int64_t r = 0; r < count; ++r) {
    float value;
    std::memcpy(&value, from + r * stride, sizeof(value));
    const uint16_t bits = f32_to_f16_finite(value);
    std::memcpy(to + r * int64_t{sizeof(bits)}, &bits, sizeof(bits));
  }
}

void separate_half(const std::byte* from, int64_t row, std::byte* to) {
  uint16_t bits;
  std::memcpy(&bits, from + row * int64_t{sizeof(bits)}, sizeof(bits));
  const float value = f16_to_f32(bits);
  std::memcpy(to, &value, sizeof(value));
}

}  // namespace

int64_t PackedLayout::block_bytes() const {
  const Fields* fields = fields_of(desc.type);
  if (fields == nullptr) return dtype_info(desc.type).block_bytes;
  int64_t bytes = 0;
  for (const Field& field : fields->fields) bytes += field.packed_bytes();
  return bytes;
}

std::optional<HostLayout> PackedLayout::host_layout() const {
  HostLayout layout{rows, {}};
  for (const Field& field : fields_of(desc.type)->fields) {
    if (field.half) return std::nullopt;
    if (field.count > 0) layout.fields.push_back({field.unit, field.count});
  }
  return layout;
}

void pack_group(const PackedLayout& layout, const std::byte* from, int64_t stride, int64_t count,
                std::byte* to) {
  const Fields& fields = *fields_of(layout.desc.type);
  if (count < layout.rows) std::memset(to, 0, static_cast<size_t>(layout.group_bytes()));
  const int64_t blocks = layout.desc.row_bytes() / layout.desc.stride[0];
  for (int64_t b = 0; b < blocks; ++b) {
    for (const Field& field : fields.fields) {
      switch (field.half ? 0 : field.unit) {
        case 1: interleave<uint8_t>(from, stride, count, field.count, layout.rows, to); break;
        case 2: interleave<uint16_t>(from, stride, count, field.count, layout.rows, to); break;
        case 4: interleave<uint32_t>(from, stride, count, field.count, layout.rows, to); break;
        default:
          if (field.half) interleave_half(from, stride, count, to);
          break;
      }
      from += field.bytes();
      to += field.packed_bytes() * layout.rows;
    }
  }
}

void unpack_row(const PackedLayout& layout, const std::byte* group, int64_t row, std::byte* to) {
  const Fields& fields = *fields_of(layout.desc.type);
  const int64_t blocks = layout.desc.row_bytes() / layout.desc.stride[0];
  for (int64_t b = 0; b < blocks; ++b) {
    for (const Field& field : fields.fields) {
      switch (field.half ? 0 : field.unit) {
        case 1: separate<uint8_t>(group, row, field.count, layout.rows, to); break;
        case 2: separate<uint16_t>(group, row, field.count, layout.rows, to); break;
        case 4: separate<uint32_t>(group, row, field.count, layout.rows, to); break;
        default:
          if (field.half) separate_half(group, row, to);
          break;
      }
      to += field.bytes();
      group += field.packed_bytes() * layout.rows;
    }
  }
}

}  // namespace infer::cpu
