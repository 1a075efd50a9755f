// Types of keys and values as kernels number them. Host and device code both include this.
#pragma once

#include <cstdint>

namespace infer::cuda {

enum CacheType : uint32_t {
  kCacheF32 = 0,
  kCacheF16 = 1,
  kCacheBf16 = 2,
  kCacheQ8_0 = 3,
  kCacheQ4_0 = 4,
};

}  // namespace infer::cuda
