#include "gui/panes/transcript.h"

#include <imgui/imgui.h>
#include <imgui/imgui_internal.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <utility>

#include "chat/image_marks.h"
#include "gui/format.h"
#include "gui/panes/text_style.h"
#include "gui/text/clipboard.h"
#include "gui/text/sanitise.h"
#include "gui/theme.h"
#include "gui/ui/text_area.h"
#include "gui/ui/ui.h"
#include "platform/browser.h"

namespace infer::gui {
namespace {

using conversations::Role;
using conversations::State;

/// Frames in which a message that was asked for has to reach its place.
constexpr int kTargetFrames = 60;
/// Beyond the end of any conversation, in pixels.
constexpr float kEnd = 1e9f;

/// Around a message.
float padding() { return 10 * scale(); }
float text_width() { return std::max(ImGui::GetContentRegionAvail().x - 2 * padding(), 50.0f); }

/// What follows stands beside the last action if there is room for it, else below.
void beside(std::string_view label) {
  const ImGuiStyle& style = ImGui::GetStyle();
  const float width = ImGui::CalcTextSize(label.data(), label.data() + label.size()).x +
                      style.FramePadding.x * 2 + style.ItemSpacing.x;
  const float most = ImGui::GetWindowPos().x + ImGui::GetContentRegionMax().x - padding();
  if (ImGui::GetItemRectMax().x + width <= most) ImGui::SameLine();
}

std::string author_of(const conversations::Message& message) {
  switch (message.role) {
    case Role::system: return "System";
    case Role::user: return "You";
    case Role::tool: return "Tool";
    case Role::assistant: break;
  }
  return message.model.empty() ? "Answer" : one_line(message.model, kNameBytes);
}

std::string statistics_text(const conversations::Message& message) {
  const conversations::Statistics& s = message.statistics;
  if (s.generated_tokens == 0) return {};
  std::string text =
      std::to_string(s.generated_tokens) + " tokens, " + figures(s.generate_rate) + " tokens/s";
  if (s.prompt_rate > 0) text += ", prompt " + figures(s.prompt_rate) + " tokens/s";
  if (s.first_token_seconds > 0) {
    text += ", first token after " + seconds_text(s.first_token_seconds);
  }
  return text;
}

}  // namespace

Transcript::Transcript(ChatState& chat, Fonts& fonts, ImagePreviews& previews)
    : chat_(chat), fonts_(fonts), previews_(previews) {
  context_.actions.needs = [this](char32_t code) { fonts_.need(static_cast<uint32_t>(code)); };
  context_.actions.copy_button = [](const CopyButton& button) {
    const ui::Scope scope("code", static_cast<int64_t>(button.block));
    const float above = (button.max.y - button.min.y - ImGui::GetFontSize()) / 2;
    ImGui::SetCursorScreenPos({button.min.x, button.min.y + above});
    return ui::action("copy", "Copy", "Copies this code");
  };
  context_.actions.open_link = [](const std::string& address) {
    // What else a model may write is no address that a browser should get.
    if (is_web_address(address) && platform::open_in_browser(address)) return;
    copy_text(address);
  };
}

void Transcript::restyle() { style_text(context_.look, fonts_); }

Transcript::Item& Transcript::item_of(const ShownMessage& shown) {
  Item& item = items_[shown.message->id];
  if (item.text == nullptr) {
    const bool typed = shown.message->role == Role::user;
    item.text = std::make_unique<TextView>(MarkdownOptions{.hard_breaks = typed});
    item.reasoning = std::make_unique<TextView>();
    if (typed) {
      for (chat::ImageMark& mark : chat::image_marks(shown.message->text)) {
        item.images.push_back(std::move(mark.path));
      }
    }
  }
  return item;
}

/// Gives the views what they do not have yet.
void Transcript::feed(Item& item, const ShownMessage& shown) {
  const auto follow = [](TextView& view, size_t& have, const std::string& text) {
    if (text.size() < have) {
      view.set({});
      have = 0;
    }
    if (text.size() > have) view.append(std::string_view(text).substr(have));
    have = text.size();
  };
  follow(*item.text, item.text_bytes, shown.text());
  follow(*item.reasoning, item.reasoning_bytes, shown.reasoning());
  const bool finished = shown.live == nullptr;
  if (finished && !item.finished) {
    item.text->finish();
    item.reasoning->finish();
  }
  item.finished = finished;
}

/// The height of a message that is out of sight: about right at first, exact when frames have had
/// time for it.
float Transcript::measure(Item& item, const ShownMessage& message, float width) {
  const bool known =
      item.height > 0 && item.width == width && item.generation == context_.look.generation;
  if (known && item.text->is_settled()) return item.height;
  settled_ = false;
  // An estimate looks at all of the text: one is enough.
  if (known && context_.budget() == 0) return item.height;
  feed(item, message);
  item.width = width;
  item.generation = context_.look.generation;
  return item.text->height(width, context_) + (item.rest > 0 ? item.rest : usual_rest_);
}

void Transcript::draw(bool has_keys) {
  if (conversation_ != chat_.current()) {
    if (edit_.message != 0) edits_[conversation_] = std::move(edit_);
    conversation_ = chat_.current();
    const auto edit = edits_.extract(conversation_);
    edit_ = edit ? std::move(edit.mapped()) : Edit();
    items_.clear();
    context_.selected = nullptr;
    stick_ = true;
    at_end_ = false;
    target_ = 0;
  }
  if (const auto target = chat_.take_target()) {
    target_ = target->message;
    target_frames_ = 0;
    stick_ = target_ == 0;
    at_end_ = false;
  }
  settled_ = true;
  const auto& shown = chat_.shown();
  if (shown.empty()) return draw_welcome();
  const ui::Scope scope("transcript");
  const float top = ImGui::GetScrollY();
  const float visible = ImGui::GetWindowHeight();
  if (usual_rest_ == 0) usual_rest_ = ImGui::GetFrameHeightWithSpacing() * 2.5f;
  if (has_keys) take_keys();
  float shift = 0;
  std::optional<float> target;
  for (const ShownMessage& message : shown) {
    Item& item = item_of(message);
    const float begin = ImGui::GetCursorPosY();
    const float before = item.height;
    if (message.message->id == target_) target = begin;
    const float width = text_width();
    if (item.height == 0) item.height = measure(item, message, width);
    // What is far away only takes its room.
    const bool is_above = begin + item.height < top - visible;
    const bool far = is_above || begin > top + 2 * visible;
    if (far && message.live == nullptr) {
      item.height = measure(item, message, width);
      ImGui::Dummy({1, item.height - ImGui::GetStyle().ItemSpacing.y});
      if (is_above && before > 0) shift += item.height - before;
      continue;
    }
    feed(item, message);
    draw_message(message, item);
    shift += item.text->shift();
    item.height = ImGui::GetCursorPosY() - begin;
    item.width = width;
    item.generation = context_.look.generation;
    // What was estimated above the sight and is drawn now moves what is read.
    if (before > 0 && begin + before <= top) shift += item.height - before - item.text->shift();
  }
  scroll(shift, target);
}

void Transcript::take_keys() {
  const ImGuiIO& io = ImGui::GetIO();
  // The keyboard may be moving through another part of the window.
  if (io.NavVisible && !ImGui::IsWindowFocused(ImGuiFocusedFlags_ChildWindows)) return;
  if (io.KeyCtrl || io.KeyShift || io.KeyAlt || ui::is_popup_open()) return;
  const auto pressed = [](ImGuiKey key) { return ImGui::IsKeyPressed(ImGui::GetKeyIndex(key)); };
  const float page = std::max(ImGui::GetWindowHeight() - ImGui::GetTextLineHeight() * 2,
                              ImGui::GetTextLineHeight());
  std::optional<float> to;
  if (pressed(ImGuiKey_PageUp)) to = ImGui::GetScrollY() - page;
  if (pressed(ImGuiKey_PageDown)) to = ImGui::GetScrollY() + page;
  if (pressed(ImGuiKey_Home)) to = 0.0f;
  if (pressed(ImGuiKey_End)) to = ImGui::GetScrollMaxY();
  if (!to) return;
  ImGui::NavMoveRequestCancel();  // which would move the focus as well
  ImGui::SetScrollY(std::clamp(*to, 0.0f, ImGui::GetScrollMaxY()));
}

/// Reading at the end keeps the end in sight; moving up by whatever means ends that.
void Transcript::scroll(float shift, std::optional<float> target) {
  const float top = ImGui::GetScrollY();
  const float most = ImGui::GetScrollMaxY();
  // `most` and what is drawn are of the heights of the last frame: others need one more.
  const float content = ImGui::GetCursorPosY();
  const bool grows = std::fabs(content - std::exchange(content_, content)) > 1;
  if (grows) settled_ = false;
  // What has been asked for in this frame: by a key, or by selecting beyond the edge.
  const float asked = ImGui::GetCurrentWindowRead()->ScrollTarget.y;
  const bool user = asked != FLT_MAX;
  const bool was_at_end = std::exchange(at_end_, false);
  const bool moved_up = user ? asked < top : was_at_end && top < most - 2;
  if (moved_up) {
    stick_ = false;
  } else if (target_ == 0 && top >= most - 2) {
    stick_ = true;
  }
  if (user) {
    target_ = 0;
  } else if (stick_) {
    at_end_ = true;
    ImGui::SetScrollY(kEnd);
  } else if (target) {
    // Estimated heights above it become exact as it comes near.
    const float to = std::min(*target, most);
    const bool there = std::fabs(top - std::floor(to)) < 2;
    if (there && !grows && target_frames_ > 2) {
      target_ = 0;
    } else if (++target_frames_ < kTargetFrames) {
      settled_ = false;
    } else {
      target_ = 0;
    }
    if (!there) ImGui::SetScrollY(*target);
  } else {
    target_ = 0;
    if (shift != 0) ImGui::SetScrollY(top + shift);
  }
}

size_t Transcript::worked_bytes() const {
  size_t bytes = 0;
  for (const auto& [id, item] : items_) {
    bytes += item.text->work().laid_out_bytes + item.text->parsed_bytes();
  }
  return bytes;
}

void Transcript::draw_welcome() {
  const ui::Scope scope("welcome");
  ImGui::Dummy({0, ImGui::GetContentRegionAvail().y * 0.3f});
  ui::heading(chat_.model().empty() ? "No model is loaded" : chat_.model(), "model");
  ui::faint(chat_.model().empty()
                ? "Choose one under Models, or drop a GGUF file on this window."
                : "Everything stays on this computer. Write a message below to begin.",
            "hint");
}

void Transcript::draw_message(const ShownMessage& shown, Item& item) {
  const ui::Scope scope("message", shown.message->id);
  const bool user = shown.message->role == Role::user;
  const float pad = padding();
  const float width = text_width();
  const float begin = ImGui::GetCursorPosY();
  float text_height = 0;
  ImDrawList& draw = *ImGui::GetWindowDrawList();
  const ImVec2 start = ImGui::GetCursorScreenPos();
  draw.ChannelsSplit(2);
  draw.ChannelsSetCurrent(1);
  ImGui::Dummy({0, pad * 0.4f});
  ImGui::Indent(pad);
  draw_header(shown);
  if (!shown.reasoning().empty()) draw_reasoning(shown, item, width);
  if (edit_.message == shown.message->id) {
    draw_editor();
  } else {
    const float above = ImGui::GetCursorPosY();
    draw_text("text", *item.text, width);
    text_height = ImGui::GetCursorPosY() - above;
  }
  if (!item.images.empty()) previews_.draw(item.images, ImGui::GetFontSize() * 8);
  draw_calls(shown, item, width);
  if (shown.live == nullptr) {
    draw_footer(*shown.message);
    draw_actions(shown);
  } else if (shown.text().empty() && shown.reasoning().empty()) {
    ui::faint("…", "waiting");
  }
  ImGui::Unindent(pad);
  ImGui::Dummy({0, pad * 0.4f});
  draw.ChannelsSetCurrent(0);
  if (user) {
    const ImVec2 end = ImGui::GetCursorScreenPos();
    draw.AddRectFilled(start, {start.x + width + 2 * pad, end.y - ImGui::GetStyle().ItemSpacing.y},
                       packed(theme().user_message), 8 * scale());
  }
  draw.ChannelsMerge();
  item.rest = ImGui::GetCursorPosY() - begin - text_height;
  if (item.calls.empty() && text_height > 0) usual_rest_ = item.rest;
}

void Transcript::draw_text(const char* name, TextView& view, float width) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  view.draw(name, width, context_);
  settled_ = settled_ && view.is_settled();
  if (!ui::is_recording()) return;
  const ImVec2 end = ImGui::GetCursorScreenPos();
  ui::add_rectangle("markdown", name, view.source(), at.x, at.y, at.x + width, end.y);
}

