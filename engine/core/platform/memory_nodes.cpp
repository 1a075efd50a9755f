#include "engine/core/platform/memory_nodes.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "engine/core/checked.h"
#include "engine/core/platform/files.h"

namespace infer::os {
namespace {

/// The number after `prefix`, if that is all of `text`, and less than what any system has.
bool number_in(std::string_view text, std::string_view prefix, int& number) {
  constexpr int kMost = 1 << 16;
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 && number < kMost;
}

/// The processors of a list such as "0-3,8" that are usable; what is no list has none.
std::vector<int> processors_in(std::string_view list, std::span<const int> usable) {
  std::vector<int> all;
  while (!list.empty()) {
    const std::string_view part = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), part.size() + 1));
    const size_t dash = part.find('-');
    int first = 0;
    int last = 0;
    if (!number_in(part.substr(0, dash), "", first)) return {};
    if (dash == std::string_view::npos) {
      last = first;
    } else if (!number_in(part.substr(dash + 1), "", last)) {
      return {};
    }
    std::ranges::copy_if(usable, std::back_inserter(all),
                         [&](int p) { return first <= p && p <= last; });
  }
  return all;
}

/// Whether memory goes where the thread that touches it first runs.
bool default_policy() {
  int mode = MPOL_DEFAULT;
  if (syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0) != 0) return true;
  return mode == MPOL_DEFAULT || mode == MPOL_LOCAL;
}

}  // namespace

std::vector<MemoryNode> memory_nodes() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || !default_policy()) return {};
  std::vector<int> usable;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &allowed)) usable.push_back(processor);
  }
  return memory_nodes("/sys/devices/system/node", usable);
}

std::vector<MemoryNode> memory_nodes(const std::string& folder, std::span<const int> usable) {
  const Answer<std::vector<std::string>> names = names_in(folder);
  if (!names) return {};
  std::vector<MemoryNode> nodes;
  for (const std::string& name : *names) {
    int id = 0;
    if (!number_in(name, "node", id)) continue;
    std::ifstream file(folder + "/" + name + "/cpulist");
    std::string list;
    std::getline(file, list);
    std::vector<int> processors = processors_in(list, usable);
    // Some nodes are memory alone: slower, or on another card.
    if (!processors.empty()) nodes.push_back({id, std::move(processors)});
  }
  if (nodes.size() < 2) return {};
  std::ranges::sort(nodes, {}, &MemoryNode::id);
  return nodes;
}

OnNode::OnNode(const MemoryNode* node) {
  if (node == nullptr || sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const int processor : node->processors) CPU_SET(processor, &wanted);
  moved_ = sched_setaffinity(0, sizeof(wanted), &wanted) == 0;
}

OnNode::~OnNode() {
  if (moved_) sched_setaffinity(0, sizeof(before_), &before_);
}

void spread_over(std::span<const MemoryNode> nodes, std::byte* data, int64_t bytes) {
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  const int64_t page = sysconf(_SC_PAGESIZE);
  const auto address = reinterpret_cast<intptr_t>(data);
  const int64_t begin = round_up<int64_t>(address, page) - address;
  const int64_t end = (address + bytes) / page * page - address;
  if (nodes.empty() || begin >= end) return;
  std::vector<unsigned long> mask(static_cast<size_t>(nodes.back().id) / kBits + 1);
  for (const MemoryNode& node : nodes) {
    const auto id = static_cast<size_t>(node.id);
    mask[id / kBits] |= 1UL << id % kBits;
  }
  // The count of bits is one more than are read (mbind(2)).
  syscall(SYS_mbind, data + begin, static_cast<unsigned long>(end - begin), MPOL_INTERLEAVE,
          mask.data(), mask.size() * kBits + 1, 0U);
}

int node_of(const std::byte* at) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* address = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(at) / page * page);
  int node = -1;
  if (syscall(SYS_move_pages, 0, 1UL, &address, nullptr, &node, 0) != 0) return -1;
  return std::max(node, -1);
}

}  // namespace infer::os
