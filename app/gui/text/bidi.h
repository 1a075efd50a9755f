// The order in which the parts of a line are read, for lines with letters of right-to-left scripts
// (Hebrew, Arabic, …): the implicit levels of UAX 9 without explicit marks, which sanitised text
// does not have. How Arabic letters join is in arabic.h.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace infer::gui {

/// Whether the text may have letters of right-to-left scripts. Quick; false only if there are none.
bool may_be_right_to_left(std::string_view text);

/// Whether a paragraph runs from right to left: its first letter decides.
bool runs_right_to_left(std::string_view text);

struct DirectionRun {
  uint32_t begin = 0, end = 0;  ///< bytes
  bool right_to_left = false;
};

/// The line [begin, end) of a paragraph as runs from left to right.
std::vector<DirectionRun> visual_runs(std::string_view text, size_t begin, size_t end,
                                      bool paragraph_right_to_left);

/// The bracket that is drawn for `code` in a run from right to left.
char32_t mirrored(char32_t code);

}  // namespace infer::gui
