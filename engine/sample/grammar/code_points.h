// Sets of Unicode scalar values as sorted ranges.
#pragma once

#include <cstdint>
#include <vector>

namespace infer {

inline constexpr char32_t kMaxCodePoint = 0x10ffff;

struct CodePointRange {
  char32_t first;
  char32_t last;  ///< included
  bool operator==(const CodePointRange&) const = default;
};

/// Never holds surrogates, which no valid text contains. Ranges are sorted, apart, not adjacent
/// (but for the gap of the surrogates).
class CodePointSet {
 public:
  CodePointSet() = default;
  explicit CodePointSet(std::vector<CodePointRange> ranges);
  static CodePointSet all() { return CodePointSet({{0, kMaxCodePoint}}); }

  bool empty() const { return ranges_.empty(); }
  bool contains(char32_t code) const;
  const std::vector<CodePointRange>& ranges() const { return ranges_; }

  CodePointSet complement() const;
  CodePointSet united(const CodePointSet& other) const;
  CodePointSet intersected(const CodePointSet& other) const;

 private:
  std::vector<CodePointRange> ranges_;
};

}  // namespace infer
