#include "backends/cpu/processor.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "backends/cpu/kernels.h"

namespace infer::cpu {
namespace {

/// A kind of core by the implementer and part numbers of its main identification register, which is
/// all that Linux tells of an ARM processor (MIDR_EL1, Arm Architecture Reference Manual; the parts
/// are in the cores' own manuals).
struct Core {
  std::string_view implementer;
  std::string_view part;
  std::string_view name;
};

constexpr Core kCores[] = {
    {"0x41", "0xd03", "Cortex-A53"},  {"0x41", "0xd04", "Cortex-A35"},
    {"0x41", "0xd05", "Cortex-A55"},  {"0x41", "0xd07", "Cortex-A57"},
    {"0x41", "0xd08", "Cortex-A72"},  {"0x41", "0xd09", "Cortex-A73"},
    {"0x41", "0xd0a", "Cortex-A75"},  {"0x41", "0xd0b", "Cortex-A76"},
    {"0x41", "0xd0c", "Neoverse N1"}, {"0x41", "0xd0d", "Cortex-A77"},
    {"0x41", "0xd40", "Neoverse V1"}, {"0x41", "0xd41", "Cortex-A78"},
    {"0x41", "0xd44", "Cortex-X1"},   {"0x41", "0xd46", "Cortex-A510"},
    {"0x41", "0xd47", "Cortex-A710"}, {"0x41", "0xd48", "Cortex-X2"},
    {"0x41", "0xd49", "Neoverse N2"}, {"0x41", "0xd4d", "Cortex-A715"},
    {"0x41", "0xd4e", "Cortex-X3"},   {"0x41", "0xd4f", "Neoverse V2"},
    {"0x41", "0xd80", "Cortex-A520"}, {"0x41", "0xd81", "Cortex-A720"},
    {"0x41", "0xd82", "Cortex-X4"},   {"0x46", "0x001", "Fujitsu A64FX"},
    {"0x48", "0xd01", "Kunpeng 920"}, {"0xc0", "0xac3", "Ampere-1"},
    {"0xc0", "0xac4", "Ampere-1A"},
};

std::string core_name(std::string_view implementer, std::string_view part) {
  for (const Core& core : kCores) {
    if (core.implementer == implementer && core.part == part) return std::string(core.name);
  }
  return fmt::format("ARM core {} of implementer {}", part, implementer);
}

/// What stands behind the colon, if a line begins with `key`.
bool field(std::string_view line, std::string_view key, std::string& value) {
  const size_t colon = line.find(": ");
  if (!line.starts_with(key) || colon == std::string_view::npos) return false;
  value = line.substr(colon + 2);
  return true;
}

#if defined(__x86_64__)
/// CPUID leaf 7, sub-leaf 1, EAX bit 4 (Intel SDM, CPUID); compilers name it only later.
bool has_avx_vnni() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 16) != 0;
}
#endif

}  // namespace

std::string processor_name(std::istream& cpuinfo) {
  std::vector<std::pair<std::string, int>> kinds;  // of cores, and how many
  std::string line;
  std::string value;
  std::string implementer;
  while (std::getline(cpuinfo, line)) {
    if (field(line, "model name", value)) return value;
    if (field(line, "CPU implementer", value)) implementer = value;
    if (!field(line, "CPU part", value)) continue;
    const std::string name = core_name(implementer, value);
    const auto it = std::ranges::find(kinds, name, &std::pair<std::string, int>::first);
    if (it == kinds.end()) {
      kinds.emplace_back(name, 1);
    } else {
      ++it->second;
    }
  }
  if (kinds.empty()) return "CPU";
  if (kinds.size() == 1) return kinds[0].first;
  std::string all;
  for (const auto& [name, count] : kinds) {
    all += fmt::format("{}{} × {}", all.empty() ? "" : " + ", count, name);
  }
  return all;
}

bool isa_runs_here(std::string_view name) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  if (name == "avx2") return avx2;
  if (name == "avx2_vnni") return avx2 && has_avx_vnni();
  if (name == "avx512") {
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
  }
#elif defined(__aarch64__)
  const bool dotprod = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  if (name == "neon") return true;  // part of every AArch64 that runs Linux
  if (name == "neon_dotprod") return dotprod;
  if (name == "neon_i8mm") return dotprod && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
#endif
  return name == "scalar";
}

}  // namespace infer::cpu
