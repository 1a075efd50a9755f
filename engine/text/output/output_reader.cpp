#include "engine/text/output/output_reader.h"

#include <algorithm>
#include <span>

#include "engine/text/output/call_text.h"
#include "engine/text/unicode.h"

namespace infer {
namespace {

/// Whether a text may go on to be {"name": … or one of its like, or [NAME(….
bool may_be_call(std::string_view text) {
  std::string bare;
  for (const char c : text.substr(0, 64)) {
    if (kWhiteSpace.find(c) == std::string_view::npos) bare += c;
  }
  if (bare.starts_with('[')) {
    const size_t end = bare.find_first_of("(){}[]\"'`,:;", 1);
    return end == std::string::npos ? text.size() < 64 : end > 1 && bare[end] == '(';
  }
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"{\"name\":", "{\"type\":\"function\"",
                                              "{\"function\":"},
      [&](std::string_view begin) { return bare.starts_with(begin) || begin.starts_with(bare); });
}

void add_marks(std::span<const std::string_view> marks, std::vector<std::string_view>& to) {
  std::ranges::copy_if(marks, std::back_inserter(to), [](auto mark) { return !mark.empty(); });
}

}  // namespace

OutputReader::OutputReader(std::string_view template_source, std::string_view prompt,
                           const OutputOptions& options, DeclaredTools tools)
    : format_(find_output_format(template_source)),
      reasoning_(find_reasoning(template_source)),
      tools_(std::move(tools)),
      takes_calls_(options.calls) {
  const bool in_reasoning = reasoning_ != nullptr && ends_in_reasoning(*reasoning_, prompt);
  if (options.constrained) {
    if (options.or_calls && takes_calls_) mode_ = answer_ = Mode::choice;
    if (in_reasoning && format_.messages == nullptr) {
      reasoning_marks_.push_back(reasoning_->close);
      begin(Mode::reasoning);
    }
    return;
  }
  if (format_.messages != nullptr) {
    if (!options.continues) mode_ = Mode::header;
    add_marks(format_.messages->ends, content_marks_);
    reasoning_marks_ = content_marks_;
    return;
  }
  for (const ToolSection& section : format_.sections) {
    if (section.open.empty() || !takes_calls_) continue;
    if (section.declared && !tools_.known()) continue;
    content_marks_.push_back(section.open);
    if (!section.rest.empty()) content_marks_.push_back(section.rest);
    if (format_.calls_in_reasoning) reasoning_marks_.push_back(section.open);
  }
  add_marks(format_.dropped, content_marks_);
  if (format_.bare != nullptr && options.tools && takes_calls_) answer_ = Mode::probe;
  if (reasoning_ != nullptr) reasoning_marks_.push_back(reasoning_->close);
  if (in_reasoning) {
    begin(Mode::reasoning);
  } else if (!options.continues) {
    mode_ = reasoning_ != nullptr ? Mode::opening : answer_;
  }
}

void OutputReader::push(std::string_view text, std::vector<OutputEvent>& events) {
  events_ = &events;
  take(text);
}

void OutputReader::take(std::string_view text) {
  // In pieces: taking a section out of pending_ moves what follows it.
  constexpr size_t kPiece = size_t{1} << 14;
  for (size_t at = 0; at < text.size(); at += kPiece) {
    pending_ += text.substr(at, kPiece);
    while (step(false)) {
    }
    if (!again_.empty()) take(std::exchange(again_, {}));  // once in a text
  }
}

void OutputReader::finish(std::vector<OutputEvent>& events) {
  events_ = &events;
  while (step(true)) {
  }
  if (!again_.empty()) {
    take(std::exchange(again_, {}));
    while (step(true)) {
    }
  }
  if (mode_ != Mode::reasoning && !after_calls_) give_back("");
}

/// Does what can be done with pending_; true if that may go on in another mode.
bool OutputReader::step(bool last) {
  switch (mode_) {
    case Mode::opening: return step_opening(last);
    case Mode::probe: return step_probe(last);
    case Mode::choice: return step_choice(last);
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
  in_string_ = false;
  if (mode == Mode::tools || mode == Mode::message_call) return;
  space_.clear();
  text_begun_ = false;
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
    text_begun_ = true;
    after_calls_ = false;
    events_->push_back({kind, std::move(whole), {}});
  }
  space_ += text.substr(end);
}

/// Content as it came, white space and all.
void OutputReader::give_back(std::string_view text) {
  skip_space_ = false;
  text_begun_ = true;
  after_calls_ = false;
  std::string whole = std::exchange(space_, {});
  whole += text;
  if (!whole.empty()) events_->push_back({OutputEvent::Kind::content, std::move(whole), {}});
}

