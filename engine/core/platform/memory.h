// What the system says about memory.
#pragma once

#include <cstdint>
#include <string>

namespace infer::os {

struct HostMemory {
  int64_t total = 0;      ///< bytes: the machine's, or a lower limit's
  int64_t available = 0;  ///< bytes that can be taken without swapping, within all limits
  int64_t held = 0;       ///< bytes this process has already, as what limits `available` counts
  int64_t stack = 0;      ///< bytes a further thread's stack takes, counted likewise
};

/// From /proc/meminfo (sysinfo(2) without it), the process's cgroup and those above it (versions 1
/// and 2) and its own limits (RLIMIT_DATA, RLIMIT_AS).
HostMemory host_memory();

/// What a cgroup's files in `dir` leave: limits, use without page cache, which is given back under
/// pressure. Nothing changes where they are absent or set no limit. Either version.
void apply_cgroup_files(const std::string& dir, HostMemory& memory);

}  // namespace infer::os
