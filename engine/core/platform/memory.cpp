#include "engine/core/platform/memory.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>

namespace infer::os {
namespace {

/// The number in a file that holds one; −1 for "max", absence or anything else.
int64_t read_number(const std::string& path) {
  std::ifstream file(path);
  int64_t number = -1;
  return file >> number ? number : -1;
}

/// Calls fn(directory) for `path` below `root` and for every one above it.
template <typename Fn>
void for_each_above(const std::string& root, std::string path, const Fn& fn) {
  for (;;) {
    fn(root + (path == "/" ? "" : path));
    const size_t slash = path.find_last_of('/');
    if (slash == std::string::npos) break;
    path.resize(slash);
  }
}

/// Lines of /proc/self/cgroup: "0::/path" of version 2, "7:cpu,memory:/path" of version 1. Inside a
/// container the path may be the host's, which is not there: the root's files hold then.
void apply_cgroups(HostMemory& memory) {
  std::ifstream self("/proc/self/cgroup");
  std::string line;
  while (std::getline(self, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v1 = controllers == "memory" || controllers.starts_with("memory,") ||
                    controllers.ends_with(",memory") ||
                    controllers.find(",memory,") != std::string::npos;
    if (!v1 && !controllers.empty()) continue;
    for_each_above(v1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup", line.substr(second + 1),
                   [&](const std::string& dir) { apply_cgroup_files(dir, memory); });
  }
}

/// Stacks of threads are touched to this depth; under a limit on data all of a stack counts.
constexpr int64_t kTouchedStack = 64 << 10;
/// What the C library takes where the limit of stacks is none.
constexpr int64_t kUnlimitedStack = 2 << 20;

int64_t limit_of(int resource) {
  struct rlimit limit {};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return -1;
  constexpr auto kMost = static_cast<rlim_t>(INT64_MAX);
  return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > kMost
             ? -1
             : static_cast<int64_t>(limit.rlim_cur);
}

void apply_process_limits(HostMemory& memory) {
  int64_t pages[6] = {};  // of /proc/self/statm: size, resident, shared, text, library, data
  std::ifstream statm("/proc/self/statm");
  for (int64_t& count : pages) {
    std::string digits;
    statm >> digits;
    std::from_chars(digits.data(), digits.data() + digits.size(), count);
  }
  const int64_t page = sysconf(_SC_PAGESIZE);
  memory.held = pages[1] * page;
  memory.stack = kTouchedStack;
  const int64_t stack_limit = limit_of(RLIMIT_STACK);
  const int64_t stack = stack_limit < 0 ? kUnlimitedStack : stack_limit;
  const auto apply = [&](int64_t limit, int64_t used, int64_t planned) {
    if (limit < 0) return;
    memory.total = std::min(memory.total, limit);
    if (std::max<int64_t>(0, limit - used) >= memory.available) return;
    memory.available = std::max<int64_t>(0, limit - used);
    memory.held = planned;
  };
  const int64_t data = limit_of(RLIMIT_DATA);
  const int64_t space = limit_of(RLIMIT_AS);
  const int64_t data_used = pages[5] * page;
  apply(data, data_used, data_used);
  // A plan counts the data and the code in memory as the process's. The rest of the code and of the
  // libraries counts as addresses too.
  apply(space, pages[0] * page, data_used + pages[2] * page);
  if (data >= 0 || space >= 0) memory.stack = stack;
}

}  // namespace

void apply_cgroup_files(const std::string& dir, HostMemory& memory) {
  const bool v2 = read_number(dir + "/memory.current") >= 0;
  const int64_t limit = read_number(dir + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  const int64_t used = read_number(dir + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  if (limit < 0 || used < 0) return;
  std::ifstream stat(dir + "/memory.stat");
  std::string key;
  int64_t value = 0;
  int64_t cache = 0;
  while (stat >> key >> value) {
    // Version 1 names what includes the groups below with "total_", and prints both.
    if (key == (v2 ? "inactive_file" : "total_inactive_file")) cache += value;
    if (key == (v2 ? "active_file" : "total_active_file")) cache += value;
  }
  const int64_t room = std::max<int64_t>(0, limit - std::max<int64_t>(0, used - cache));
  memory.total = std::min(memory.total, limit);
  memory.available = std::min(memory.available, room);
}

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
  apply_process_limits(memory);
  return memory;
}

}  // namespace infer::os
