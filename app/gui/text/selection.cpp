#include "gui/text/selection.h"

#include <algorithm>

#include "gui/text/utf8.h"

namespace infer::gui {
namespace {

TextPosition end_of(const Document& document) {
  if (document.blocks.empty()) return {};
  const auto last = static_cast<uint32_t>(document.blocks.size() - 1);
  return {last, static_cast<uint32_t>(document.blocks[last].text.size())};
}

TextPosition within(const Document& document, TextPosition at) {
  if (at.block >= document.blocks.size()) return end_of(document);
  const auto size = static_cast<uint32_t>(document.blocks[at.block].text.size());
  return {at.block, std::min(at.offset, size)};
}

/// The line of code, the cell, or the whole block.
TextRange paragraph_at(const Block& block, size_t at) {
  if (block.kind == BlockKind::table) {
    for (const Cell& cell : block.cells) {
      if (at <= cell.end) return {cell.begin, cell.end};
    }
  }
  if (block.kind != BlockKind::code) return {0, block.text.size()};
  const size_t before = at == 0 ? std::string::npos : block.text.rfind('\n', at - 1);
  return {before == std::string::npos ? 0 : before + 1,
          std::min(block.text.find('\n', at), block.text.size())};
}

TextRange grain_at(const Document& document, TextPosition at, Grain grain) {
  if (at.block >= document.blocks.size()) return {at.offset, at.offset};
  const Block& block = document.blocks[at.block];
  switch (grain) {
    case Grain::word: return word_at(block.text, at.offset);
    case Grain::paragraph: return paragraph_at(block, at.offset);
    default: return {at.offset, at.offset};
  }
}

}  // namespace

void Selection::press(const Document& document, TextPosition at, Grain grain, bool extend) {
  at = within(document, at);
  if (extend) return drag_to(document, at, grain_);
  grain_ = grain;
  const TextRange range = grain_at(document, at, grain);
  anchor_ = pressed_first_ = {at.block, static_cast<uint32_t>(range.begin)};
  head_ = pressed_last_ = {at.block, static_cast<uint32_t>(range.end)};
}

void Selection::drag(const Document& document, TextPosition at) { drag_to(document, at, grain_); }

void Selection::drag_to(const Document& document, TextPosition at, Grain grain) {
  at = within(document, at);
  const TextRange range = grain_at(document, at, grain);
  const TextPosition begin{at.block, static_cast<uint32_t>(range.begin)};
  const TextPosition end{at.block, static_cast<uint32_t>(range.end)};
  if (grain == Grain::character) {
    anchor_ = at < pressed_first_ ? pressed_last_ : pressed_first_;
    head_ = at;
  } else if (begin < pressed_first_) {
    anchor_ = pressed_last_;
    head_ = begin;
  } else {
    anchor_ = pressed_first_;
    head_ = std::max(end, pressed_last_);
  }
}

void Selection::select_all(const Document& document) {
  anchor_ = pressed_first_ = pressed_last_ = {};
  head_ = end_of(document);
  grain_ = Grain::character;
}

void Selection::move(const Document& document, Step step) {
  if (document.blocks.empty()) return;
  TextPosition at = within(document, head_);
  pressed_first_ = pressed_last_ = within(document, anchor_);
  const std::string& text = document.blocks[at.block].text;
  const auto size = static_cast<uint32_t>(text.size());
  switch (step) {
    case Step::left:
    case Step::word_left:
      if (at.offset == 0) {
        if (at.block == 0) break;
        --at.block;
        at.offset = static_cast<uint32_t>(document.blocks[at.block].text.size());
      } else {
        at.offset = static_cast<uint32_t>(cluster_begin(text, at.offset));
        if (step == Step::word_left) {
          while (at.offset > 0 && text[at.offset] == ' ') --at.offset;
          at.offset = static_cast<uint32_t>(word_at(text, at.offset).begin);
        }
      }
      break;
    case Step::right:
    case Step::word_right:
      if (at.offset >= size) {
        if (at.block + 1 < document.blocks.size()) at = {at.block + 1, 0};
      } else if (step == Step::right) {
        at.offset = static_cast<uint32_t>(cluster_end(text, at.offset, size));
      } else {
        while (at.offset + 1 < size && text[at.offset] == ' ') ++at.offset;
        at.offset = static_cast<uint32_t>(word_at(text, at.offset).end);
      }
      break;
    case Step::start: at = {}; break;
    case Step::end: at = end_of(document); break;
  }
  drag_to(document, at, Grain::character);
}

}  // namespace infer::gui
