#include "gui/text/text_view.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

#include "gui/text/paint.h"
#include "gui/text/utf8.h"

namespace infer::gui {
namespace {

/// Bytes out of sight that a frame lays out.
constexpr size_t kBytesAFrame = 64 * 1024;

}  // namespace

bool is_web_address(std::string_view address) {
  std::string scheme(address.substr(0, std::min<size_t>(address.find(':'), 8)));
  for (char& c : scheme) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  if (scheme == "mailto") return true;
  return (scheme == "http" || scheme == "https") &&
         address.substr(scheme.size()).starts_with("://");
}

const Highlighter* TextContext::highlighter(std::string_view language) {
  const Language* known = find_language(language);
  if (known == nullptr) return nullptr;
  const auto found = highlighters_.find(known);
  if (found != highlighters_.end()) return &found->second;
  return &highlighters_.emplace(known, Highlighter(language)).first->second;
}

size_t& TextContext::budget() {
  if (frame_ != ImGui::GetFrameCount()) budget_ = kBytesAFrame;
  frame_ = ImGui::GetFrameCount();
  return budget_;
}

void TextView::set(std::string_view bytes) {
  stream_.set(bytes);
  selection_.clear();
  parsed_ = false;
}

std::string TextView::selected_text() {
  if (selection_.is_empty()) return {};
  return plain_text(stream_.document(), selection_.first(), selection_.last());
}

bool TextView::follow_document(float width, TextContext& context) {
  const Document& document = stream_.document();
  parsed_ = true;
  const bool changed = width != width_ || generation_ != context.look.generation;
  if (!changed && settled_ && revision_ == document.revision) return true;
  const FontMeasure measure(context.look, context.actions.needs);
  entries_.resize(document.blocks.size());
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    const Block& block = document.blocks[i];
    const bool is_other = entry.id != document.ids[i];
    if (is_other || changed) {
      entry.layout = {};
      entry.is_exact = false;
      entry.id = document.ids[i];
      if (is_other || entry.height == 0 || width_ <= 0) {
        entry.scroll_x = 0;
        entry.height = estimated_height(block, width, measure, context.look.style);
      } else if (block.kind == BlockKind::paragraph) {
        entry.height = std::ceil(entry.height * width_ / width);
      }
    } else if (entry.text_size != block.text.size()) {
      entry.is_exact = false;
    }
  }
  width_ = width;
  generation_ = context.look.generation;
  revision_ = document.revision;
  return false;
}

void TextView::lay_out_entry(size_t i, TextContext& context) {
  Entry& entry = entries_[i];
  const Block& block = stream_.document().blocks[i];
  const FontMeasure measure(context.look, context.actions.needs);
  const Highlighter* highlighter =
      block.kind == BlockKind::code ? context.highlighter(block.language) : nullptr;
  work_.laid_out_bytes += block.text.size() - std::min(entry.layout.resume.text, block.text.size());
  gui::lay_out(block, width_, measure, context.look.style, highlighter, entry.layout);
  if (i == 0) entry.layout.gap = 0;
  entry.text_size = block.text.size();
  entry.is_exact = true;
  entry.height = entry.layout.gap + entry.layout.height;
}

void TextView::place() {
  float y = 0;
  for (Entry& entry : entries_) {
    entry.y = y;
    y += entry.height;
  }
  height_ = y;
}

size_t TextView::entry_at(float y) const {
  const auto found = std::upper_bound(entries_.begin(), entries_.end(), y,
                                      [](float at, const Entry& e) { return at < e.y + e.height; });
  return static_cast<size_t>(found - entries_.begin());
}