void Transcript::draw_header(const ShownMessage& shown) {
  ImGui::PushStyleColor(ImGuiCol_Text, colour(theme().faint));
  ui::text(author_of(*shown.message), "author");
  ImGui::PopStyleColor();
  if (shown.alternatives > 1) draw_branches(shown);
}

void Transcript::draw_branches(const ShownMessage& shown) {
  const auto siblings = chat_.siblings(shown.message->id);
  ImGui::SameLine();
  {
    const ui::Disabled disabled(shown.place == 0);
    if (ui::action("previous", "‹", "The version before") && shown.place > 0) {
      chat_.select(siblings[shown.place - 1]);
    }
  }
  ImGui::SameLine(0, 0);
  ui::text(std::to_string(shown.place + 1) + "/" + std::to_string(shown.alternatives), "branch");
  ImGui::SameLine(0, 0);
  const ui::Disabled disabled(shown.place + 1 == shown.alternatives);
  if (ui::action("next", "›", "The next version") && shown.place + 1 < siblings.size()) {
    chat_.select(siblings[shown.place + 1]);
  }
}

void Transcript::draw_reasoning(const ShownMessage& shown, Item& item, float width) {
  const bool thinking = shown.live != nullptr && shown.text().empty();
  const std::string label =
      std::string(item.shows_reasoning ? "▾ " : "▸ ") + (thinking ? "Thinking …" : "Thoughts");
  if (ui::action("reasoning", label, "Shows or hides how the model came to its answer")) {
    item.shows_reasoning = !item.shows_reasoning;
  }
  if (!item.shows_reasoning) return;
  const float indent = 12 * scale();
  ImGui::Indent(indent);
  draw_text("reasoning text", *item.reasoning, width - indent);
  ImGui::Unindent(indent);
}

