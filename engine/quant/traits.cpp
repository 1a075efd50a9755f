#include <cmath>
#include <type_traits>

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

}  // namespace

const QuantTraits& quant_traits(DType type) {
  return kTraits[&dtype_info(type) - all_dtypes().data()];
}

bool holds(DType type, float value) {
  const float size = std::fabs(value);
  switch (type) {  // from the middle between the largest number and the next on, it is infinite
    case DType::f16: return size < 65520.0f;
    case DType::bf16: return size < 0x1.ffp127f;
    default: return std::isfinite(value);
  }
}

}  // namespace infer
