#include "gui/text/blocks.h"

#include <cmark-gfm-core-extensions.h>
#include <cmark-gfm.h>

#include <algorithm>
#include <memory>

#include "gui/text/guard.h"
#include "gui/text/sanitise.h"

namespace infer::gui {
namespace {

constexpr size_t kMaxUrl = 2048;
constexpr size_t kMaxLanguage = 32;

struct NodeDeleter {
  void operator()(cmark_node* node) const { cmark_node_free(node); }
  void operator()(cmark_iter* iter) const { cmark_iter_free(iter); }
  void operator()(cmark_parser* parser) const { cmark_parser_free(parser); }
};
template <typename T>
using Owned = std::unique_ptr<T, NodeDeleter>;

Owned<cmark_node> parse(std::string_view text) {
  // The extensions register themselves in a list of the library once.
  static const bool registered = [] {
    cmark_gfm_core_extensions_ensure_registered();
    return true;
  }();
  static_cast<void>(registered);
  // One tilde means "about" and strikes nothing out.
  const Owned<cmark_parser> parser(cmark_parser_new(CMARK_OPT_STRIKETHROUGH_DOUBLE_TILDE));
  for (const char* name : {"table", "strikethrough", "autolink", "tasklist"}) {
    cmark_syntax_extension* extension = cmark_find_syntax_extension(name);
    if (extension != nullptr) cmark_parser_attach_syntax_extension(parser.get(), extension);
  }
  const std::string safe = guarded(text);
  cmark_parser_feed(parser.get(), safe.data(), safe.size());
  return Owned<cmark_node>(cmark_parser_finish(parser.get()));
}

/// Text of a node as it is shown. References such as &#x202E; give any character.
std::string shown(const char* literal) {
  return literal == nullptr ? std::string{} : sanitise(unguarded(literal));
}

class Builder {
 public:
  Builder(cmark_node* root, const BlocksOptions& options) : root_(root), options_(options) {}

  Blocks build() {
    const Owned<cmark_iter> iter(cmark_iter_new(root_));
    cmark_event_type event;
    while ((event = cmark_iter_next(iter.get())) != CMARK_EVENT_DONE) {
      cmark_node* node = cmark_iter_get_node(iter.get());
      if (node == root_) continue;
      event == CMARK_EVENT_ENTER ? enter(node) : leave(node);
    }
    describe_last();
    return std::move(result_);
  }

 private:
  /// A list that is open, or the quotes between two lists.
  struct Level {
    Container container;
    bool is_item = false;
    bool has_blocks = false;  ///< item: a block of it was added
    bool is_first = false;    ///< item: the first of its list
    bool tight = false;
  };
  struct List {
    Container::Kind kind;
    char delimiter;
    uint8_t digits;
    int32_t next;
    bool tight, fresh;
  };

  void enter(cmark_node* node) {
    if (cmark_node_parent(node) == root_) note_cut(node, {});
    switch (cmark_node_get_type(node)) {
      case CMARK_NODE_BLOCK_QUOTE: levels_.push_back({}); break;
      case CMARK_NODE_LIST: enter_list(node); break;
      case CMARK_NODE_ITEM: enter_item(node); break;
      case CMARK_NODE_CODE_BLOCK: code(node); break;
      case CMARK_NODE_HTML_BLOCK:
        begin(BlockKind::paragraph);
        add(trimmed(shown(cmark_node_get_literal(node))));
        finish();
        break;
      case CMARK_NODE_THEMATIC_BREAK:
        begin(BlockKind::rule);
        finish();
        break;
      case CMARK_NODE_HEADING:
        begin(BlockKind::heading);
        block_.level = static_cast<uint8_t>(std::clamp(cmark_node_get_heading_level(node), 1, 6));
        break;
      case CMARK_NODE_PARAGRAPH: begin(BlockKind::paragraph); break;
      default: enter_inline(node); break;
    }
  }

  void leave(cmark_node* node) {
    switch (cmark_node_get_type(node)) {
      case CMARK_NODE_BLOCK_QUOTE: levels_.pop_back(); break;
      case CMARK_NODE_LIST: lists_.pop_back(); break;
      case CMARK_NODE_ITEM:
        if (!levels_.back().has_blocks) {
          begin(BlockKind::paragraph);
          finish();
        }
        levels_.pop_back();
        break;
      case CMARK_NODE_HEADING:
      case CMARK_NODE_PARAGRAPH: finish(); break;
      default: leave_inline(node); break;
    }
  }

