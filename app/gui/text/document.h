// A message as plain data: blocks from top to bottom, each with its text and how parts of it look.
//
// Lists and quotes are not blocks. A block names the containers that it stands in, so that a
// document is one flat list whatever the nesting. All offsets are bytes in Block::text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace infer::gui {

/// Bits of Span::style.
enum Style : uint8_t {
  kStrong = 1,
  kEmphasis = 2,
  kStrike = 4,
  kCode = 8,
  kMath = 16,   ///< LaTeX, shown as its source
  kLink = 32,   ///< Span::link says where to
  kImage = 64,  ///< alternative text of an image
};

/// A part of a block's text that looks the same. The spans of a block cover its text in order.
struct Span {
  uint32_t begin = 0, end = 0;
  uint8_t style = 0;
  int32_t link = -1;  ///< index in Block::links

  bool operator==(const Span&) const = default;
};

enum class Task : uint8_t { none, open, done };

/// A quote or an item of a list that a block stands in.
struct Container {
  enum class Kind : uint8_t { quote, bullet, number } kind = Kind::quote;
  uint8_t digits = 1;        ///< number: digits of the widest number of the list
  bool begins_here = false;  ///< the block is its first one, an item's marker is shown
  char delimiter = '.';      ///< number: '.' or ')'
  Task task = Task::none;
  int32_t number = 0;

  bool operator==(const Container&) const = default;
};

enum class BlockKind : uint8_t { paragraph, heading, code, table, rule };
enum class Align : uint8_t { left, centre, right };

struct Cell {
  uint32_t begin = 0, end = 0;

  bool operator==(const Cell&) const = default;
};

struct Block {
  BlockKind kind = BlockKind::paragraph;
  uint8_t level = 0;                  ///< heading: 1 to 6
  bool close_to_last = false;         ///< less space above: items of a list without blank lines
  std::vector<Container> containers;  ///< outermost first, at most kMaxContainers
  std::string text;                   ///< table: cells end with tab, rows with '\n'
  std::vector<Span> spans;            ///< empty for code
  std::vector<std::string> links;
  std::string language;        ///< code: first word of the fence's line
  std::vector<Align> columns;  ///< table
  std::vector<Cell> cells;     ///< table: rows × columns, the first row is the header

  bool operator==(const Block&) const = default;
};

/// Containers of a block beyond this number are left out: deeper nesting looks the same.
constexpr size_t kMaxContainers = 12;
constexpr size_t kMaxColumns = 64;  ///< a table with more columns stays text

/// `ids` has one number for each block. A block with the same number as in an earlier state of the
/// document is the same, or (code) has the same text with more at its end.
struct Document {
  std::vector<Block> blocks;
  std::vector<uint64_t> ids;
  uint64_t revision = 0;  ///< changes with the blocks
};

/// A place in a document.
struct TextPosition {
  uint32_t block = 0;
  uint32_t offset = 0;  ///< bytes in the block's text

  auto operator<=>(const TextPosition&) const = default;
};

/// The text from `from` to `to` without markup: list markers as "- " and "1. ", tables with tabs
/// between cells, blocks apart by an empty line. Within one block it is that piece of text alone.
std::string plain_text(const Document& document, TextPosition from, TextPosition to);
std::string plain_text(const Document& document);

}  // namespace infer::gui
