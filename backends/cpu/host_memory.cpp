#include "backends/cpu/host_memory.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace infer::cpu {
namespace {

/// The number in a file that holds one; −1 for "max", absence or anything else.
int64_t read_number(const std::string& path) {
  std::ifstream file(path);
  int64_t number = -1;
  return file >> number ? number : -1;
}

/// The directory of the process's cgroup and of every one above it count.
void apply_cgroups(HostMemory& memory) {
  std::ifstream self("/proc/self/cgroup");
  std::string line;
  while (std::getline(self, line)) {
    if (!line.starts_with("0::")) continue;
    for (std::string path = line.substr(3);; path.resize(path.find_last_of('/'))) {
      const std::string dir = "/sys/fs/cgroup" + (path == "/" ? "" : path);
      const int64_t limit = read_number(dir + "/memory.max");
      const int64_t used = read_number(dir + "/memory.current");
      if (limit >= 0 && used >= 0) {
        // Page cache counts as used but is given back under pressure.
        std::ifstream stat(dir + "/memory.stat");
        std::string key;
        int64_t value = 0;
        int64_t cache = 0;
        while (stat >> key >> value) {
          if (key == "inactive_file" || key == "active_file") cache += value;
        }
        memory.total = std::min(memory.total, limit);
        memory.available = std::min(memory.available, std::max<int64_t>(0, limit - used + cache));
      }
      if (path.find_last_of('/') == std::string::npos || path.empty()) break;
    }
  }
}

}  // namespace

HostMemory host_memory() {
  HostMemory memory;
  struct sysinfo system {};
  if (sysinfo(&system) == 0) {  // where /proc is absent; it does not count the page cache as free
    memory.total = static_cast<int64_t>(system.totalram) * system.mem_unit;
    memory.available = static_cast<int64_t>(system.freeram + system.bufferram) * system.mem_unit;
  }
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  std::string rest;
  while (meminfo >> key >> kib && std::getline(meminfo, rest)) {
    if (key == "MemTotal:") memory.total = kib * 1024;
    if (key == "MemAvailable:") memory.available = kib * 1024;
  }
  apply_cgroups(memory);
  return memory;
}

}  // namespace infer::cpu