  void enter_inline(cmark_node* node) {
    switch (cmark_node_get_type(node)) {
      case CMARK_NODE_TEXT: add_text(cmark_node_get_literal(node)); return;
      case CMARK_NODE_SOFTBREAK: add(options_.hard_breaks || in_math_ ? "\n" : " "); return;
      case CMARK_NODE_LINEBREAK: add(in_table_ ? " " : "\n"); return;
      case CMARK_NODE_CODE: add(shown(cmark_node_get_literal(node)), kCode); return;
      case CMARK_NODE_HTML_INLINE: add_html(shown(cmark_node_get_literal(node))); return;
      case CMARK_NODE_EMPH: ++emphasis_; return;
      case CMARK_NODE_STRONG: ++strong_; return;
      case CMARK_NODE_LINK: begin_link(node); return;
      case CMARK_NODE_IMAGE:
        ++image_;
        image_begin_ = size();
        return;
      default: break;
    }
    const std::string_view type = cmark_node_get_type_string(node);
    if (type == "strikethrough") {
      ++strike_;
    } else if (type == "table") {
      begin_table(node);
    } else if (type == "table_cell" && in_table_) {
      in_math_ = false;
      block_.cells.push_back({size(), size()});
    }
  }

  void leave_inline(cmark_node* node) {
    switch (cmark_node_get_type(node)) {
      case CMARK_NODE_EMPH: --emphasis_; return;
      case CMARK_NODE_STRONG: --strong_; return;
      case CMARK_NODE_LINK: link_ = -1; return;
      case CMARK_NODE_IMAGE:
        if (size() == image_begin_) add("image");
        --image_;
        return;
      case CMARK_NODE_TEXT:
      case CMARK_NODE_CODE: return;
      default: break;
    }
    const std::string_view type = cmark_node_get_type_string(node);
    if (type == "strikethrough") {
      --strike_;
    } else if (type == "table") {
      in_table_ = false;
      finish();
    } else if (type == "table_cell" && in_table_) {
      block_.cells.back().end = size();
      put("\t");
    } else if (type == "table_row" || type == "table_header") {
      end_row();
    }
  }

  void enter_list(cmark_node* node) {
    const bool numbered = cmark_node_get_list_type(node) == CMARK_ORDERED_LIST;
    const bool continued = options_.continued.present && cmark_node_parent(node) == root_ &&
                           cmark_node_previous(node) == nullptr;
    List list{numbered ? Container::Kind::number : Container::Kind::bullet,
              cmark_node_get_list_delim(node) == CMARK_PAREN_DELIM ? ')' : '.',
              1,
              numbered ? cmark_node_get_list_start(node) : 0,
              cmark_node_get_list_tight(node) != 0,
              true};
    if (continued) {
      list.next = options_.continued.number;
      list.tight = options_.continued.tight;
      list.fresh = false;
    }
    if (numbered) {
      int64_t last = list.next;
      for (cmark_node* item = cmark_node_first_child(node); item != nullptr;
           item = cmark_node_next(item)) {
        ++last;
      }
      list.digits = static_cast<uint8_t>(std::to_string(last - 1).size());
    }
    lists_.push_back(list);
  }

  void enter_item(cmark_node* node) {
    List& list = lists_.back();
    cmark_node* parent = cmark_node_parent(node);
    if (cmark_node_parent(parent) == root_ && cmark_node_previous(node) != nullptr &&
        cmark_node_get_start_column(node) <= 4) {
      note_cut(node, {true, list.next, list.tight});
    }
    Level level;
    level.container.kind = list.kind;
    level.container.digits = list.digits;
    level.container.delimiter = list.delimiter;
    level.container.number = list.next;
    if (list.next < INT32_MAX) ++list.next;
    if (std::string_view(cmark_node_get_type_string(node)) == "tasklist") {
      level.container.task =
          cmark_gfm_extensions_get_tasklist_item_checked(node) ? Task::done : Task::open;
    }
    level.is_item = true;
    level.is_first = list.fresh;
    level.tight = list.tight;
    list.fresh = false;
    levels_.push_back(level);
  }

  void note_cut(cmark_node* node, ContinuedList list) {
    result_.cuts.push_back({cmark_node_get_start_line(node) - 1, result_.blocks.size(), list});
  }

  /// Less space above a block of a tight list. The first block of a list stands as its surroundings
  /// do, so the list around decides.
  bool is_close() const {
    for (size_t i = levels_.size(); i-- > 0;) {
      const Level& level = levels_[i];
      if (!level.is_item) return false;
      if (level.has_blocks || !level.is_first) return level.tight;
    }
    return false;
  }

  void begin(BlockKind kind) {
    block_ = {};
    block_.kind = kind;
    block_.close_to_last = is_close();
    for (size_t i = 0; i < std::min(levels_.size(), kMaxContainers); ++i) {
      block_.containers.push_back(levels_[i].container);
      block_.containers.back().begins_here = !levels_[i].has_blocks;
    }
    // Only levels that have no block yet are marked; they are the innermost ones.
    for (size_t i = levels_.size(); i-- > 0 && !levels_[i].has_blocks;)
      levels_[i].has_blocks = true;
    emphasis_ = strong_ = strike_ = image_ = 0;
    link_ = -1;
    in_math_ = false;
  }

