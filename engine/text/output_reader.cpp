#include "engine/text/output_reader.h"

#include <algorithm>

namespace infer {
namespace {

constexpr size_t kMaxHeader = 512;  // bytes of what stands before <|message|>

/// Whether a text may go on to be {"name": … or one of its like.
bool may_be_call(std::string_view text) {
  std::string bare;
  for (const char c : text.substr(0, 64)) {
    if (kWhiteSpace.find(c) == std::string_view::npos) bare += c;
  }
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"{\"name\":", "{\"type\":\"function\"",
                                              "{\"function\":"},
      [&](std::string_view begin) { return bare.starts_with(begin) || begin.starts_with(bare); });
}

}  // namespace

OutputReader::OutputReader(std::string_view template_source, std::string_view prompt)
    : format_(find_output_format(template_source)), reasoning_(find_reasoning(template_source)) {
  if (format_.harmony) {
    mode_ = Mode::header;
    content_marks_ = {"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"};
    reasoning_marks_ = content_marks_;
    return;
  }
  for (const ToolSection& section : format_.sections) {
    if (!section.open.empty()) content_marks_.push_back(section.open);
  }
  if (reasoning_ != nullptr) {
    content_marks_.push_back(reasoning_->open);
    reasoning_marks_ = {reasoning_->close};
    prompt = prompt.substr(0, prompt.find_last_not_of(kWhiteSpace) + 1);
    if (prompt.ends_with(reasoning_->open)) begin(Mode::reasoning);
  }
  if (format_.bare_json && mode_ == Mode::content) mode_ = Mode::probe;
}

void OutputReader::push(std::string_view text, std::vector<OutputEvent>& events) {
  events_ = &events;
  // In pieces: taking a section out of pending_ moves what follows it.
  constexpr size_t kPiece = size_t{1} << 14;
  for (size_t at = 0; at < text.size(); at += kPiece) {
    pending_ += text.substr(at, kPiece);
    while (step(false)) {
    }
  }
}

void OutputReader::finish(std::vector<OutputEvent>& events) {
  events_ = &events;
  while (step(true)) {
  }
  if (mode_ != Mode::reasoning) give_back("");
}

/// Does what can be done with pending_; true if that may go on in another mode.
bool OutputReader::step(bool last) {
  switch (mode_) {
    case Mode::probe: return step_probe(last);
    case Mode::content: return step_content(last);
    case Mode::reasoning: return step_reasoning(last);
    case Mode::tools: return step_tools(last);
    case Mode::header: return step_header(last);
    case Mode::message_call: return step_message_call(last);
  }
  return false;
}

void OutputReader::begin(Mode mode) {
  mode_ = mode;
  skip_space_ = true;
  searched_ = 0;
  if (mode != Mode::tools && mode != Mode::message_call) space_.clear();
}

void OutputReader::emit(OutputEvent::Kind kind, std::string_view text) {
  if (skip_space_) {
    text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
    if (text.empty()) return;
    skip_space_ = false;
  }
  const size_t end = text.find_last_not_of(kWhiteSpace) + 1;
  if (end > 0) {
    std::string whole = std::exchange(space_, {});
    whole += text.substr(0, end);
    events_->push_back({kind, std::move(whole), {}});
  }
  space_ += text.substr(end);
}

/// Content as it came, white space and all.
void OutputReader::give_back(std::string_view text) {
  skip_space_ = false;
  std::string whole = std::exchange(space_, {});
  whole += text;
  if (!whole.empty()) events_->push_back({OutputEvent::Kind::content, std::move(whole), {}});
}

bool OutputReader::emit_calls(const std::optional<std::vector<ToolCall>>& calls) {
  if (!calls) return false;
  space_.clear();
  for (const ToolCall& call : *calls) {
    events_->push_back({OutputEvent::Kind::tool_call, "", call});
  }
  return true;
}

size_t OutputReader::partial(const std::vector<std::string_view>& marks) const {
  size_t longest = 0;
  for (const std::string_view mark : marks) {
    for (size_t size = std::min(mark.size() - 1, pending_.size()); size > longest; --size) {
      if (std::string_view(pending_).ends_with(mark.substr(0, size))) longest = size;
    }
  }
  return longest;
}

const std::string_view* OutputReader::first(const std::vector<std::string_view>& marks, size_t& at,
                                            size_t from) const {
  const std::string_view* found = nullptr;
  at = std::string::npos;
  for (const std::string_view& mark : marks) {
    const size_t here = pending_.find(mark, from);
    if (here < at) {
      at = here;
      found = &mark;
    }
  }
  return found;
}

/// The beginning of an answer that may be nothing but a call.
bool OutputReader::step_probe(bool last) {
  const size_t begins = pending_.find_first_not_of(kWhiteSpace, searched_);
  searched_ = std::min(begins, pending_.size());
  if (begins != std::string::npos && pending_[begins] == '{' && may_be_call(pending_)) {
    if (!last) return false;
    const std::string text = std::exchange(pending_, {});
    mode_ = Mode::content;
    if (!emit_calls(parse_json_calls(text))) give_back(text);
    return false;
  }
  if (begins == std::string::npos && !last) return false;
  mode_ = Mode::content;
  return true;
}

