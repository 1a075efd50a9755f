// Prepares text for the Markdown parser so that no text costs it more than linear time and memory,
// and so that LaTeX passes through it unchanged.
//
// A character that the parser should not act on is replaced by a control character that stands for
// it (sanitised text has none). unguarded() puts the character back into what the parser returns.
#pragma once

#include <string>
#include <string_view>

namespace infer::gui {

constexpr char kMathBegin = 0x1E;
constexpr char kMathEnd = 0x1F;

/// `text` is sanitised. Line numbers stay; columns and offsets within a line may change.
///
/// The parser does not see: containers beyond 24 on a line, tables of more than kMaxColumns or of
/// mostly missing cells or more than eight in a paragraph, marks of inline markup beyond 1,000 in a
/// paragraph or in a word of 2,000 bytes or in a paragraph beyond 64 KiB, and link definitions that
/// would be copied too often. LaTeX in $…$, $$…$$, \(…\) and \[…\] comes back as its source,
/// between kMathBegin and kMathEnd.
std::string guarded(std::string_view text);

/// The text that a piece of guarded text stands for. kMathBegin and kMathEnd are left out.
std::string unguarded(std::string_view text);

}  // namespace infer::gui
