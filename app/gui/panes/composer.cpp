#include "gui/panes/composer.h"

#include <imgui/imgui.h>

#include <algorithm>
#include <utility>

#include "chat/image_marks.h"
#include "gui/theme.h"
#include "gui/ui/text_area.h"
#include "gui/ui/ui.h"

namespace infer::gui {
namespace {

constexpr float kMostLines = 8;

float preview_height() { return ImGui::GetFontSize() * 4; }

}  // namespace

float Composer::height() const {
  const float text = std::clamp(text_height_, 2 * line_, kMostLines * line_);
  return text + ImGui::GetStyle().FramePadding.y * 2 + ImGui::GetFrameHeightWithSpacing() * 1.2f +
         (chat_.full() ? ImGui::GetFrameHeightWithSpacing() * 2.5f : 0) +
         (images_.empty() ? 0 : preview_height() + ImGui::GetStyle().ItemSpacing.y);
}

bool Composer::has_draft() const {
  return !draft_.empty() ||
         std::ranges::any_of(drafts_, [](const auto& draft) { return !draft.second.empty(); });
}

/// What was sent leaves the field when it is stored. What was typed after it stays.
void Composer::let_go_of_stored() {
  const std::string stored = chat_.take_stored();
  std::string& sent = sent_to_ == of_ ? draft_ : drafts_[sent_to_];
  if (!stored.empty() && sent.starts_with(stored)) sent.erase(0, stored.size());
}

/// A draft stays with its conversation. One for a new conversation goes with it into the list.
void Composer::follow_conversation() {
  let_go_of_stored();
  const Id begun = chat_.take_begun();
  if (of_ == 0 && begun != 0 && begun == chat_.current()) of_ = begun;
  if (of_ != chat_.current()) {
    if (!draft_.empty()) drafts_[of_] = std::move(draft_);
    of_ = chat_.current();
    draft_ = std::exchange(drafts_[of_], {});
  }
  if (std::string returned = chat_.take_returned(); !returned.empty()) {
    draft_ = draft_.empty() ? std::move(returned) : returned + "\n" + draft_;
  }
}

void Composer::add_line(const std::string& line) {
  follow_conversation();
  if (!draft_.empty() && !draft_.ends_with('\n')) draft_ += '\n';
  draft_ += line + '\n';
  focus_ = true;
}

void Composer::draw() {
  const ui::Scope scope("composer");
  follow_conversation();
  if (chat_.full()) draw_full_context();
  if (!images_.empty()) previews_.draw(images_, preview_height());
  bool submitted = false;
  const float below = ImGui::GetFrameHeightWithSpacing();
  ui::input_lines(
      "message", draft_, ImGui::GetContentRegionAvail().y - below, submitted,
      {.hint = chat_.model().empty() ? "Load a model to begin"
                                     : "Write a message. Enter sends, Shift+Enter adds a line",
       .focus = focus_,
       .enter_submits = true});
  active_ = ImGui::IsItemActive();
  text_height_ = ui::text_area_height();
  line_ = ui::text_area_line();
  focus_ = std::exchange(keeps_, false) || submitted;  // Enter and Escape take the keyboard away
  if (draft_ != counted_ || chat_.revision() != counted_revision_) {
    counted_ = draft_;
    images_.clear();
    for (chat::ImageMark& mark : chat::image_marks(draft_)) images_.push_back(std::move(mark.path));
    counted_revision_ = chat_.revision();
    chat_.count(draft_);
  }
  const float width = ImGui::GetFontSize() * 6;
  if (chat_.context() > 0) {
    const int64_t left = std::max<int64_t>(0, chat_.context() - chat_.context_used());
    std::string text = draft_.empty() ? "" : std::to_string(chat_.draft_tokens()) + " tokens, ";
    text += std::to_string(left) + " of " + std::to_string(chat_.context()) + " left";
    ImGui::AlignTextToFramePadding();
    ImGui::PushStyleColor(ImGuiCol_Text, colour(left == 0 ? theme().danger : theme().faint));
    ui::cut(text, ImGui::GetContentRegionAvail().x - width - ImGui::GetStyle().ItemSpacing.x,
            "tokens");
    ImGui::PopStyleColor();
    ImGui::SameLine();
  }
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() +
                       std::max(0.0f, ImGui::GetContentRegionAvail().x - width));
  if (chat_.is_answering()) {
    if (ui::button("stop", "Stop", ui::Tone::danger, width)) chat_.stop();
    return;
  }
  const bool empty = draft_.find_first_not_of(" \t\r\n") == std::string::npos;
  const ui::Disabled disabled(empty || !chat_.can_send());
  if (ui::button("send", "Send", ui::Tone::primary, width) ||
      (submitted && !empty && chat_.can_send())) {
    sent_to_ = of_;
    chat_.send(draft_);
    focus_ = true;
  }
}

void Composer::draw_full_context() {
  const ui::Scope scope("full context");
  if (chat_.full()->last_message_alone && chat_.full()->continued != 0) {
    ui::notice(
        ui::Tone::danger,
        "The answer has filled the context. Load the model with a larger context, or begin a "
        "new conversation.",
        "why");
  } else if (chat_.full()->last_message_alone) {
    ui::notice(ui::Tone::danger,
               "The last message alone is longer than the context. Shorten it, or load the model "
               "with a larger context.",
               "why");
  } else {
    ui::notice(ui::Tone::danger,
               "The context is full: the conversation and an answer do not fit into it any more.",
               "why");
    if (ui::button("drop", "Go on without the oldest messages", ui::Tone::primary)) {
      chat_.drop_oldest_and_go_on();
      return;
    }
    ImGui::SameLine();
  }
  if (ui::button("new", "New conversation")) {
    chat_.start_new();
    return;
  }
  ImGui::SameLine();
  if (ui::button("dismiss", "Leave it")) chat_.dismiss_full();
}

}  // namespace infer::gui