  void finish() { result_.blocks.push_back(std::move(block_)); }

  void code(cmark_node* node) {
    begin(BlockKind::code);
    std::string info = shown(cmark_node_get_fence_info(node));
    info.resize(std::min(info.find_first_of(" \t,{"), info.size()));
    // A cut must not end within a character.
    if (info.size() <= kMaxLanguage) block_.language = std::move(info);
    block_.text = shown(cmark_node_get_literal(node));
    if (block_.text.ends_with('\n')) block_.text.pop_back();
    finish();
  }

  void begin_table(cmark_node* node) {
    begin(BlockKind::table);
    in_table_ = true;
    const size_t columns =
        std::min<size_t>(cmark_gfm_extensions_get_table_columns(node), kMaxColumns);
    const uint8_t* alignments = cmark_gfm_extensions_get_table_alignments(node);
    for (size_t i = 0; i < columns; ++i) {
      const uint8_t align = alignments == nullptr ? uint8_t{0} : alignments[i];
      block_.columns.push_back(align == 'c'   ? Align::centre
                               : align == 'r' ? Align::right
                                              : Align::left);
    }
  }

  void end_row() {
    if (!in_table_ || block_.columns.empty()) return;
    while (block_.cells.size() % block_.columns.size() != 0) {
      block_.cells.push_back({size(), size()});
    }
    if (block_.text.ends_with('\t')) {
      block_.text.back() = '\n';
    } else {
      put("\n");
    }
  }

  void begin_link(cmark_node* node) {
    std::string url = shown(cmark_node_get_url(node));
    if (url.empty() || url.size() > kMaxUrl) return;
    link_ = static_cast<int32_t>(block_.links.size());
    block_.links.push_back(std::move(url));
  }

  void add_html(std::string html) {
    const bool is_break = html.starts_with("<br") && html.size() <= 6;
    add(is_break ? (in_table_ ? " " : "\n") : std::move(html));
  }

  /// Text that may hold the begin or end of a formula.
  void add_text(const char* literal) {
    std::string_view rest = literal == nullptr ? "" : literal;
    const char marks[] = {kMathBegin, kMathEnd, 0};
    while (!rest.empty()) {
      const size_t end = std::min(rest.find_first_of(marks), rest.size());
      const std::string part(rest.substr(0, end));
      add(shown(part.c_str()));
      if (end == rest.size()) return;
      in_math_ = rest[end] == kMathBegin;
      rest.remove_prefix(end + 1);
    }
  }

  void add(std::string text, uint8_t style = 0) {
    if (in_table_)
      std::ranges::replace_if(
          text, [](char c) { return c == '\t' || c == '\n'; }, ' ');
    if (in_math_) style |= kMath;
    if (emphasis_ > 0) style |= kEmphasis;
    if (strong_ > 0) style |= kStrong;
    if (strike_ > 0) style |= kStrike;
    if (image_ > 0) style |= kImage;
    if (link_ >= 0) style |= kLink;
    put(text, style);
  }

  void put(std::string_view text, uint8_t style = 0) {
    if (text.empty()) return;
    const int32_t link = (style & kLink) != 0 ? link_ : -1;
    const uint32_t begin = size();
    block_.text += text;
    if (!block_.spans.empty() && block_.spans.back().style == style &&
        block_.spans.back().link == link) {
      block_.spans.back().end = size();
    } else {
      block_.spans.push_back({begin, size(), style, link});
    }
  }

  uint32_t size() const { return static_cast<uint32_t>(block_.text.size()); }

  static std::string trimmed(std::string text) {
    while (text.ends_with('\n')) text.pop_back();
    return text;
  }

  void describe_last() {
    cmark_node* last = cmark_node_last_child(root_);
    if (last == nullptr || cmark_node_get_type(last) != CMARK_NODE_CODE_BLOCK) return;
    Blocks::Fence fence;
    if (cmark_node_get_fenced(last, &fence.length, &fence.indent, &fence.mark) == 0) return;
    fence.line = cmark_node_get_start_line(last) - 1;
    result_.last_fence = fence;
  }

  cmark_node* root_;
  const BlocksOptions& options_;
  Blocks result_;
  Block block_;
  std::vector<Level> levels_;
  std::vector<List> lists_;
  int emphasis_ = 0, strong_ = 0, strike_ = 0, image_ = 0;
  int32_t link_ = -1;
  uint32_t image_begin_ = 0;
  bool in_math_ = false, in_table_ = false;
};

}  // namespace

Blocks parse_blocks(std::string_view text, const BlocksOptions& options) {
  const Owned<cmark_node> root = parse(text);
  return Builder(root.get(), options).build();
}

}  // namespace infer::gui