void Transcript::draw_editor() {
  const ui::Scope scope("editor");
  bool submitted = false;
  const float line = ui::text_area_line();
  const float height = std::clamp(editor_height_ + line, 3 * line, 16 * line);
  ui::input_lines("text", edit_.text, height + 2 * ImGui::GetStyle().FramePadding.y, submitted,
                  {.focus = std::exchange(begin_edit_, false), .enter_submits = true});
  editor_height_ = ui::text_area_height();
  const bool save = ui::button("save", "Save", ui::Tone::primary) || submitted;
  ImGui::SameLine();
  const bool cancel = ui::button("cancel", "Cancel");
  if (save && !edit_.text.empty()) chat_.edit(edit_.message, edit_.text);
  if (save || cancel) edit_ = {};
}

void Transcript::draw_footer(const conversations::Message& message) {
  if (message.role != Role::assistant) return;
  std::string text = statistics_text(message);
  if (message.state == State::stopped) {
    text += text.empty() ? "stopped" : ", stopped";
    if (chat_.filled_context(message.id)) text += ": the context was full";
  }
  if (!text.empty()) ui::faint(text, "statistics");
}

void Transcript::draw_actions(const ShownMessage& shown) {
  const conversations::Message& message = *shown.message;
  const bool answer = message.role == Role::assistant;
  if (ui::action("copy", "Copy", "Copies the message as Markdown")) {
    copy_text(message.text);
  }
  beside("Edit");
  if (ui::action("edit", "Edit", "Makes another version of this message")) {
    edit_ = {message.id, message.text, message.text};
    begin_edit_ = true;
    settled_ = false;
  }
  if (answer) {
    const ui::Disabled disabled(!chat_.can_send());
    beside("Again");
    if (ui::action("regenerate", "Again", "Generates another answer")) {
      chat_.regenerate(message.id);
      return;
    }
    if (message.state == State::stopped && is_last(shown)) {
      beside("Continue");
      if (ui::action("continue", "Continue", "Goes on with this answer")) {
        chat_.go_on(message.id);
        return;
      }
    }
  }
  // An answer that called tools goes on when all have answered.
  const bool called = !message.tool_calls.empty() &&
                      std::ranges::none_of(message.tool_calls,
                                           [](const auto& call) { return call.result.empty(); });
  if ((!answer || called) && is_last(shown)) {
    const ui::Disabled disabled(!chat_.can_send());
    beside("Answer");
    if (ui::action("answer", "Answer", "Generates an answer")) {
      chat_.answer(message.id);
      return;
    }
  }
  beside("Delete");
  if (ui::action("delete", "Delete", "Moves this message and all after it to the trash")) {
    chat_.remove_message(message.id);
    return;
  }
  const std::string when = when_text(message.created_at);
  beside(when);
  ui::faint(when, "time");
}

bool Transcript::is_last(const ShownMessage& shown) const {
  return &shown == &chat_.shown().back();
}

bool Transcript::has_edit() const {
  const auto differs = [](const Edit& edit) { return edit.text != edit.before; };
  return differs(edit_) ||
         std::ranges::any_of(edits_, [&](const auto& other) { return differs(other.second); }) ||
         std::ranges::any_of(results_, [](const auto& result) { return !result.second.empty(); });
}

void Transcript::copy_last_answer() const {
  const auto& shown = chat_.shown();
  const auto answer = std::ranges::find_if(shown.rbegin(), shown.rend(), [](const ShownMessage& s) {
    return s.message->role == Role::assistant;
  });
  if (answer != shown.rend()) copy_text(answer->text());
}

void Transcript::regenerate_last() {
  const auto& shown = chat_.shown();
  if (!shown.empty() && shown.back().message->role == Role::assistant && chat_.can_send()) {
    chat_.regenerate(shown.back().message->id);
  }
}

}  // namespace infer::gui
