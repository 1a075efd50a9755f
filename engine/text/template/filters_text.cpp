// Filters of text.
#include <algorithm>
#include <cmath>

#include "engine/text/template/characters.h"
#include "engine/text/template/format.h"
#include "engine/text/template/repr.h"

namespace infer::jinja {
namespace {

/// The operand as a string; markup stays markup.
Result<Value> soft(Call& call) {
  if (call.self.is(Kind::string)) return call.self;
  INFER_TRY(std::string text, call.in.str(call.self));
  return call.in.string(std::move(text));
}

template <std::string (*change)(std::string_view)>
Result<Value> changed(Call& call) {
  INFER_TRY(const Value text, soft(call));
  call.in.budget().work(text.text().size(), Budget::kCharacter);
  INFER_CHECK_R(call.in.check_budget());
  return call.in.string(change(text.text()), text.markup());
}

/// Jinja's own title(): words begin after white space, hyphens and opening brackets.
std::string title_words(std::string_view text) {
  const std::u32string characters = decode(text);
  const std::u32string_view all = characters;
  std::u32string out;
  size_t begin = 0;  // of the word
  const auto flush = [&](size_t end) {
    if (end == begin) return;
    const std::u32string_view word = all.substr(begin, end - begin);
    add_upper(out, word[0]);
    for (size_t i = 1; i < word.size(); ++i) add_lower(out, word.substr(1), i - 1);
  };
  for (size_t i = 0; i < all.size(); ++i) {
    const char32_t c = all[i];
    if (!is_space(c) && c != '-' && c != '(' && c != '{' && c != '[' && c != '<') continue;
    flush(i);
    out += c;
    begin = i + 1;
  }
  flush(all.size());
  return encode(out);
}

Result<Value> trim(Call& call) {
  INFER_TRY(const Value text, soft(call));
  const Value chars = call.has(0) ? call[0] : Value::none();
  INFER_TRY(const Value strip, call.in.attribute(text, "strip"));
  return call.in.call(strip, {{chars}, {}});
}

Result<Value> center(Call& call) {
  INFER_TRY(const Value text, soft(call));
  INFER_TRY(const Value method, call.in.attribute(text, "center"));
  INFER_TRY(const int64_t width, call.integer(0, 80));
  return call.in.call(method, {{Value::of(width)}, {}});
}

Result<Value> replace(Call& call) {
  Arguments arguments;
  for (size_t i = 0; i < 2; ++i) {
    INFER_TRY(std::string text, call.in.str(call[i]));
    arguments.positional.push_back(call.in.string(std::move(text)));
  }
  if (call.has(2) && !call[2].is(Kind::none)) arguments.positional.push_back(call[2]);
  INFER_TRY(std::string text, call.in.str(call.self));
  INFER_TRY(const Value method, call.in.attribute(call.in.string(std::move(text)), "replace"));
  return call.in.call(method, std::move(arguments));
}

Result<Value> escape(Call& call) {
  INFER_TRY(const Value text, soft(call));
  if (text.markup()) return text;
  INFER_TRY(std::string escaped, call.in.escaped(text.text()));
  return call.in.string(std::move(escaped), true);
}

Result<Value> force_escape(Call& call) {
  INFER_TRY(const std::string text, call.in.str(call.self));
  INFER_TRY(std::string escaped, call.in.escaped(text));
  return call.in.string(std::move(escaped), true);
}

Result<Value> safe(Call& call) {
  INFER_TRY(std::string text, call.in.str(call.self));
  return call.in.string(std::move(text), true);
}

Result<Value> format(Call& call) {
  if (!call.given.positional.empty() && !call.given.named.empty()) {
    return raise("can't handle positional and keyword arguments at the same time");
  }
  INFER_TRY(const Value text, soft(call));
  if (call.given.named.empty()) {
    return format_percent(call.in, text, call.in.tuple(call.given.positional));
  }
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [name, value] : call.given.named) {
    entries.emplace_back(call.in.string(name), value);
  }
  return format_percent(call.in, text, call.in.dict(std::move(entries)));
}

Result<Value> word_count(Call& call) {
  INFER_TRY(const Value text, soft(call));
  INFER_TRY(const std::u32string characters, call.in.characters(text.text()));
  int64_t count = 0;
  bool within = false;
  for (const char32_t c : characters) {
    const bool word = is_word(c);
    if (word && !within) ++count;
    within = word;
  }
  return Value::of(count);
}

Result<Value> strip_tags(Call& call) {
  INFER_TRY(const std::string text, call.in.str(call.self));
  call.in.budget().work(text.size(), Budget::kCharacter);
  INFER_CHECK_R(call.in.check_budget());
  std::string bare;
  size_t at = 0;
  while (at < text.size()) {
    const size_t open = text.find('<', at);
    const bool comment = open != std::string::npos && text.compare(open, 4, "<!--") == 0;
    const size_t close = open == std::string::npos ? open : text.find(comment ? "-->" : ">", open);
    if (close == std::string::npos) break;
    bare.append(text, at, open - at);
    at = close + (comment ? 3 : 1);
  }
  bare.append(text, at);
  // Runs of white space become one space; then HTML's most common entities are read.
  std::string words;
  for (size_t pos = skip_spaces(bare, 0); pos < bare.size();) {
    size_t end = pos;
    while (end < bare.size() && skip_spaces(bare, end) == end) ++end;
    if (!words.empty()) words += ' ';
    words.append(bare, pos, end - pos);
    pos = skip_spaces(bare, end);
  }
  constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&amp;", "&"}, {"&lt;", "<"},   {"&gt;", ">"},
      {"&#39;", "'"}, {"&#34;", "\""}, {"&quot;", "\""}};
  std::string out;
  for (size_t i = 0; i < words.size();) {
    const auto* entity = std::ranges::find_if(
        kEntities, [&](const auto& e) { return words.compare(i, e.first.size(), e.first) == 0; });
    if (entity == std::end(kEntities)) {
      out += words[i++];
    } else {
      out += entity->second;
      i += entity->first.size();
    }
  }
  return call.in.string(std::move(out));
}

