// Calls whose arguments are literals of a language other than JSON.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/text/output/call_text.h"
#include "engine/text/unicode.h"

namespace infer::calls {
namespace {

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-' || static_cast<unsigned char>(c) >= 0x80;
}

/// Values as Python or Gemma writes them, off the front of a text.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  std::string_view rest() const { return text_; }
  bool take(std::string_view mark) { return calls::take(text_, mark); }
  bool at_end() const { return text_.find_first_not_of(kWhiteSpace) == std::string_view::npos; }

  std::optional<std::string_view> name() {
    skip_space();
    size_t size = 0;
    while (size < text_.size() && is_name_byte(text_[size])) ++size;
    if (size == 0) return std::nullopt;
    const std::string_view name = text_.substr(0, size);
    text_.remove_prefix(size);
    return name;
  }

  std::optional<Json> value(int depth = 0) {
    if (depth > kMaxDepth) return std::nullopt;
    if (std::optional<Json> text = quoted()) return text;
    if (take("[")) return sequence("]", depth);
    if (take("(")) return sequence(")", depth);
    if (take("{")) return members("}", ":", depth);
    return word();
  }

  /// `KEY SEPARATOR VALUE`, with commas between them, up to `close`, which is taken.
  std::optional<Json> members(std::string_view close, std::string_view separator, int depth = 0) {
    Json object = Json::object();
    while (!take(close)) {
      std::string key;
      if (const std::optional<Json> text = quoted()) {
        key = text->get<std::string>();
      } else if (const auto bare = name()) {
        key = *bare;
      } else {
        return std::nullopt;
      }
      if (!take(separator)) return std::nullopt;
      std::optional<Json> item = value(depth + 1);
      if (!item) return std::nullopt;
      object[key] = std::move(*item);
      if (!take(",") && !begins_with(close)) return std::nullopt;
    }
    return object;
  }

 private:
  bool begins_with(std::string_view mark) const {
    std::string_view text = text_;
    return calls::take(text, mark);
  }

  void skip_space() {
    text_.remove_prefix(std::min(text_.find_first_not_of(kWhiteSpace), text_.size()));
  }

  std::optional<Json> sequence(std::string_view close, int depth) {
    Json array = Json::array();
    while (!take(close)) {
      std::optional<Json> item = value(depth + 1);
      if (!item) return std::nullopt;
      array.push_back(std::move(*item));
      if (!take(",") && !begins_with(close)) return std::nullopt;
    }
    return array;
  }

  std::optional<Json> quoted() {
    for (const std::string_view mark : {"<|\"|>", "<escape>"}) {  // Gemma's: nothing is escaped
      if (!take(mark)) continue;
      const auto text = take_until(text_, mark);
      if (!text) return std::nullopt;
      return Json(*text);
    }
    for (const std::string_view mark : {"\"\"\"", "'''", "\"", "'"}) {
      if (take(mark)) return escaped(mark);
    }
    return std::nullopt;
  }

  /// Text with Python's escapes, up to the mark.
  std::optional<Json> escaped(std::string_view mark) {
    std::string out;
    while (!text_.empty()) {
      if (text_.starts_with(mark)) {
        text_.remove_prefix(mark.size());
        return Json(out);
      }
      const char c = text_[0];
      text_.remove_prefix(1);
      if (c == '\\' && !text_.empty()) {
        add_escape(out);
      } else {
        out += c;
      }
    }
    return std::nullopt;
  }

  /// What follows a backslash. An escape that Python does not know stays as it is.
  void add_escape(std::string& out) {
    constexpr std::string_view kNames = "\\'\"nrtbfav0\n";
    constexpr std::string_view kBytes("\\'\"\n\r\t\b\f\a\v\0", 11);
    const char c = text_[0];
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t point = 0;
    if (digits > 0 && text_.size() > digits) {
      const char* begin = text_.data() + 1;
      const auto [end, error] = std::from_chars(begin, begin + digits, point, 16);
      if (error == std::errc{} && end == begin + digits && point <= 0x10ffff) {
        text_.remove_prefix(1 + digits);
        append_utf8(out, point);
        return;
      }
    }
    const size_t at = kNames.find(c);
    if (at == std::string_view::npos) {
      out += '\\';
      return;
    }
    text_.remove_prefix(1);
    if (at < kBytes.size()) out += kBytes[at];  // a line break after a backslash is left out
  }

  /// A number, a truth value or nothing.
  std::optional<Json> word() {
    skip_space();
    size_t size = 0;
    while (size < text_.size() && (is_name_byte(text_[size]) || text_[size] == '+')) ++size;
    std::string word(text_.substr(0, size));
    text_.remove_prefix(size);
    if (word == "True" || word == "true") return Json(true);
    if (word == "False" || word == "false") return Json(false);
    if (word == "None" || word == "null") return Json(nullptr);
    std::erase(word, '_');
    if (std::optional<Json> number = read_json(word); number && number->is_number()) return number;
    // What JSON does not have, such as +2, 007 and 1.
    const char* begin = word.data() + (word.starts_with('+') ? 1 : 0);
    const char* end = word.data() + word.size();
    int64_t whole = 0;
    const auto read = std::from_chars(begin, end, whole);
    if (read.ptr == end && read.ec == std::errc{}) return Json(whole);
    double number = 0;
    const auto [stop, error] = std::from_chars(begin, end, number);
    if (error != std::errc{} || stop != end || !std::isfinite(number)) return std::nullopt;
    return Json(number);
  }

  std::string_view text_;
};

/// `NAME(KEY=VALUE, …)` off the front.
bool take_python_call(LiteralReader& reader, std::vector<ToolCall>& calls) {
  const auto name = reader.name();
  if (!name || !reader.take("(")) return false;
  const std::optional<Json> arguments = reader.members(")", "=");
  if (!arguments) return false;
  calls.push_back({"", std::string(*name), write_json(*arguments)});
  return true;
}

}  // namespace

std::optional<Json> read_literal(std::string_view text) {
  LiteralReader reader(text);
  std::optional<Json> value = reader.value();
  if (!reader.at_end()) return std::nullopt;
  return value;
}

Calls python(std::string_view text, const DeclaredTools& tools) {
  if (Calls calls = json(text, tools)) return calls;
  std::vector<ToolCall> calls;
  LiteralReader reader(text);
  const bool list = reader.take("[");
  while (!(list && reader.take("]")) && !reader.at_end()) {
    if (!take_python_call(reader, calls)) return std::nullopt;
    reader.take(",");
  }
  return all_read(std::move(calls), reader.rest());
}

Calls gemma(std::string_view text, const DeclaredTools& /*tools*/) {
  std::vector<ToolCall> calls;
  LiteralReader reader(text);
  while (reader.take("call:")) {
    const auto name = reader.name();
    if (!name || !reader.take("{")) return std::nullopt;
    const std::optional<Json> arguments = reader.members("}", ":");
    if (!arguments) return std::nullopt;
    calls.push_back({"", std::string(*name), write_json(*arguments)});
  }
  return all_read(std::move(calls), reader.rest());
}

}  // namespace infer::calls
