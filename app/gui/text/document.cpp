#include "gui/text/document.h"

#include <algorithm>

namespace infer::gui {
namespace {

/// What stands before the first line of a block, and before its other lines.
struct Prefixes {
  std::string first, other;
};

Prefixes prefixes_of(const Block& block, bool from_start) {
  Prefixes prefixes;
  for (const Container& container : block.containers) {
    if (container.kind == Container::Kind::quote) {
      prefixes.first += "> ";
      prefixes.other += "> ";
      continue;
    }
    std::string marker = container.kind == Container::Kind::bullet
                             ? "- "
                             : std::to_string(container.number) + container.delimiter + " ";
    const std::string blank(marker.size(), ' ');
    if (container.task != Task::none) marker += container.task == Task::done ? "[x] " : "[ ] ";
    prefixes.first += container.begins_here && from_start ? marker : blank;
    prefixes.other += blank;
  }
  return prefixes;
}

void append_block(std::string& out, const Block& block, size_t begin, size_t end) {
  const Prefixes prefixes = prefixes_of(block, begin == 0);
  if (block.kind == BlockKind::rule) {
    out += prefixes.first + "---";
    return;
  }
  out += prefixes.first;
  for (size_t at = begin; at < end;) {
    const size_t line = std::min(block.text.find('\n', at), end);
    out.append(block.text, at, line - at);
    if (line < end) {
      out += '\n';
      out += prefixes.other;
    }
    at = line + 1;
  }
}

}  // namespace

std::string plain_text(const Document& document, TextPosition from, TextPosition to) {
  std::string out;
  if (to < from) std::swap(from, to);
  if (from.block == to.block && from.block < document.blocks.size()) {
    const std::string& text = document.blocks[from.block].text;
    const size_t begin = std::min<size_t>(from.offset, text.size());
    return text.substr(begin, to.offset - begin);
  }
  for (size_t i = from.block; i <= to.block && i < document.blocks.size(); ++i) {
    const Block& block = document.blocks[i];
    const size_t size = block.text.size();
    const size_t begin = i == from.block ? std::min<size_t>(from.offset, size) : 0;
    const size_t end = i == to.block ? std::min<size_t>(to.offset, size) : size;
    if (i > from.block) out += block.close_to_last ? "\n" : "\n\n";
    append_block(out, block, begin, end);
  }
  return out;
}

std::string plain_text(const Document& document) {
  std::string out;
  for (const Block& block : document.blocks) {
    if (&block != &document.blocks.front()) out += block.close_to_last ? "\n" : "\n\n";
    append_block(out, block, 0, block.text.size());
  }
  return out;
}

}  // namespace infer::gui