bool OutputReader::emit_calls(const calls::Calls& calls) {
  if (!calls) return false;
  if (!text_begun_) space_.clear();  // else text may go on after the calls
  after_calls_ = true;
  for (const ToolCall& call : *calls) {
    events_->push_back({OutputEvent::Kind::tool_call, "", call});
    std::string& arguments = events_->back().call.arguments;
    if (arguments == "null") arguments = "{}";  // as some models write that there are none
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

size_t OutputReader::first_outside_strings(std::span<const std::string_view> marks,
                                           const std::string_view*& found) {
  found = nullptr;
  while (searched_ < pending_.size()) {
    if (in_string_) {
      const size_t end = pending_.find_first_of("\"\\\n", searched_);
      searched_ = std::min(end, pending_.size());
      if (end == std::string::npos) break;
      if (pending_[end] == '\n') {  // JSON has none in its strings
        give_up_strings();
        break;
      }
      const bool escape = pending_[end] == '\\';
      if (escape && end + 1 == pending_.size()) break;
      searched_ += escape ? 2 : 1;
      in_string_ = escape;
      continue;
    }
    const std::string_view rest = std::string_view(pending_).substr(searched_);
    bool begins = false;
    for (const std::string_view& mark : marks) {
      if (mark.empty()) continue;
      if (rest.starts_with(mark)) {
        found = &mark;
        return searched_;
      }
      begins = begins || mark.starts_with(rest);
    }
    if (begins) break;
    in_string_ = rest[0] == '"';
    ++searched_;
  }
  return std::string::npos;
}

void OutputReader::give_up_strings() {
  marks_in_strings_ = true;
  searched_ = 0;
  in_string_ = false;
  again_ = std::exchange(pending_, {});
}

/// The beginning, where reasoning may be.
bool OutputReader::step_opening(bool last) {
  const std::string_view open = reasoning_->open;
  searched_ = std::min(pending_.find_first_not_of(kWhiteSpace, searched_), pending_.size());
  const std::string_view text = std::string_view(pending_).substr(searched_);
  if (text.starts_with(open)) {
    pending_.erase(0, searched_ + open.size());
    begin(Mode::reasoning);
    return true;
  }
  if (!last && open.starts_with(text)) return false;
  mode_ = answer_;
  searched_ = 0;
  return true;
}

/// The beginning of an answer that may be nothing but a call.
bool OutputReader::step_probe(bool last) {
  const size_t begins = pending_.find_first_not_of(kWhiteSpace, searched_);
  searched_ = std::min(begins, pending_.size());
  if (begins != std::string::npos && (pending_[begins] == '{' || pending_[begins] == '[') &&
      may_be_call(pending_)) {
    if (!last) return false;
    const std::string text = std::exchange(pending_, {});
    mode_ = Mode::content;
    const calls::Calls calls = format_.bare(text, tools_);
    const bool known =
        calls && (!tools_.known() || std::ranges::all_of(*calls, [&](const auto& call) {
          return tools_.has(call.name);
        }));
    if (!known || !emit_calls(calls)) give_back(text);
    return false;
  }
  if (begins == std::string::npos && !last) return false;
  mode_ = Mode::content;
  return true;
}

/// The beginning of an answer that is calls or a text of a schema, or what follows a section.
bool OutputReader::step_choice(bool last) {
  searched_ = std::min(pending_.find_first_not_of(kWhiteSpace, searched_), pending_.size());
  const std::string_view text = std::string_view(pending_).substr(searched_);
  bool may_begin = text.empty();
  for (const ToolSection& section : format_.sections) {
    if (section.open.empty()) continue;
    if (text.starts_with(section.open)) {
      pending_.erase(0, searched_ + section.open.size());
      begin_section(section.open);
      return true;
    }
    may_begin = may_begin || section.open.starts_with(text);
  }
  if (may_begin && !last) return false;
  mode_ = format_.bare != nullptr && !after_calls_ ? Mode::probe : Mode::content;
  searched_ = 0;
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
  pending_.erase(0, begins_header(mark) ? at : at + mark.size());
  return true;
}

void OutputReader::begin_section(std::string_view mark) {
  section_ = std::ranges::find(format_.sections, mark, &ToolSection::open);
  opening_ = mark;
  before_section_ = mode_;
  begin(Mode::tools);
}

bool OutputReader::step_content(bool last) {
  std::string_view mark;
  if (!take_mark(content_marks_, OutputEvent::Kind::content, last, mark)) return false;
  if (format_.messages != nullptr) {
    begin_header();
  } else if (std::ranges::find(format_.dropped, mark) != std::end(format_.dropped) ||
             std::ranges::find(format_.sections, mark, &ToolSection::rest) !=
                 std::end(format_.sections)) {
    begin(Mode::content);
  } else {
    begin_section(mark);
  }
  return true;
}

bool OutputReader::step_reasoning(bool last) {
  std::string_view mark;
  if (!take_mark(reasoning_marks_, OutputEvent::Kind::reasoning, last, mark)) return false;
  if (format_.messages != nullptr) {
    begin_header();
  } else if (mark != reasoning_->close) {
    begin_section(mark);
  } else {
    begin(answer_);
  }
  return true;
}

bool OutputReader::step_tools(bool last) {
  const std::string_view close = section_->close;
  size_t end = std::string::npos;
  const bool skips_strings = section_->json && !marks_in_strings_;
  if (skips_strings) {
    const std::string_view* mark = nullptr;
    end = first_outside_strings({&close, 1}, mark);
    if (!again_.empty()) return false;
  } else if (!close.empty()) {
    end = pending_.find(close, searched_ - std::min(searched_, close.size()));
    searched_ = pending_.size();
  }
  if (end == std::string::npos && !last) return false;
  const bool closed = end != std::string::npos;
  const std::string body = pending_.substr(0, end);
  const calls::Calls calls = section_->parse(body, tools_);
  if (!calls && skips_strings && body.find(close) != std::string::npos) {
    give_up_strings();
    return false;
  }
  const std::string whole =
      opening_ + pending_.substr(0, closed ? end + close.size() : pending_.size());
  pending_.erase(0, closed ? end + close.size() : pending_.size());
  mode_ = before_section_;
  searched_ = 0;
  if (emit_calls(calls)) {
    skip_space_ = !text_begun_;
  } else {
    give_back(whole);
  }
  return closed;
}

}  // namespace infer
