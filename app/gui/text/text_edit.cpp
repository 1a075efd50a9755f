#include "gui/text/text_edit.h"

#include <algorithm>
#include <utility>

namespace infer::gui {
namespace {

constexpr size_t kNowhere = static_cast<size_t>(-1);
/// States that can be undone, and bytes of them, at most.
constexpr size_t kMostStates = 200;
constexpr size_t kMostBytes = size_t{32} << 20;

/// How many bytes from `at` on are one character of valid UTF-8; 0: none.
size_t valid_length(std::string_view text, size_t at) {
  const Char c = char_at(text, at);
  std::string again;
  append_utf8(again, c.code);
  return text.substr(at, c.length) == again ? c.length : 0;
}

std::string fit(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '\r') {
      if (at + 1 >= text.size() || text[at + 1] != '\n') out += '\n';
      ++at;
    } else if (static_cast<unsigned char>(c) < 0x80) {
      if (c == '\n' || c == '\t' || (c >= 0x20 && c != 0x7F)) out += c;
      ++at;
    } else if (const size_t length = valid_length(text, at); length > 0) {
      out.append(text, at, length);
      at += length;
    } else {
      append_utf8(out, 0xFFFD);
      ++at;
    }
  }
  return out;
}

}  // namespace

TextRange TextEdit::selected() const {
  return {std::min(caret_, anchor_), std::max(caret_, anchor_)};
}

std::string_view TextEdit::selected_text() const {
  const TextRange range = selected();
  return std::string_view(text_).substr(range.begin, range.end - range.begin);
}

void TextEdit::reset(std::string text) {
  text_ = std::move(text);
  caret_ = anchor_ = text_.size();
  done_.clear();
  undone_.clear();
  typed_to_ = kNowhere;
}

void TextEdit::add(std::string_view text, bool types) {
  const std::string fitting = fit(text);
  if (fitting.empty() && !has_selection()) return;
  types = types && !has_selection();
  remember(types && typed_to_ == caret_);
  replace(selected(), fitting);
  if (types) typed_to_ = caret_;
}

void TextEdit::erase(Step step) {
  TextRange range = selected();
  if (!has_selection()) {
    const size_t to = target(step);
    range = {std::min(caret_, to), std::max(caret_, to)};
  }
  if (range.begin == range.end) return;
  remember(false);
  replace(range, {});
}

void TextEdit::move(Step step, bool selects) {
  if (has_selection() && !selects && (step == Step::left || step == Step::right)) {
    const TextRange range = selected();
    return move_to(step == Step::left ? range.begin : range.end, false);
  }
  move_to(target(step), selects);
}

void TextEdit::move_to(size_t offset, bool selects) {
  caret_ = std::min(offset, text_.size());
  if (!selects) anchor_ = caret_;
  typed_to_ = kNowhere;
}

void TextEdit::select_all() { select({0, text_.size()}); }

void TextEdit::select(TextRange range) {
  anchor_ = std::min(range.begin, text_.size());
  caret_ = std::min(range.end, text_.size());
  typed_to_ = kNowhere;
}

void TextEdit::select_paragraph(size_t offset) {
  offset = std::min(offset, text_.size());
  const size_t before = offset == 0 ? std::string::npos : text_.rfind('\n', offset - 1);
  select({before == std::string::npos ? 0 : before + 1,
          std::min(text_.find('\n', offset), text_.size())});
}

size_t TextEdit::target(Step step) const {
  size_t at = caret_;
  const auto blank = [&](size_t i) { return is_blank(text_[i]) || text_[i] == '\n'; };
  switch (step) {
    case Step::left: return cluster_begin(text_, at);
    case Step::right: return at == text_.size() ? at : cluster_end(text_, at, text_.size());
    case Step::word_left:
      while (at > 0 && blank(at - 1)) --at;
      return at == 0 ? 0 : word_at(text_, at - 1).begin;
    case Step::word_right:
      while (at < text_.size() && blank(at)) ++at;
      return at == text_.size() ? at : word_at(text_, at).end;
    case Step::paragraph_start: {
      const size_t before = at == 0 ? std::string::npos : text_.rfind('\n', at - 1);
      return before == std::string::npos ? 0 : before + 1;
    }
    case Step::start: return 0;
    case Step::end: return text_.size();
  }
  return at;
}

/// Before a change. `joins`: it is undone together with the one before.
void TextEdit::remember(bool joins) {
  undone_.clear();
  typed_to_ = kNowhere;
  if (joins && !done_.empty()) return;
  done_.push_back({text_, caret_, anchor_});
  size_t bytes = 0;
  size_t kept = 0;
  while (kept < std::min(done_.size(), kMostStates)) {
    bytes += done_[done_.size() - 1 - kept].text.size();
    if (bytes > kMostBytes && kept > 0) break;
    ++kept;
  }
  done_.erase(done_.begin(), done_.end() - static_cast<std::ptrdiff_t>(kept));
}

void TextEdit::replace(TextRange range, std::string_view with) {
  text_.replace(range.begin, range.end - range.begin, with);
  caret_ = anchor_ = range.begin + with.size();
}

void TextEdit::take_back(std::vector<State>& to, std::vector<State>& from) {
  if (from.empty()) return;
  to.push_back({std::move(text_), caret_, anchor_});
  text_ = std::move(from.back().text);
  caret_ = from.back().caret;
  anchor_ = from.back().anchor;
  from.pop_back();
  typed_to_ = kNowhere;
}

}  // namespace infer::gui
