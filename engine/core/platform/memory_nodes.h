// Memory nodes (NUMA): parts of the memory, each near to some of the processors. A processor reads
// what lies at another node more slowly, and the links between nodes carry less than all of them
// together.
#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace infer::os {

struct MemoryNode {
  int id;                       ///< the system's number
  std::vector<int> processors;  ///< those that this process may use, at least one
};

/// The nodes whose processors this process may use, by number. None where there are fewer than two,
/// where the system does not say, and where a policy of memory was chosen for the process already
/// (numactl, set_mempolicy(2)), which is then left as it is.
std::vector<MemoryNode> memory_nodes();

/// The same from a folder such as /sys/devices/system/node, for a process that may use processors
/// `usable`, which ascend.
std::vector<MemoryNode> memory_nodes(const std::string& folder, std::span<const int> usable);

/// Keeps the calling thread on the processors of a node while this lives. Memory that it is the
/// first to touch lies there.
class OnNode {
 public:
  /// null: does nothing. Nor does it where the system refuses.
  explicit OnNode(const MemoryNode* node);
  ~OnNode();
  OnNode(const OnNode&) = delete;
  OnNode& operator=(const OnNode&) = delete;

 private:
  bool moved_ = false;
  cpu_set_t before_;
};

/// Spreads memory that was not touched yet evenly over nodes, page by page. Does nothing where the
/// system refuses, as it does in many containers.
void spread_over(std::span<const MemoryNode> nodes, std::byte* data, int64_t bytes);

/// The node where a byte of this process's memory lies; -1: none yet, or the system does not say.
int node_of(const std::byte* at);

}  // namespace infer::os