Result<std::string> quoted(Interpreter& in, std::string_view text, bool in_query) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  in.budget().work(text.size(), Budget::kLoop);
  INFER_CHECK_R(in.check_budget());
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !in_query);
    if (plain) {
      out += c;
    } else if (c == ' ' && in_query) {
      out += '+';
    } else {
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

Result<Value> url_encode(Call& call) {
  const Value& self = call.self;
  const bool pairs = self.is(Kind::dict) || self.is(Kind::list) || self.is(Kind::tuple);
  if (!pairs) {
    INFER_TRY(const std::string text, call.in.str(self));
    INFER_TRY(std::string path, quoted(call.in, text, false));
    return call.in.string(std::move(path));
  }
  std::string query;
  const auto add = [&](const Value& key, const Value& value) -> Status {
    INFER_TRY_S(const std::string name, call.in.str(key));
    INFER_TRY_S(const std::string text, call.in.str(value));
    INFER_TRY_S(const std::string left, quoted(call.in, name, true));
    INFER_TRY_S(const std::string right, quoted(call.in, text, true));
    call.in.budget().step();
    INFER_CHECK(call.in.append(query, query.empty() ? "" : "&"));
    INFER_CHECK(call.in.append(query, left));
    INFER_CHECK(call.in.append(query, "="));
    return call.in.append(query, right);
  };
  if (self.is(Kind::dict)) {
    for (const auto& [key, value] : self.dict().entries) INFER_CHECK_R(add(key, value));
  } else {
    for (const Value& item : self.items()) {
      INFER_TRY(const Elements pair, call.in.elements(item));
      if (pair.size() != 2) return raise("urlencode needs pairs");
      INFER_CHECK_R(add(pair[0], pair[1]));
    }
  }
  return call.in.string(std::move(query));
}

Result<Value> xml_attributes(Call& call) {
  if (!call.self.is(Kind::dict)) return raise("xmlattr needs a dict");
  std::string out;
  for (const auto& [key, value] : call.self.dict().entries) {
    if (value.is(Kind::none) || value.is(Kind::undefined)) continue;
    INFER_TRY(const std::string name, call.in.str(key));
    if (name.find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      return raise("Invalid character in attribute name: '{}'", shortened(name));
    }
    INFER_TRY(const std::string text, call.in.str(value));
    INFER_TRY(const std::string left, call.in.escaped(name));
    INFER_TRY(const std::string right, call.in.escaped(text));
    call.in.budget().step();
    INFER_CHECK_R(call.in.append(out, out.empty() ? "" : " "));
    INFER_CHECK_R(call.in.append(out, left));
    INFER_CHECK_R(call.in.append(out, "=\""));
    INFER_CHECK_R(call.in.append(out, right));
    INFER_CHECK_R(call.in.append(out, "\""));
  }
  if (call.truth(0, true) && !out.empty()) out = " " + out;
  return call.in.string(std::move(out));
}

Result<Value> file_size(Call& call) {
  if (!call.self.is_number()) return raise("filesizeformat needs a number");
  const double bytes = call.self.number();
  const bool binary = call.truth(0);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return call.in.string("1 Byte");
  if (!(std::fabs(bytes) < 9.2e18)) {
    if (!(bytes >= base)) return raise("filesizeformat: the number is out of range");
  } else if (bytes < base) {
    return call.in.string(fmt::format("{} Bytes", static_cast<int64_t>(bytes)));
  }
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  std::string out;
  for (const char prefix : kPrefixes) {
    unit *= base;
    out = fmt::format("{:.1f} {}{}B", base * bytes / unit, binary && prefix == 'k' ? 'K' : prefix,
                      binary ? "i" : "");
    if (bytes < unit) break;
  }
  return call.in.string(std::move(out));
}

/// json.dumps() with the arguments that Hugging Face passes on.
Result<Value> to_json(Call& call) {
  JsonStyle style;
  style.ensure_ascii = call.truth(0);
  style.sort_keys = call.truth(3);
  if (call.has(1) && !call[1].is(Kind::none)) {
    style.pretty = true;
    style.item_separator = ",";
    if (call[1].is(Kind::string)) {
      style.indent = call[1].text();
    } else {
      INFER_TRY(const int64_t width, call.integer(1));
      INFER_CHECK_R(call.in.check_size(width));
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
    if (style.indent.size() > 1000) return raise("tojson: an indent of more than 1000 bytes");
  }
  if (call.has(2) && !call[2].is(Kind::none)) {
    INFER_TRY(const Elements separators, call.in.elements(call[2]));
    if (separators.size() != 2 || !separators[0].is(Kind::string) ||
        !separators[1].is(Kind::string)) {
      return raise("tojson: separators are two strings");
    }
    style.item_separator = separators[0].text();
    style.key_separator = separators[1].text();
  }
  std::string out;
  INFER_CHECK_R(write_json(call.in.budget(), call.self, style, out));
  return call.in.string(std::move(out));
}

constexpr Builtin kTextFilters[] = {
    {"upper", "", changed<upper>},
    {"lower", "", changed<lower>},
    {"capitalize", "", changed<capitalize>},
    {"title", "", changed<title_words>},
    {"string", "", soft},
    {"trim", "chars?", trim},
    {"center", "width?", center},
    {"replace", "old new count?", replace},
    {"escape", "", escape},
    {"e", "", escape},
    {"forceescape", "", force_escape},
    {"safe", "", safe},
    {"format", "*", format},
    {"wordcount", "", word_count},
    {"striptags", "", strip_tags},
    {"urlencode", "", url_encode},
    {"xmlattr", "autospace?", xml_attributes},
    {"filesizeformat", "binary?", file_size},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", to_json},
};

}  // namespace

std::span<const Builtin> text_filters() { return kTextFilters; }

}  // namespace infer::jinja
