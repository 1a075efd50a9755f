#include "gui/text/markdown.h"

#include <algorithm>

namespace infer::gui {
namespace {

constexpr size_t kLongTail = 32 * 1024;
constexpr size_t kLongList = 8 * 1024;

/// Byte offset of 0-based line `line`, counted from `from`.
size_t line_offset(std::string_view text, size_t from, int line) {
  for (; line > 0 && from < text.size(); --line) {
    from = std::min(text.find('\n', from), text.size() - 1) + 1;
  }
  return from;
}

}  // namespace

void MarkdownStream::append(std::string_view bytes) {
  if (bytes.empty()) return;
  finished_ = false;
  changed_ = true;
  sanitiser_.append(bytes, text_);
}

void MarkdownStream::finish() {
  if (finished_) return;
  sanitiser_.finish(text_);
  finished_ = changed_ = true;
}

void MarkdownStream::set(std::string_view bytes) {
  // The numbers of blocks go on, so that no layout of the old text is taken for one of the new.
  Document old = std::move(document_);
  const uint64_t next_id = next_id_;
  *this = MarkdownStream(options_);
  next_id_ = next_id;
  document_ = std::move(old);
  append(bytes);
  finish();
}

bool MarkdownStream::defines_links() const { return text_.find("]:") != std::string::npos; }

const Document& MarkdownStream::document() {
  if (!changed_) return document_;
  changed_ = false;
  ++document_.revision;
  if (fence_.mark != 0) read_code();
  if (fence_.mark == 0 && (parsed_end_ < text_.size() || text_.empty())) parse_tail();
  if (finished_ && !whole_ && (cut_list_ || defines_links())) {
    tail_ = settled_blocks_ = 0;
    continued_ = {};
    cut_list_ = false;
    fence_ = {};
    parsed_end_ = 0;
    parse_tail();
  }
  return document_;
}

void MarkdownStream::parse_tail() {
  const size_t tail = text_.size() - tail_;
  const size_t parsed = parsed_end_ - std::min(parsed_end_, tail_);
  const bool wait = !finished_ && parsed > kLongTail && tail - parsed < parsed / 8;
  if (wait) {
    // Shown as text until it is worth while to parse all of the tail again.
    Block block;
    block.text = text_.substr(parsed_end_);
    block.spans.push_back({0, static_cast<uint32_t>(block.text.size()), 0, -1});
    block.close_to_last = true;
    replace_from(waiting_from_, {std::move(block)});
    return;
  }
  const std::string_view text = std::string_view(text_).substr(tail_);
  Blocks parsed_blocks = parse_blocks(text, {options_.hard_breaks, continued_});
  parsed_bytes_ += text.size();
  whole_ = tail_ == 0;
  const size_t count = parsed_blocks.blocks.size();
  replace_from(settled_blocks_, std::move(parsed_blocks.blocks));
  waiting_from_ = settled_blocks_ + count;
  parsed_end_ = text_.size();
  settle(parsed_blocks);
}

void MarkdownStream::settle(const Blocks& parsed) {
  const std::string_view text = std::string_view(text_).substr(tail_);
  // A line that is not complete may still turn into something that belongs to the block above.
  const auto lines = static_cast<int>(std::ranges::count(text, '\n'));
  const bool long_tail = text.size() > kLongList;
  const Cut* best = nullptr;
  constexpr int kUnknownLine = -2;
  int last_line = -1;
  for (const Cut& cut : parsed.cuts) {
    // Where the parser made two blocks out of one paragraph it does not know the line of the first.
    const bool known = cut.line > last_line && last_line != kUnknownLine;
    if (known && cut.line < lines && (!cut.list.present || long_tail)) best = &cut;
    last_line = cut.line < 0 ? kUnknownLine : std::max(last_line, cut.line);
  }
  if (best != nullptr && best->line > 0) settle_before(*best);
  const Blocks::Fence& fence = parsed.last_fence;
  if (fence.mark == 0 || fence.line >= lines || best == nullptr || best->line != fence.line) return;
  fence_ = fence;
  code_line_ = line_offset(text_, tail_, 1);
  code_size_ = 0;
  code_has_line_ = false;
  read_code();
}

void MarkdownStream::settle_before(const Cut& cut) {
  tail_ = line_offset(text_, tail_, cut.line);
  settled_blocks_ += cut.blocks;
  continued_ = cut.list;
  cut_list_ = cut_list_ || cut.list.present;
}

bool MarkdownStream::closes_code(std::string_view line) const {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const size_t end = std::min(line.find_first_not_of(fence_.mark, begin), line.size());
  return begin < 4 && end - begin >= static_cast<size_t>(fence_.length) &&
         line.find_first_not_of(" \t", end) == std::string_view::npos;
}

void MarkdownStream::append_code(std::string_view line) {
  Block& block = document_.blocks.back();
  size_t skip = 0;
  while (skip < static_cast<size_t>(fence_.indent) && skip < line.size() && line[skip] == ' ') {
    ++skip;
  }
  if (code_has_line_) block.text += '\n';
  block.text.append(line.substr(skip));
}

void MarkdownStream::read_code() {
  Block& block = document_.blocks.back();
  const size_t shown = block.text.size();
  block.text.resize(std::min(code_size_, shown));
  while (code_line_ < text_.size()) {
    const size_t end = text_.find('\n', code_line_);
    const std::string_view line =
        std::string_view(text_).substr(code_line_, std::min(end, text_.size()) - code_line_);
    if (end == std::string::npos) {
      // Perhaps the begin of the closing fence: it must not show and then go away.
      const bool may_close =
          line.find_first_not_of(std::string{' ', fence_.mark}) == std::string_view::npos;
      if (finished_ ? !closes_code(line) : !may_close) append_code(line);
      break;
    }
    parsed_bytes_ += line.size();
    code_line_ = end + 1;
    if (closes_code(line)) {
      fence_ = {};
      tail_ = parsed_end_ = code_line_;
      settled_blocks_ = waiting_from_ = document_.blocks.size();
      continued_ = {};
      whole_ = false;
      break;
    }
    append_code(line);
    code_has_line_ = true;
    code_size_ = block.text.size();
  }
  if (fence_.mark != 0) parsed_end_ = text_.size();
  if (block.text.size() < shown) document_.ids.back() = next_id_++;
}

void MarkdownStream::replace_from(size_t first, std::vector<Block> blocks) {
  std::vector<Block>& all = document_.blocks;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t at = first + i;
    if (at == all.size()) {
      all.push_back(std::move(blocks[i]));
      document_.ids.push_back(next_id_++);
    } else if (!(all[at] == blocks[i])) {
      all[at] = std::move(blocks[i]);
      document_.ids[at] = next_id_++;
    }
  }
  all.resize(first + blocks.size());
  document_.ids.resize(all.size());
}

std::string fenced(std::string_view text, std::string_view language) {
  size_t longest = 2;
  for (size_t at = 0; (at = text.find('`', at)) != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_not_of('`', at), text.size());
    longest = std::max(longest, end - at);
    at = end;
  }
  const std::string fence(longest + 1, '`');
  std::string out = fence;
  out.append(language).append("\n").append(text);
  if (!text.ends_with('\n')) out += '\n';
  return out + fence;
}

}  // namespace infer::gui
