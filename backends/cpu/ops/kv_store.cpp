#include <algorithm>
#include <cstring>

#include "backends/cpu/parallel.h"
#include "engine/graph/cache_blocks.h"
#include "engine/quant/quant.h"

namespace infer::cpu {
namespace {

Status supports(const NodeView& node) {
  const KvGeometry& kv = node.graph.kv();
  for (const DType type : {kv.k_type, kv.v_type}) {
    if (quant_traits(type).encode != nullptr) continue;
    return error(StatusCode::unsupported, "a cache of type {} cannot be written",
                 dtype_info(type).ident);
  }
  return check_blocks(kv);
}

void store(const CpuCall& call, DType type, const float* x, std::byte* to, int64_t n) {
  if (type == DType::f16) {
    call.vec().f32_to_f16(reinterpret_cast<uint16_t*>(to), x, n);
  } else if (type == DType::q8_0) {
    call.vec().attention->encode_q8_0(x, to, n);
  } else {
    quant_traits(type).encode(x, to, n);
  }
}

/// n elements of a key, into their rows of a page's keys.
template <typename Bits>
void scatter(const std::byte* from, std::byte* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(to + i * kPageTokens * int64_t{sizeof(Bits)}, from + i * int64_t{sizeof(Bits)},
                sizeof(Bits));
  }
}

/// A key that lies across: `to` is where its first element goes.
void store_across(const CpuCall& call, const float* x, std::byte* to, int64_t n, int64_t bytes) {
  constexpr int64_t kPart = 64;
  std::byte part[kPart * sizeof(float)];
  for (int64_t i = 0; i < n; i += kPart) {
    const int64_t count = std::min(kPart, n - i);
    store(call, call.kv.k_type, x + i, part, count);
    if (bytes == 2) {
      scatter<uint16_t>(part, to + i * kPageTokens * bytes, count);
    } else {
      scatter<uint32_t>(part, to + i * kPageTokens * bytes, count);
    }
  }
}

void run(const CpuCall& call) {
  const auto layer = static_cast<size_t>(std::get<op::KvStore>(call.params).kv_layer);
  const KvLayerShape& shape = call.kv.layers[layer];
  const KvLayerLayout& at = call.kv_layout.layers[layer];
  const TensorRef& k = call.inputs[0];
  const TensorRef& v = call.inputs[1];
  for_each_row(call, k.desc, [&](int64_t h, int64_t r) {
    const int32_t slot = *call.inputs[2].row<int32_t>(0, r);
    const int32_t sequence = *call.inputs[3].row<int32_t>(0, r);
    if (!at.ends_block(slot)) return;
    std::byte* page = call.pages[static_cast<size_t>(at.kind)].page(sequence, slot);
    const int64_t token = h * kPageTokens + at.row(slot);
    std::byte* keys = page + at.k_offset;
    if (at.k_element > 0) {
      store_across(call, k.row<float>(h, r),
                   keys + h * kPageTokens * at.k_row + slot % kPageTokens * at.k_element,
                   shape.k_dim, at.k_element);
    } else {
      store(call, call.kv.k_type, k.row<float>(h, r), keys + token * at.k_row, shape.k_dim);
    }
    if (at.v_offset == at.k_offset) return;  // the key holds the value
    store(call, call.kv.v_type, v.row<float>(h, r), page + at.v_offset + token * at.v_row,
          shape.v_dim);
  });
}

}  // namespace

const CpuOp& kv_store_cpu() {
  static const CpuOp op{OpId::KvStore, Sharing::rows, supports, no_scratch, run};
  return op;
}

}  // namespace infer::cpu
