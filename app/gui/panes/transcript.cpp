#include "gui/panes/transcript.h"

#include <imgui/imgui.h>

#include <algorithm>

#include "gui/format.h"
#include "gui/theme.h"
#include "gui/ui/ui.h"
#include "platform/browser.h"

namespace infer::gui {
namespace {

using conversations::Role;
using conversations::State;

/// Fills the look of texts from the theme and the fonts.
void style(TextLook& look, const Fonts& fonts) {
  const float size = fonts.pixels();
  const auto set = [&](Face face, FontKind kind, float share) {
    ImFont* const font = fonts.font(kind);
    look.fonts[static_cast<size_t>(face)] = {font, (share == 0 ? font->FontSize : size * share)};
  };
  set(Face::body, FontKind::text, 1);
  set(Face::strong, FontKind::bold, 1);
  set(Face::emphasis, FontKind::text, 1);
  set(Face::strong_emphasis, FontKind::bold, 1);
  set(Face::code, FontKind::code, 0);
  set(Face::heading1, FontKind::bold, 1.45f);
  set(Face::heading2, FontKind::bold, 1.25f);
  set(Face::heading3, FontKind::bold, 1.1f);
  const Theme& t = theme();
  TextColours& c = look.colours;
  c.text = packed(t.text);
  c.faint = packed(t.faint);
  c.link = packed(t.accent);
  c.selection = packed(t.selection);
  c.code_background = packed(t.code);
  c.code_header = packed(t.raised);
  c.inline_code = packed(t.raised, 0.8f);
  c.quote_bar = packed(t.border);
  c.line = packed(t.border);
  c.table_header = packed(t.raised, 0.7f);
  c.scroll_bar = packed(t.border);
  c.tokens.fill(packed(t.text));
  const auto token = [&](Token which, Rgb rgb) {
    c.tokens[static_cast<size_t>(which)] = packed(rgb);
  };
  token(Token::keyword, t.series[3]);
  token(Token::string, t.series[1]);
  token(Token::comment, t.faint);
  token(Token::number, t.series[2]);
  look.scale = scale();
  ++look.generation;
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

Transcript::Transcript(ChatState& chat, Fonts& fonts) : chat_(chat), fonts_(fonts) {
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
    ImGui::SetClipboardText(address.c_str());
  };
}

void Transcript::restyle() { style(context_.look, fonts_); }

Transcript::Item& Transcript::item_of(const ShownMessage& shown) {
  Item& item = items_[shown.message->id];
  if (item.text == nullptr) {
    const bool typed = shown.message->role == Role::user;
    item.text = std::make_unique<TextView>(MarkdownOptions{.hard_breaks = typed});
    item.reasoning = std::make_unique<TextView>();
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

void Transcript::draw() {
  if (conversation_ != chat_.current()) {
    conversation_ = chat_.current();
    items_.clear();
    context_.selected = nullptr;
    editing_ = 0;
    stick_ = true;
  }
  const auto& shown = chat_.shown();
  if (shown.empty()) return draw_welcome();
  const ui::Scope scope("transcript");
  const float top = ImGui::GetScrollY();
  const float visible = ImGui::GetWindowHeight();
  float shift = 0;
  for (const ShownMessage& message : shown) {
    Item& item = item_of(message);
    const float begin = ImGui::GetCursorPosY();
    // What is far away only takes its room.
    const bool far =
        item.height > 0 && (begin + item.height < top - visible || begin > top + 2 * visible);
    if (far && message.live == nullptr) {
      ImGui::Dummy({1, item.height - ImGui::GetStyle().ItemSpacing.y});
      continue;
    }
    feed(item, message);
    draw_message(message, item);
    shift += item.text->shift();
    item.height = ImGui::GetCursorPosY() - begin;
  }
  // Reading at the end keeps the end in sight; scrolling up ends that.
  const float most = ImGui::GetScrollMaxY();
  if (ImGui::GetIO().MouseWheel > 0 && ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows)) {
    stick_ = false;
  } else if (top >= most - 2) {
    stick_ = true;
  }
  if (stick_) {
    ImGui::SetScrollY(most + ImGui::GetFontSize() * 100);
  } else if (shift != 0) {
    ImGui::SetScrollY(top + shift);
  }
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
  const float pad = 10 * scale();
  const float width = std::max(ImGui::GetContentRegionAvail().x - 2 * pad, 50.0f);
  ImDrawList& draw = *ImGui::GetWindowDrawList();
  const ImVec2 start = ImGui::GetCursorScreenPos();
  draw.ChannelsSplit(2);
  draw.ChannelsSetCurrent(1);
  ImGui::Dummy({0, pad * 0.4f});
  ImGui::Indent(pad);
  draw_header(shown);
  if (!shown.reasoning().empty()) draw_reasoning(shown, item, width);
  if (editing_ == shown.message->id) {
    draw_editor();
  } else {
    draw_text("text", *item.text, width);
  }
  draw_calls(shown, item);
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
}

void Transcript::draw_text(const char* name, TextView& view, float width) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  view.draw(name, width, context_);
  if (!ui::is_recording()) return;
  const ImVec2 end = ImGui::GetCursorScreenPos();
  ui::add_rectangle("markdown", name, view.source(), at.x, at.y, at.x + width, end.y);
}

void Transcript::draw_header(const ShownMessage& shown) {
  const conversations::Message& message = *shown.message;
  const bool user = message.role == Role::user;
  ImGui::PushStyleColor(ImGuiCol_Text, colour(theme().faint));
  ui::text(user ? "You" : message.model.empty() ? "Answer" : message.model, "author");
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
  const auto lines = std::clamp<std::ptrdiff_t>(std::ranges::count(edited_, '\n') + 2, 3, 16);
  ui::input_lines("text", edited_, ImGui::GetTextLineHeight() * static_cast<float>(lines),
                  submitted, {.focus = std::exchange(begin_edit_, false)});
  const bool save = ui::button("save", "Save", ui::Tone::primary) || submitted;
  ImGui::SameLine();
  const bool cancel = ui::button("cancel", "Cancel");
  if (save && !edited_.empty()) chat_.edit(editing_, edited_);
  if (save || cancel) editing_ = 0;
}

void Transcript::draw_calls(const ShownMessage& shown, Item& item) {
  const auto& calls = shown.calls();
  item.results.resize(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    const conversations::ToolCall& call = calls[i];
    const ui::Scope scope("call", static_cast<int64_t>(i));
    ui::text("Asks for " + call.name, "name");
    ui::faint(call.arguments, "arguments");
    if (!call.result.empty()) {
      ui::wrapped("→ " + call.result, "result");
    } else if (shown.live == nullptr) {
      bool submitted = false;
      ui::input_lines("result", item.results[i], ImGui::GetTextLineHeight() * 3, submitted,
                      {.hint = "The result of this call"});
      if ((ui::button("give", "Give the result", ui::Tone::primary) || submitted) &&
          !item.results[i].empty()) {
        chat_.set_tool_result(shown.message->id, i, item.results[i]);
        return;
      }
    }
  }
}

void Transcript::draw_footer(const conversations::Message& message) {
  if (message.role != Role::assistant) return;
  std::string text = statistics_text(message);
  if (message.state == State::stopped) text += text.empty() ? "stopped" : ", stopped";
  if (!text.empty()) ui::faint(text, "statistics");
}

void Transcript::draw_actions(const ShownMessage& shown) {
  const conversations::Message& message = *shown.message;
  const bool answer = message.role == Role::assistant;
  if (ui::action("copy", "Copy", "Copies the message as Markdown")) {
    ImGui::SetClipboardText(message.text.c_str());
  }
  ImGui::SameLine();
  if (ui::action("edit", "Edit", "Makes another version of this message")) {
    editing_ = message.id;
    edited_ = message.text;
    begin_edit_ = true;
  }
  if (answer) {
    const ui::Disabled disabled(!chat_.can_send());
    ImGui::SameLine();
    if (ui::action("regenerate", "Again", "Generates another answer")) {
      chat_.regenerate(message.id);
      return;
    }
    if (message.state == State::stopped && is_last(shown)) {
      ImGui::SameLine();
      if (ui::action("continue", "Continue", "Goes on with this answer")) {
        chat_.go_on(message.id);
        return;
      }
    }
  }
  if (!answer && is_last(shown)) {
    const ui::Disabled disabled(!chat_.can_send());
    ImGui::SameLine();
    if (ui::action("answer", "Answer", "Generates an answer")) {
      chat_.answer(message.id);
      return;
    }
  }
  ImGui::SameLine();
  if (ui::action("delete", "Delete", "Moves this message and all after it to the trash")) {
    chat_.remove_message(message.id);
  }
}

bool Transcript::is_last(const ShownMessage& shown) const {
  return &shown == &chat_.shown().back();
}

void Transcript::copy_last_answer() const {
  const auto& shown = chat_.shown();
  const auto answer = std::ranges::find_if(shown.rbegin(), shown.rend(), [](const ShownMessage& s) {
    return s.message->role == Role::assistant;
  });
  if (answer != shown.rend()) ImGui::SetClipboardText(answer->text().c_str());
}

void Transcript::regenerate_last() {
  const auto& shown = chat_.shown();
  if (!shown.empty() && shown.back().message->role == Role::assistant && chat_.can_send()) {
    chat_.regenerate(shown.back().message->id);
  }
}

}  // namespace infer::gui
