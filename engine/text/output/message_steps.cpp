// OutputReader in forms in which all text is in messages.
#include <algorithm>

#include "engine/text/output/call_text.h"
#include "engine/text/output/output_reader.h"
#include "engine/text/unicode.h"

namespace infer {

constexpr size_t kMaxHeader = 512;  // bytes of what stands before <|message|>

bool OutputReader::begins_header(std::string_view mark) const {
  return format_.messages != nullptr &&
         format_.messages->next_header.find(mark) != std::string_view::npos;
}

/// White space before a header belongs to it, if it proves to be none.
void OutputReader::begin_header() {
  opening_ = std::exchange(space_, {});
  begin(Mode::header);
}

/// What stands before a message.
bool OutputReader::step_header(bool last) {
  const std::string_view mark = format_.messages->header_end;
  const size_t end = std::string_view(pending_).substr(0, kMaxHeader).find(mark);
  const bool ended = end != std::string_view::npos;
  if (!ended && !last && pending_.size() < kMaxHeader) return false;
  MessageHeader header;
  if (ended && format_.messages->read(std::string_view(pending_).substr(0, end), header)) {
    opening_ += pending_.substr(0, end + mark.size());
    pending_.erase(0, end + mark.size());
    recipient_ = header.function;
    begin(!recipient_.empty() ? Mode::message_call
          : header.reasoning  ? Mode::reasoning
                              : Mode::content);
    return true;
  }
  // No message: text that does not keep to the format.
  size_t size = ended ? end + mark.size() : std::min(pending_.size(), kMaxHeader);
  if (!last) size -= incomplete_utf8_tail(std::string_view(pending_).substr(0, size));
  const std::string text = opening_ + pending_.substr(0, size);
  pending_.erase(0, size);
  mode_ = Mode::content;
  if (text.find_first_not_of(kWhiteSpace) != std::string::npos) give_back(text);
  return true;
}

bool OutputReader::step_message_call(bool last) {
  constexpr size_t kLongestMark = 16;
  size_t end = 0;
  const std::string_view* mark = nullptr;
  const bool skips_strings = !marks_in_strings_;
  if (skips_strings) {
    end = first_outside_strings(content_marks_, mark);
    if (!again_.empty()) return false;
  } else {
    mark = first(content_marks_, end, searched_ - std::min(searched_, kLongestMark));
    searched_ = pending_.size();
  }
  if (mark == nullptr && !last) return false;
  const std::string body = pending_.substr(0, end);
  const std::string_view arguments = calls::trimmed(body);
  const bool called = takes_calls_ && calls::is_json(arguments);
  size_t within = 0;
  if (!called && skips_strings && first(content_marks_, within) != nullptr && within < end) {
    give_up_strings();
    return false;
  }
  const bool header = mark != nullptr && begins_header(*mark);
  const size_t size = mark == nullptr ? pending_.size() : header ? end : end + mark->size();
  const std::string whole = opening_ + pending_.substr(0, size);
  pending_.erase(0, size);
  if (called) {
    emit_calls(std::vector<ToolCall>{{"", recipient_, std::string(arguments)}});
  } else {
    give_back(whole);
  }
  begin_header();
  return mark != nullptr;
}

}  // namespace infer
