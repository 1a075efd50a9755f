#include "engine/core/platform/processor.h"

#include <fmt/format.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

namespace infer::os {
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

/// CPUs that a cgroup v2 quota leaves, 0 if there is none.
int cgroup_cpus() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota_text, period_text;  // microseconds; no quota is "max"
  file >> quota_text >> period_text;
  int64_t quota = 0, period = 0;
  const auto read = [](const std::string& text, int64_t& to) {
    return std::from_chars(text.data(), text.data() + text.size(), to).ec == std::errc() && to > 0;
  };
  if (!read(quota_text, quota) || !read(period_text, period)) return 0;
  const double cpus = static_cast<double>(quota) / static_cast<double>(period);
  return std::max(1, static_cast<int>(std::lround(cpus)));
}

}  // namespace

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  return processor_name(cpuinfo);
}

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

int usable_processors() {
  int count = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) count = CPU_COUNT(&set);
  if (const int quota = cgroup_cpus(); quota > 0) count = std::min(count, quota);
  return std::max(count, 1);
}

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

int64_t level2_cache_bytes() { return sysconf(_SC_LEVEL2_CACHE_SIZE); }

bool allow_tiles() {
#if defined(__x86_64__) && defined(SYS_arch_prctl)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kOsUsesXsave = 1u << 27;  // CPUID leaf 1, ECX
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsUsesXsave) == 0) return false;
  // XCR0: the system saves the shapes of tiles and their contents (Intel, Software Developer's
  // Manual, volume 1, section 13.3).
  constexpr unsigned kTileStates = 3u << 17;
  unsigned low = 0;
  unsigned high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & kTileStates) != kTileStates) return false;
  constexpr long kAskForState = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileContents = 18;
  return syscall(SYS_arch_prctl, kAskForState, kTileContents) == 0;
#else
  return false;
#endif
}

ArmFeatures arm_features() {
#if defined(__aarch64__)
  return {(getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0, (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0};
#else
  return {};
#endif
}

}  // namespace infer::os