/// Lays out what is in sight, then some of the rest.
void TextView::lay_out(Sight sight, TextContext& context) {
  place();
  // Exact heights may bring other blocks into sight, fewer with each round.
  for (bool again = true; again;) {
    again = false;
    for (size_t i = entry_at(sight.top); i < entries_.size() && entries_[i].y < sight.bottom; ++i) {
      if (entries_[i].is_exact) continue;
      lay_out_entry(i, context);
      again = true;
    }
    if (again) place();
  }
  size_t& budget = context.budget();
  settled_ = true;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].is_exact) continue;
    const size_t size = stream_.document().blocks[i].text.size();
    if (budget == 0) {
      settled_ = false;
      break;
    }
    budget -= std::min(budget, size + 64);
    const bool is_above = entries_[i].y + entries_[i].height <= sight.top;
    const float before = entries_[i].height;
    lay_out_entry(i, context);
    if (is_above) shift_ += entries_[i].height - before;
  }
  place();
}

float TextView::height(float width, TextContext& context) {
  shows_copied_ = false;  // nobody sees it
  if (!parsed_) {
    size_t& budget = context.budget();
    if (budget == 0) {
      settled_ = false;
      Block whole;
      whole.text = stream_.source();
      const FontMeasure measure(context.look, context.actions.needs);
      return estimated_height(whole, width, measure, context.look.style);
    }
    budget -= std::min(budget, stream_.source().size());
  }
  if (!follow_document(width, context)) lay_out({0, 0}, context);
  return height_;
}

void TextView::draw(const char* name, float width, TextContext& context) {
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Sight sight{list.GetClipRectMin().y - origin.y, list.GetClipRectMax().y - origin.y};
  shift_ = 0;
  shows_copied_ = false;
  if (!follow_document(width, context)) lay_out(sight, context);

  const FontMeasure measure(context.look, context.actions.needs);
  ImGui::PushID(name);
  // Buttons within the text are above it.
  ImGui::PushItemFlag(ImGuiItemFlags_NoNav, true);  // keys move from button to button
  ImGui::InvisibleButton("text", {std::max(width, 1.0f), std::max(height_, 1.0f)},
                         ImGuiButtonFlags_AllowItemOverlap);
  ImGui::PopItemFlag();
  ImGui::SetItemAllowOverlap();
  const ImVec2 below = ImGui::GetCursorScreenPos();
  take_mouse(origin, context, measure);
  if (context.selected == this && ImGui::IsWindowFocused()) take_keys(context, measure);

  Painter painter(list, context.look, measure);
  const Document& document = stream_.document();
  bool has_controls = false;
  for (size_t i = entry_at(sight.top); i < entries_.size() && entries_[i].y < sight.bottom; ++i) {
    const Entry& entry = entries_[i];
    const ImVec2 at(origin.x, origin.y + entry.y + entry.layout.gap);
    const SelectedRange selected = context.selected == this ? selected_part(i) : SelectedRange{};
    painter.paint({document.blocks[i], entry.layout, at, entry.scroll_x, selected});
    if (document.blocks[i].kind == BlockKind::code) {
      copy_button(i, at, context);
      has_controls = true;
    } else if (entry.layout.width > entry.layout.indent + entry.layout.room + 1) {
      scroll_table(i, at, context);
      has_controls = true;
    }
  }
  if (has_controls) ImGui::SetCursorScreenPos(below);
  work_.lines_drawn += painter.lines_drawn();
  ImGui::PopID();
}

SelectedRange TextView::selected_part(size_t block) const {
  const TextPosition first = selection_.first(), last = selection_.last();
  if (selection_.is_empty() || block < first.block || block > last.block) return {};
  const size_t size = entries_[block].text_size;
  return {block == first.block ? first.offset : 0, block == last.block ? last.offset : size,
          block < last.block};
}

TextPosition TextView::position_at(ImVec2 point, const Measure& measure) {
  if (entries_.empty()) return {};
  const size_t i = std::min(entry_at(point.y), entries_.size() - 1);
  const Entry& entry = entries_[i];
  const Block& block = stream_.document().blocks[i];
  const uint32_t offset = offset_at(block, entry.layout, point.x + entry.scroll_x,
                                    point.y - entry.y - entry.layout.gap, measure);
  return {static_cast<uint32_t>(i), offset};
}

}  // namespace infer::gui
