// Where a program needs a barrier or a dependency: a node touches memory that the nodes since the
// last barrier wrote, or writes memory that they read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace infer::gpu {

/// Memory [begin, end) by device address.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

class Hazards {
 public:
  /// True if a node that reads and writes these needs a barrier before it.
  bool before(const std::vector<Range>& reads, const std::vector<Range>& writes) const {
    return meets(written_, reads) || meets(written_, writes) || meets(read_, writes);
  }
  void add(const std::vector<Range>& reads, const std::vector<Range>& writes) {
    read_.insert(read_.end(), reads.begin(), reads.end());
    written_.insert(written_.end(), writes.begin(), writes.end());
  }
  /// A barrier was recorded.
  void clear() {
    read_.clear();
    written_.clear();
  }

 private:
  static bool meets(const std::vector<Range>& a, const std::vector<Range>& b) {
    return std::ranges::any_of(a, [&](const Range& x) {
      return std::ranges::any_of(
          b, [&](const Range& y) { return x.begin < y.end && y.begin < x.end; });
    });
  }

  std::vector<Range> read_, written_;
};

}  // namespace infer::gpu
