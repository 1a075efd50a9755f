// Where LaTeX stands in Markdown text.
#pragma once

#include <string_view>
#include <vector>

#include "gui/text/utf8.h"

namespace infer::gui {

/// The ranges of $…$, $$…$$, \(…\) and \[…\] with their marks, in order. Code (between backticks or
/// fences) has none. $…$ stays on one line and follows pandoc: no blank inside its ends, no digit
/// after it, so that amounts of money are not formulas. None contains an empty line or is longer
/// than 8 KiB. Linear in the text.
std::vector<TextRange> math_spans(std::string_view text);

}  // namespace infer::gui
