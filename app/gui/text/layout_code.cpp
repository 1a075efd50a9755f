#include <algorithm>
#include <cmath>

#include "gui/text/layout_parts.h"
#include "gui/text/utf8.h"

namespace infer::gui {
namespace {

/// Bytes of a line that are coloured. Lines of real code are shorter.
constexpr size_t kMaxColoured = 4096;

class CodeLayout {
 public:
  CodeLayout(const Block& block, const Measure& measure, const LayoutStyle& style,
             const Highlighter* highlighter, BlockLayout& layout)
      : text_(block.text), measure_(measure), highlighter_(highlighter), layout_(layout) {
    const float em = measure.ascent(Face::body) + measure.descent(Face::body);
    const float face = measure.ascent(Face::code) + measure.descent(Face::code);
    line_height_ = std::ceil(face * 1.1f);
    baseline_ = measure.ascent(Face::code) + std::floor((line_height_ - face) / 2);
    padding_ = std::floor(style.code_padding * em);
    top_ = std::floor(style.code_header * em) + std::floor(padding_ / 2);
    x_ = layout.indent + padding_;
    width_ = std::max(layout.room - 2 * padding_, em);
  }

  void run() {
    BlockLayout::Resume& resume = layout_.resume;
    layout_.lines.resize(resume.lines);
    layout_.runs.resize(resume.runs);
    for (bool more = true; more;) {
      const size_t end = text_.find('\n', resume.text);
      more = end != std::string::npos;
      lay_line(std::min(end, text_.size()), more);
    }
    layout_.width = layout_.indent + layout_.room;
    layout_.height = top_ + line_height_ * static_cast<float>(layout_.lines.size()) + padding_;
  }

 private:
  /// Lays the line from resume.text to `end` and moves on behind it if it `is_complete`.
  void lay_line(size_t end, bool is_complete) {
    BlockLayout::Resume& resume = layout_.resume;
    const size_t begin = resume.text;
    HighlightState state = resume.state;
    spans_.clear();
    if (!resume.in_line && highlighter_ != nullptr) {
      const std::string_view line = std::string_view(text_).substr(begin, end - begin);
      state = highlighter_->line(line.substr(0, coloured(line)), state, spans_);
    }
    place(begin, end, is_complete);
    if (is_complete) {
      resume = {end + 1, layout_.lines.size(), layout_.runs.size(), state, false};
    } else if (resume.in_line || end - begin > kMaxColoured) {
      // A line without an end goes on at its last wrap, where it has no colours any more.
      const Line& last = layout_.lines.back();
      if (last.begin >= begin + kMaxColoured || resume.in_line) {
        resume = {last.begin, layout_.lines.size() - 1, last.first_run, state, true};
      }
    }
  }

  static size_t coloured(std::string_view line) {
    size_t end = std::min(line.size(), kMaxColoured);
    while (end < line.size() && end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) {
      --end;
    }
    return end;
  }

  void place(size_t begin, size_t end, bool has_break) {
    begin_line(begin);
    size_t span = 0;
    float x = 0;
    for (size_t at = begin; at < end;) {
      while (span < spans_.size() && begin + spans_[span].end <= at) ++span;
      const Token token = span < spans_.size() ? spans_[span].token : Token::plain;
      const size_t next = cluster_end(text_, at, end);
      const float width = cluster_width(text_, at, next, Face::code, x, measure_);
      if (x + width > width_ && at > line_.begin) {
        end_line(at);
        begin_line(at);
        x = 0;
        continue;
      }
      Run* run = open_run(at, token);
      const bool is_simple = next == at + 1 && text_[at] >= 0x20 && text_[at] < 0x7F;
      if (run == nullptr) {
        Run fresh;
        fresh.begin = static_cast<uint32_t>(at);
        fresh.face = Face::code;
        fresh.style = kCode;
        fresh.token = token;
        fresh.x = x_ + x;
        fresh.is_simple = true;
        layout_.runs.push_back(fresh);
        run = &layout_.runs.back();
      }
      run->is_simple = run->is_simple && is_simple;
      run->end = static_cast<uint32_t>(next);
      run->width += width;
      x += width;
      at = next;
    }
    end_line(has_break ? end + 1 : end);
  }

  /// The run of this line that can take one more cluster, or null.
  Run* open_run(size_t at, Token token) {
    if (layout_.runs.size() == line_.first_run) return nullptr;
    Run& last = layout_.runs.back();
    return last.token == token && last.end == at ? &last : nullptr;
  }

  void begin_line(size_t begin) {
    line_ = {};
    line_.begin = static_cast<uint32_t>(begin);
    line_.x = x_;
    line_.y = top_ + line_height_ * static_cast<float>(layout_.lines.size());
    line_.height = line_height_;
    line_.baseline = baseline_;
    line_.first_run = static_cast<uint32_t>(layout_.runs.size());
  }

  void end_line(size_t end) {
    line_.end = static_cast<uint32_t>(end);
    line_.runs = static_cast<uint32_t>(layout_.runs.size()) - line_.first_run;
    layout_.lines.push_back(line_);
  }

  const std::string& text_;
  const Measure& measure_;
  const Highlighter* highlighter_;
  BlockLayout& layout_;
  float line_height_ = 0, baseline_ = 0, padding_ = 0, top_ = 0, x_ = 0, width_ = 0;
  std::vector<TokenSpan> spans_;
  Line line_;
};

}  // namespace

void lay_out_code(const Block& block, const Measure& measure, const LayoutStyle& style,
                  const Highlighter* highlighter, BlockLayout& layout) {
  CodeLayout(block, measure, style, highlighter, layout).run();
}

}  // namespace infer::gui
