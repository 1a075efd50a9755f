#include "engine/sample/grammar/code_points.h"

#include <algorithm>

namespace infer {

CodePointSet::CodePointSet(std::vector<CodePointRange> ranges) {
  std::ranges::sort(ranges, {}, &CodePointRange::first);
  std::vector<CodePointRange> merged;
  for (const CodePointRange& r : ranges) {
    if (r.first > r.last) continue;
    if (!merged.empty() && r.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, r.last);
    } else {
      merged.push_back(r);
    }
  }
  constexpr char32_t kFirstSurrogate = 0xd800;
  constexpr char32_t kLastSurrogate = 0xdfff;
  for (const CodePointRange& r : merged) {
    if (r.first < kFirstSurrogate) {
      ranges_.push_back({r.first, std::min<char32_t>(r.last, kFirstSurrogate - 1)});
    }
    if (r.last > kLastSurrogate) {
      ranges_.push_back({std::max<char32_t>(r.first, kLastSurrogate + 1), r.last});
    }
  }
}

bool CodePointSet::contains(char32_t code) const {
  const auto after = std::ranges::upper_bound(ranges_, code, {}, &CodePointRange::first);
  return after != ranges_.begin() && code <= std::prev(after)->last;
}

CodePointSet CodePointSet::complement() const {
  std::vector<CodePointRange> gaps;
  char32_t next = 0;
  for (const CodePointRange& r : ranges_) {
    if (r.first > next) gaps.push_back({next, r.first - 1});
    next = r.last + 1;
  }
  if (next <= kMaxCodePoint) gaps.push_back({next, kMaxCodePoint});
  return CodePointSet(std::move(gaps));
}

CodePointSet CodePointSet::united(const CodePointSet& other) const {
  std::vector<CodePointRange> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  return CodePointSet(std::move(both));
}

CodePointSet CodePointSet::intersected(const CodePointSet& other) const {
  std::vector<CodePointRange> common;
  for (size_t i = 0, j = 0; i < ranges_.size() && j < other.ranges_.size();) {
    const CodePointRange& a = ranges_[i];
    const CodePointRange& b = other.ranges_[j];
    const char32_t first = std::max(a.first, b.first);
    const char32_t last = std::min(a.last, b.last);
    if (first <= last) common.push_back({first, last});
    a.last < b.last ? ++i : ++j;
  }
  return CodePointSet(std::move(common));
}

}  // namespace infer
