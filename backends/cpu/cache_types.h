// The types of a cache that kernels of attention read.
#pragma once

#include "backends/cpu/kernels.h"

namespace infer::cpu {

inline Status reads_cache(const NodeView& node) {
  const KvGeometry& kv = node.graph.kv();
  for (const DType type : {kv.k_type, kv.v_type}) {
    if (type != DType::f32 && type != DType::f16 && type != DType::bf16 && type != DType::q8_0 &&
        type != DType::q4_0) {
      return error(StatusCode::unsupported, "a cache of type {} cannot be read",
                   dtype_info(type).ident);
    }
  }
  return {};
}

}  // namespace infer::cpu
