// Methods of strings that find something in them or divide them.
#include <algorithm>

#include "engine/text/template/characters.h"
#include "engine/text/template/interpreter.h"
#include "engine/text/template/lines.h"
#include "engine/text/template/search.h"

namespace infer::jinja {
namespace {

Value part(const Call& call, std::string_view text) {
  return call.in.string(std::string(text), call.self.markup());
}

Result<Value> list_of(const Call& call, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view p : parts) {
    INFER_CHECK_R(call.in.check_budget());
    items.push_back(part(call, p));
  }
  return call.in.list(std::move(items));
}

/// The part of the text that optional bounds leave, by code points.
struct Window {
  std::string_view text;
  int64_t offset = 0;  ///< code points before it
  bool valid = true;   ///< false if it begins after its end
};

Result<Window> window(const Call& call, size_t first) {
  const int64_t size = call.self.code_points();
  const auto bound = [&](size_t i, int64_t otherwise) -> Result<int64_t> {
    if (!call.has(i) || call[i].is(Kind::none)) return otherwise;
    INFER_TRY(int64_t index, call.integer(i));
    if (index < 0) index = std::max<int64_t>(index + size, 0);
    return index;
  };
  INFER_TRY(const int64_t begin, bound(first, 0));
  INFER_TRY(int64_t end, bound(first + 1, size));
  end = std::min(end, size);
  Window w;
  w.valid = begin <= end;
  if (!w.valid) return w;
  const std::string_view text = call.self.text();
  if (begin == 0 && end == size) {
    w.text = text;
    return w;
  }
  call.in.budget().work(text.size(), Budget::kLoop);
  const size_t from = byte_offset(text, begin);
  w.text = text.substr(from, byte_offset(text.substr(from), end - begin));
  w.offset = begin;
  return w;
}

size_t find_text(Call& call, std::string_view text, std::string_view what, bool from_right) {
  return from_right ? find_last_text(call.in.budget(), text, what)
                    : find_text(call.in.budget(), text, what);
}

Result<std::optional<int64_t>> located(Call& call, bool from_right) {
  INFER_TRY(const std::string what, call.text(0));
  INFER_TRY(const Window in, window(call, 1));
  if (!in.valid) return std::nullopt;
  const size_t at = find_text(call, in.text, what, from_right);
  INFER_CHECK_R(call.in.check_budget());
  if (at == std::string_view::npos) return std::nullopt;
  return in.offset + count_code_points(in.text.substr(0, at));
}

template <bool from_right>
Result<Value> find(Call& call) {
  INFER_TRY(const std::optional<int64_t> at, located(call, from_right));
  return Value::of(at.value_or(-1));
}

template <bool from_right>
Result<Value> index(Call& call) {
  INFER_TRY(const std::optional<int64_t> at, located(call, from_right));
  if (!at) return raise("substring not found");
  return Value::of(*at);
}

Result<Value> count(Call& call) {
  INFER_TRY(const std::string what, call.text(0));
  INFER_TRY(const Window in, window(call, 1));
  if (!in.valid) return Value::of(int64_t{0});
  if (what.empty()) return Value::of(count_code_points(in.text) + 1);
  int64_t found = 0;
  Budget& budget = call.in.budget();
  for (size_t at = find_text(budget, in.text, what); at != std::string_view::npos;
       at = find_text(budget, in.text, what, at + what.size())) {
    budget.work(Budget::kValue);
    ++found;
  }
  INFER_CHECK_R(call.in.check_budget());
  return Value::of(found);
}

Result<Value> affix(Call& call, bool prefix) {
  INFER_TRY(const Window in, window(call, 1));
  std::vector<Value> any{call[0]};
  if (call[0].is(Kind::tuple)) any = call[0].items();
  bool matches = false;
  for (const Value& value : any) {
    if (!value.is(Kind::string)) {
      return raise("{} first arg must be str or a tuple of str, not {}",
                   prefix ? "startswith" : "endswith", value.type_name());
    }
    call.in.budget().work(Budget::kCharacter);
    call.in.budget().work(std::min(in.text.size(), value.text().size()), 1);
    INFER_CHECK_R(call.in.check_budget());
    matches = matches || (in.valid && (prefix ? in.text.starts_with(value.text())
                                              : in.text.ends_with(value.text())));
  }
  return Value::of(matches);
}

Result<Value> starts_with(Call& call) { return affix(call, true); }
Result<Value> ends_with(Call& call) { return affix(call, false); }

/// Words apart by white space, at most `most` divisions. Stops once the budget is spent.
std::vector<std::string_view> words(Budget& budget, std::string_view text, int64_t most) {
  std::vector<std::string_view> parts;
  if (!budget.work(text.size(), Budget::kLoop)) return parts;
  size_t pos = skip_spaces(text, 0);
  while (pos < text.size() && budget.step()) {
    if (most-- == 0) {
      parts.push_back(text.substr(pos));  // with the white space at its end
      return parts;
    }
    size_t end = pos;
    while (end < text.size()) {
      const Utf8Char c = decode_utf8(text, end);
      if (is_space(c.code)) break;
      end += c.size;
    }
    parts.push_back(text.substr(pos, end - pos));
    pos = skip_spaces(text, end);
  }
  return parts;
}

/// The same from the right.
std::vector<std::string_view> words_from_right(Budget& budget, std::string_view text,
                                               int64_t most) {
  std::vector<std::string_view> parts;
  if (!budget.work(text.size(), Budget::kLoop)) return parts;
  text = strip_right(text);
  while (!text.empty() && budget.step()) {
    if (most-- == 0) {
      parts.push_back(text);  // with the white space at its beginning
      break;
    }
    size_t begin = text.size();
    while (begin > 0) {
      size_t before = begin - 1;
      while (before > 0 && (text[before] & 0xc0) == 0x80) --before;
      if (is_space(decode_utf8(text, before).code)) break;
      begin = before;
    }
    parts.push_back(text.substr(begin));
    text = strip_right(text.substr(0, begin));
  }
  std::ranges::reverse(parts);
  return parts;
}

Result<Value> divided(Call& call, bool from_right) {
  INFER_TRY(int64_t most, call.integer(1, -1));
  most = std::max<int64_t>(most, -1);  // below zero: all
  Budget& budget = call.in.budget();
  const std::string_view text = call.self.text();
  std::vector<std::string_view> parts;
  if (!call.has(0) || call[0].is(Kind::none)) {
    parts = from_right ? words_from_right(budget, text, most) : words(budget, text, most);
  } else {
    INFER_TRY(const std::string by, call.text(0));
    if (by.empty()) return raise("empty separator");
    std::string_view rest = text;
    for (int64_t left = most; left != 0 && budget.step(); --left) {
      const size_t at = find_text(call, rest, by, from_right);
      if (at == std::string_view::npos) break;
      parts.push_back(from_right ? rest.substr(at + by.size()) : rest.substr(0, at));
      rest = from_right ? rest.substr(0, at) : rest.substr(at + by.size());
    }
    parts.push_back(rest);
    if (from_right) std::ranges::reverse(parts);
  }
  return list_of(call, parts);
}

Result<Value> split(Call& call) { return divided(call, false); }
Result<Value> rsplit(Call& call) { return divided(call, true); }

Result<Value> partitioned(Call& call, bool from_right) {
  INFER_TRY(const std::string by, call.text(0));
  if (by.empty()) return raise("empty separator");
  const std::string_view text = call.self.text();
  const size_t at = find_text(call, text, by, from_right);
  INFER_CHECK_R(call.in.check_budget());
  if (at == std::string_view::npos) {
    if (from_right) return call.in.tuple({part(call, ""), part(call, ""), call.self});
    return call.in.tuple({call.self, part(call, ""), part(call, "")});
  }
  return call.in.tuple(
      {part(call, text.substr(0, at)), part(call, by), part(call, text.substr(at + by.size()))});
}

Result<Value> partition(Call& call) { return partitioned(call, false); }
Result<Value> rpartition(Call& call) { return partitioned(call, true); }

Result<Value> split_into_lines(Call& call) {
  return list_of(call, split_lines(call.in.budget(), call.self.text(), call.truth(0)));
}

constexpr Builtin kSearchMethods[] = {
    {"find", "/sub start? end?", find<false>},
    {"rfind", "/sub start? end?", find<true>},
    {"index", "/sub start? end?", index<false>},
    {"rindex", "/sub start? end?", index<true>},
    {"count", "/sub start? end?", count},
    {"startswith", "/prefix start? end?", starts_with, Cost::own},
    {"endswith", "/suffix start? end?", ends_with, Cost::own},
    {"split", "sep? maxsplit?", split},
    {"rsplit", "sep? maxsplit?", rsplit},
    {"partition", "/sep", partition},
    {"rpartition", "/sep", rpartition},
    {"splitlines", "keepends?", split_into_lines},
};

}  // namespace

std::span<const Builtin> string_search_methods() { return kSearchMethods; }

}  // namespace infer::jinja
