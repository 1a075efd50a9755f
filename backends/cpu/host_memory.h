// What the system says about memory.
#pragma once

#include <cstdint>

namespace infer::cpu {

struct HostMemory {
  int64_t total = 0;      ///< bytes: the machine's, or the cgroup's limit where lower
  int64_t available = 0;  ///< bytes that can be taken without swapping, within the cgroup's limit
};

/// From /proc/meminfo (sysinfo(2) without it) and the process's cgroup (version 2).
HostMemory host_memory();

}  // namespace infer::cpu
