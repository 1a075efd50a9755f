// The layouts of code and tables. Used by layout.cpp.
#pragma once

#include "gui/text/layout.h"

namespace infer::gui {

/// Code is wrapped, never scrolled sideways. Goes on where layout.resume says.
void lay_out_code(const Block& block, const Measure& measure, const LayoutStyle& style,
                  const Highlighter* highlighter, BlockLayout& layout);

/// Columns share the room by what they need. If their longest words do not fit, the table becomes
/// wider than the room.
void lay_out_table(const Block& block, const Measure& measure, const LayoutStyle& style,
                   BlockLayout& layout);

}  // namespace infer::gui
