#include "engine/core/platform/large_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <string>

#include "engine/core/checked.h"

namespace infer::os {
namespace {

using Clock = std::chrono::steady_clock;

void touch(std::byte* at) { *static_cast<volatile std::byte*>(at) = std::byte{0}; }

/// Bytes of a large page; 0 if the system gives none.
int64_t large_page() {
  static const int64_t bytes = [] {
    const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
    std::ifstream enabled(folder + "enabled");
    std::ifstream size_file(folder + "hpage_pmd_size");
    std::string given;
    int64_t size = 0;
    // "always [madvise] never": the choice in force stands in brackets.
    if (!std::getline(enabled, given) || !(size_file >> size)) return int64_t{0};
    const bool sensible = size >= 4096 && size <= int64_t{1} << 30;
    return given.find("[never]") == std::string::npos && sensible ? size : int64_t{0};
  }();
  return bytes;
}

/// Seconds a byte that touching fresh memory takes with pages of the usual size: the best of three
/// rounds of some milliseconds.
double usual_seconds() {
  static const double seconds = [] {
    constexpr int64_t kBytes = int64_t{8} << 20;
    double best = std::numeric_limits<double>::infinity();
    for (int round = 0; round < 3; ++round) {
      void* const data =
          ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (data == MAP_FAILED) return 0.0;
      ::madvise(data, kBytes, MADV_NOHUGEPAGE);
      const auto begun = Clock::now();
      for (int64_t i = 0; i < kBytes; i += 4096) touch(static_cast<std::byte*>(data) + i);
      best = std::min(best, std::chrono::duration<double>(Clock::now() - begun).count());
      ::munmap(data, kBytes);
    }
    return best / kBytes;
  }();
  return seconds;
}

}  // namespace

void take_large_pages(std::byte* data, int64_t bytes, int64_t behind) {
  constexpr double kSlow = 2;        // times as long as usual
  constexpr int64_t kMostLeft = 64;  // large pages left out after one that was slow
  const int64_t page = large_page();
  if (page == 0) return;
  const auto address = reinterpret_cast<intptr_t>(data);
  int64_t left_out = 0;
  for (int64_t at = round_up<int64_t>(address, page) - address;
       at < bytes && at + page <= bytes + behind; at += page) {
    ::madvise(data + at, static_cast<size_t>(page), MADV_HUGEPAGE);
    const auto begun = Clock::now();
    touch(data + at);
    const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    // The next ones may be better.
    const bool slow = seconds > kSlow * usual_seconds() * static_cast<double>(page);
    left_out = slow ? std::clamp<int64_t>(2 * left_out, 1, kMostLeft) : 0;
    at += left_out * page;
  }
}

int64_t large_page_bytes_held() {
  const std::string name = "AnonHugePages:";
  std::ifstream file("/proc/self/smaps_rollup");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with(name)) return std::stoll(line.substr(name.size())) * 1024;
  }
  return 0;
}

}  // namespace infer::os
