// "{}".format(…).
#include <algorithm>
#include <charconv>

#include "engine/text/template/format.h"

namespace infer::jinja {
namespace {

/// The rest of a format field of "{}": its value, from arguments by position or name.
class Braces {
 public:
  Braces(Interpreter& in, const Arguments& arguments) : in_(in), arguments_(arguments) {}

  Status run(std::string_view text, std::string& out, int level) {
    if (level > 2) return raise("Max string recursion exceeded").value();
    in_.budget().work(text.size(), Budget::kLoop);
    INFER_CHECK(in_.check_budget());
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      const bool doubled = i + 1 < text.size() && text[i + 1] == c;
      if ((c == '{' || c == '}') && doubled && level == 1) {
        out += c;
        ++i;
      } else if (c == '}') {
        return raise("Single '}}' encountered in format string").value();
      } else if (c != '{') {
        out += c;
      } else {
        INFER_CHECK(field(text, i, out, level));
      }
    }
    return {};
  }

 private:
  /// `i` is at the opening brace and ends at the closing one.
  Status field(std::string_view text, size_t& i, std::string& out, int level) {
    in_.budget().step();
    size_t end = i + 1;
    for (int open = 1; open > 0; ++end) {
      if (end >= text.size()) return raise("expected '}}' before end of string").value();
      open += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
    }
    std::string_view inside = text.substr(i + 1, end - i - 2);
    i = end - 1;
    const size_t stop = std::min(inside.find_first_of("!:"), inside.size());
    INFER_TRY_S(Value value, lookup(inside.substr(0, stop)));
    inside.remove_prefix(stop);
    if (inside.starts_with('!')) {
      if (inside.size() < 2) return raise("end of string while looking for conversion").value();
      const char conversion = inside[1];
      if (conversion == 'r' || conversion == 'a') {
        INFER_TRY_S(std::string shown, in_.repr(value));
        value = in_.string(std::move(shown));
      } else if (conversion == 's') {
        INFER_TRY_S(std::string shown, in_.str(value));
        value = in_.string(std::move(shown));
      } else {
        return raise("Unknown conversion specifier '{}'", conversion).value();
      }
      inside.remove_prefix(2);
    }
    std::string spec;
    if (inside.starts_with(':')) INFER_CHECK(run(inside.substr(1), spec, level + 1));
    INFER_TRY_S(const std::string formatted, format_spec(in_, value, spec));
    return in_.append(out, formatted);
  }

  Result<Value> lookup(std::string_view path) {
    const size_t stop = std::min(path.find_first_of(".["), path.size());
    const std::string_view first = path.substr(0, stop);
    Value value;
    if (first.empty() || std::ranges::all_of(first, [](char c) { return c >= '0' && c <= '9'; })) {
      const Numbering numbering = first.empty() ? Numbering::automatic : Numbering::manual;
      if (numbering_ != Numbering::none && numbering_ != numbering) {
        return raise("fields of a format are numbered either all or none");
      }
      numbering_ = numbering;
      size_t index = next_++;
      if (!first.empty()) std::from_chars(first.data(), first.data() + first.size(), index);
      if (index >= arguments_.positional.size()) {
        return raise("Replacement index {} out of range for positional args tuple", index);
      }
      value = arguments_.positional[index];
    } else {
      in_.budget().work(arguments_.named.size(),
                        Budget::kCharacter + static_cast<int64_t>(first.size()));
      INFER_CHECK_R(in_.check_budget());
      const auto at = std::ranges::find(arguments_.named, first,
                                        [](const auto& a) { return std::string_view(a.first); });
      if (at == arguments_.named.end()) return raise("key '{}' is not there", shortened(first));
      value = at->second;
    }
    path.remove_prefix(stop);
    while (!path.empty()) {
      if (path[0] == '.') {
        const size_t end = std::min(path.find_first_of(".[", 1), path.size());
        INFER_TRY(value, in_.attribute(value, path.substr(1, end - 1)));
        path.remove_prefix(end);
      } else {
        const size_t end = path.find(']');
        if (end == std::string_view::npos) return raise("Missing ']' in format string");
        const std::string_view key = path.substr(1, end - 1);
        int64_t index = 0;
        const auto number = std::from_chars(key.data(), key.data() + key.size(), index);
        const bool whole = number.ec == std::errc() && number.ptr == key.data() + key.size();
        INFER_TRY(value, in_.item(value, whole ? Value::of(index) : in_.string(std::string(key))));
        path.remove_prefix(end + 1);
      }
      if (value.is(Kind::undefined)) return raise("{}", value.text());
    }
    return value;
  }

  enum class Numbering : uint8_t { none, automatic, manual };

  Interpreter& in_;
  const Arguments& arguments_;
  Numbering numbering_ = Numbering::none;
  size_t next_ = 0;
};

}  // namespace

Result<Value> format_braces(Interpreter& in, const Value& text, const Arguments& arguments) {
  std::string out;
  INFER_CHECK_R(Braces(in, arguments).run(text.text(), out, 1));
  return in.string(std::move(out), text.markup());
}

}  // namespace infer::jinja
