#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

#include "engine/quant/quant.h"
#include "infer_all_codecs.h"  // generated: every engine/quant/<type>.h

namespace infer {
namespace {

template <DType T>
constexpr QuantTraits make_traits() {
  using C = Codec<T>;
  using Block = typename C::Block;
  QuantTraits traits{T, nullptr, nullptr, nullptr};
  traits.decode = [](const void* in, float* out, int64_t n) {
    C::decode(static_cast<const Block*>(in), out, n / dtype_info(T).block_elements);
  };
  if constexpr (requires(const float* in, Block* out) { C::encode(in, out, int64_t{}); }) {
    traits.encode = [](const float* in, void* out, int64_t n) {
      C::encode(in, static_cast<Block*>(out), n / dtype_info(T).block_elements);
    };
    traits.quantise = [](const float* in, const float*, void* out, int64_t n) {
      C::encode(in, static_cast<Block*>(out), n / dtype_info(T).block_elements);
    };
  }
  if constexpr (requires(const float* in, Block* out) { C::quantise(in, in, out, int64_t{}); }) {
    traits.quantise = [](const float* in, const float* importance, void* out, int64_t n) {
      C::quantise(in, importance, static_cast<Block*>(out), n / dtype_info(T).block_elements);
    };
  }
  return traits;
}

#define INFER_DTYPE(ident, name, id, elements, bytes) \
  static_assert(sizeof(Codec<DType::ident>::Block) == (bytes), name);
#include "engine/core/dtypes.def"
#undef INFER_DTYPE

constexpr QuantTraits kTraits[] = {
#define INFER_DTYPE(ident, name, id, elements, bytes) make_traits<DType::ident>(),
#include "engine/core/dtypes.def"
#undef INFER_DTYPE
};

/// The largest power of two that a block still has after encoding, where its scale has a limit.
float most_of_block(const DTypeInfo& info) {
  const QuantTraits& traits = quant_traits(info.type);
  const EncodeFn encode = traits.encode;
  if ((encode == nullptr && traits.quantise == nullptr) || info.block_elements == 1) {
    return std::numeric_limits<float>::max();
  }
  std::vector<float> values(static_cast<size_t>(info.block_elements));
  std::vector<float> read(values.size());
  std::vector<std::byte> block(static_cast<size_t>(info.block_bytes));
  const auto share = [&](float value) {  // of a value among zeros that is left
    values[0] = value;
    if (encode != nullptr) {
      encode(values.data(), block.data(), info.block_elements);
    } else {
      traits.quantise(values.data(), nullptr, block.data(), info.block_elements);
    }
    traits.decode(block.data(), read.data(), info.block_elements);
    return std::fabs(read[0]) / value;
  };
  const float usual = share(1);
  float most = 1;
  for (; most < 0x1p40f; most *= 2) {
    if (!(share(2 * most) > usual / 2)) return most;
  }
  return std::numeric_limits<float>::max();
}

}  // namespace

const QuantTraits& quant_traits(DType type) {
  return kTraits[&dtype_info(type) - all_dtypes().data()];
}

float most_held(DType type) {
  // From the middle between the largest number and the next on, it is infinite.
  if (type == DType::f16) return std::nextafter(65520.0f, 0.0f);
  if (type == DType::bf16) return std::nextafter(0x1.ffp127f, 0.0f);
  static const std::vector<float> most = [] {
    std::vector<float> of_type;
    for (const DTypeInfo& info : all_dtypes()) of_type.push_back(most_of_block(info));
    return of_type;
  }();
  return most[static_cast<size_t>(&dtype_info(type) - all_dtypes().data())];
}

bool holds(DType type, float value) { return std::fabs(value) <= most_held(type); }

}  // namespace infer
