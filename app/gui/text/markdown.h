// Markdown that grows at its end, as a model writes it, to a document. Only the part that may still
// change is parsed again: the last block, or the last item of a long list, or the last line of
// code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gui/text/blocks.h"
#include "gui/text/document.h"
#include "gui/text/sanitise.h"

namespace infer::gui {

/// Markdown that shows a text as code, whatever is in it.
std::string fenced(std::string_view text, std::string_view language);

struct MarkdownOptions {
  bool hard_breaks = false;  ///< a line end is a line end, as people type it
};

/// One thread. The bytes may be anything; a character may be cut between two pieces.
///
/// While the text grows, a link whose definition is in another block stays text. A block beyond
/// 32 KiB that is neither code nor a list (a table or a quote) is parsed again only after it has
/// grown by an eighth; what follows is shown as plain text until then. finish() settles both: the
/// document then is that of the whole text parsed in one go.
class MarkdownStream {
 public:
  explicit MarkdownStream(MarkdownOptions options = {}) : options_(options) {}

  void append(std::string_view bytes);
  /// The text has ended. A later append() continues it.
  void finish();
  /// Replaces the text and finishes it.
  void set(std::string_view bytes);

  /// Parses what is new. Valid until the next call.
  const Document& document();
  /// The sanitised Markdown.
  const std::string& source() const { return text_; }
  /// Bytes that the parser was given in all, for tests of the work done.
  size_t parsed_bytes() const { return parsed_bytes_; }

 private:
  void parse_tail();
  /// Moves the begin of the part that may change to the last safe place.
  void settle(const Blocks& parsed);
  void settle_before(const Cut& cut);
  void read_code();
  void append_code(std::string_view line);
  bool closes_code(std::string_view line) const;
  /// Replaces the blocks from `first` on. Blocks that stay the same keep their number.
  void replace_from(size_t first, std::vector<Block> blocks);
  bool defines_links() const;

  MarkdownOptions options_;
  Sanitiser sanitiser_;
  std::string text_;
  Document document_;
  uint64_t next_id_ = 1;

  size_t tail_ = 0;            ///< bytes of text_ whose blocks are settled
  size_t settled_blocks_ = 0;  ///< number of those blocks
  ContinuedList continued_;    ///< the tail begins within a list
  size_t parsed_end_ = 0;      ///< text_ up to here is in the document
  size_t waiting_from_ = 0;    ///< blocks that were parsed; later text waits behind them
  bool whole_ = true;          ///< all of it was parsed in one go
  bool cut_list_ = false;      ///< a list was cut: its numbers and spacing may differ
  bool finished_ = false;
  bool changed_ = true;  ///< since the last document()
  size_t parsed_bytes_ = 0;

  /// Code between fences at the end of the text is read line by line.
  Blocks::Fence fence_;
  size_t code_line_ = 0;  ///< begin of the first line that is not complete
  size_t code_size_ = 0;  ///< bytes of the block's text from complete lines
  bool code_has_line_ = false;
};

}  // namespace infer::gui
