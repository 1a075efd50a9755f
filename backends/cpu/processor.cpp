// Which instruction sets the processor has.
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "backends/cpu/kernels.h"
#include "engine/core/platform/processor.h"

namespace infer::cpu {
namespace {

#if defined(__x86_64__)
/// CPUID leaf 7, sub-leaf 1, EAX bit 4 (Intel SDM, CPUID); compilers name it only later.
bool has_avx_vnni() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 16) != 0;
}

/// CPUID leaf 7, EDX: AMX-TILE is bit 24, AMX-INT8 bit 25.
bool has_amx_int8() {
  constexpr unsigned kBoth = 3u << 24;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBoth) == kBoth;
}
#endif

}  // namespace

bool isa_runs_here(std::string_view name) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  if (name == "avx2") return avx2;
  if (name == "avx2_vnni") return avx2 && has_avx_vnni();
  if (name == "avx512_amx") {
    return isa_runs_here("avx512") && has_amx_int8() && os::allow_tiles();
  }
  if (name == "avx512") {
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
  }
#elif defined(__aarch64__)
  const os::ArmFeatures features = os::arm_features();
  if (name == "neon") return true;  // part of every AArch64 that runs Linux
  if (name == "neon_dotprod") return features.dotprod;
  if (name == "neon_i8mm") return features.dotprod && features.i8mm;
#endif
  return name == "scalar";
}

}  // namespace infer::cpu
