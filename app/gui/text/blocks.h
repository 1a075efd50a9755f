// Markdown (GitHub's dialect, parsed by cmark-gfm) to blocks, in one go. MarkdownStream uses it for
// the part of a growing text that may still change.
#pragma once

#include <string_view>
#include <vector>

#include "gui/text/document.h"

namespace infer::gui {

/// A list that began before the text: its next item is the first one of the text.
struct ContinuedList {
  bool present = false;
  int32_t number = 0;  ///< of the next item; used if the list is numbered
  bool tight = true;
};

struct BlocksOptions {
  bool hard_breaks = false;  ///< a line end is a line end, as people type it
  ContinuedList continued;
};

/// A place where the text could be cut: what comes before it gives the same blocks whatever
/// follows.
struct Cut {
  int line = 0;       ///< 0-based line in the text
  size_t blocks = 0;  ///< blocks that come before it
  ContinuedList list;
};

struct Blocks {
  std::vector<Block> blocks;
  std::vector<Cut> cuts;  ///< begins of top-level blocks and of items of top-level lists, in order
  /// The last top-level block if that is code between fences.
  struct Fence {
    char mark = 0;  ///< '`' or '~'; 0 if it is none
    int length = 0;
    int indent = 0;
    int line = 0;
  } last_fence;
};

/// `text` is sanitised. Images become their alternative text, raw HTML its source. Linear in the
/// text (see guard.h), no recursion.
Blocks parse_blocks(std::string_view text, const BlocksOptions& options);

}  // namespace infer::gui