bool OutputReader::take_mark(const std::vector<std::string_view>& marks, OutputEvent::Kind kind,
                             bool last, std::string_view& mark) {
  size_t at = 0;
  const std::string_view* found = first(marks, at);
  if (found == nullptr) at = pending_.size() - (last ? 0 : partial(marks));
  emit(kind, std::string_view(pending_).substr(0, at));
  if (found == nullptr) {
    pending_.erase(0, at);
    return false;
  }
  mark = *found;
  // In Harmony these two begin the next message's header; the others end this one.
  const bool header = format_.harmony && (mark == "<|start|>" || mark == "<|channel|>");
  pending_.erase(0, header ? at : at + mark.size());
  return true;
}

bool OutputReader::step_content(bool last) {
  std::string_view mark;
  if (!take_mark(content_marks_, OutputEvent::Kind::content, last, mark)) return false;
  if (format_.harmony) {
    opening_.clear();
    begin(Mode::header);
  } else if (reasoning_ != nullptr && mark == reasoning_->open) {
    begin(Mode::reasoning);
  } else {
    section_ = std::ranges::find(format_.sections, mark, &ToolSection::open);
    opening_ = mark;
    begin(Mode::tools);
  }
  return true;
}

bool OutputReader::step_reasoning(bool last) {
  std::string_view mark;
  if (!take_mark(reasoning_marks_, OutputEvent::Kind::reasoning, last, mark)) return false;
  if (format_.harmony) opening_.clear();
  begin(format_.harmony ? Mode::header : format_.bare_json ? Mode::probe : Mode::content);
  return true;
}

bool OutputReader::step_tools(bool last) {
  const std::string_view close = section_->close;
  size_t end = std::string::npos;
  if (!close.empty()) {
    end = pending_.find(close, searched_ - std::min(searched_, close.size()));
    searched_ = pending_.size();
  }
  if (end == std::string::npos && !last) return false;
  const bool closed = end != std::string::npos;
  const std::string body = pending_.substr(0, end);
  const std::string whole =
      opening_ + pending_.substr(0, closed ? end + close.size() : pending_.size());
  pending_.erase(0, closed ? end + close.size() : pending_.size());
  mode_ = Mode::content;
  searched_ = 0;
  if (emit_calls(section_->parse(body))) {
    skip_space_ = true;
  } else {
    give_back(whole);
  }
  return closed;
}

/// What stands before a message: its channel and whom it is for.
bool OutputReader::step_header(bool last) {
  constexpr std::string_view kMessage = "<|message|>";
  const size_t end = pending_.find(kMessage);
  if (end == std::string::npos) {
    if (!last && pending_.size() <= kMaxHeader) return false;
    // No message: text that does not keep to the format.
    const std::string text = std::exchange(pending_, {});
    mode_ = Mode::content;
    if (text.find_first_not_of(kWhiteSpace) != std::string::npos) give_back(text);
    return false;
  }
  opening_ = pending_.substr(0, end + kMessage.size());
  pending_.erase(0, opening_.size());
  const std::string_view header = std::string_view(opening_).substr(0, end);
  const size_t channel = header.find("<|channel|>");
  const bool analysis =
      channel != std::string_view::npos && header.substr(channel + 11).starts_with("analysis");
  recipient_.clear();
  if (const size_t to = header.find("to="); to != std::string_view::npos) {
    const std::string_view name = header.substr(to + 3);
    recipient_ = name.substr(0, name.find_first_of(" \t\r\n<"));
    if (recipient_.starts_with("functions.")) recipient_.erase(0, 10);
  }
  begin(!recipient_.empty() ? Mode::message_call : analysis ? Mode::reasoning : Mode::content);
  return true;
}

bool OutputReader::step_message_call(bool last) {
  constexpr size_t kLongestMark = 16;
  size_t end = 0;
  const std::string_view* mark =
      first(content_marks_, end, searched_ - std::min(searched_, kLongestMark));
  searched_ = pending_.size();
  if (mark == nullptr && !last) return false;
  const std::string body = pending_.substr(0, end);
  const bool header = mark != nullptr && (*mark == "<|start|>" || *mark == "<|channel|>");
  const size_t size = mark == nullptr ? pending_.size() : header ? end : end + mark->size();
  const std::string whole = opening_ + pending_.substr(0, size);
  pending_.erase(0, size);
  const size_t from = body.find_first_not_of(kWhiteSpace);
  const std::string arguments =
      from == std::string::npos ? ""
                                : body.substr(from, body.find_last_not_of(kWhiteSpace) - from + 1);
  if (is_json(arguments)) {
    emit_calls(std::vector<ToolCall>{{"", recipient_, arguments}});
  } else {
    give_back(whole);
  }
  begin(Mode::header);
  return mark != nullptr;
}

}  // namespace infer
