#include "engine/text/template/repr.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/text/template/characters.h"
#include "engine/text/unicode.h"

namespace infer::jinja {
namespace {

bool too_long(Budget& budget, const std::string& out) {
  return !budget.step() || out.size() > static_cast<size_t>(Budget::kOutput);
}

/// Appends a number's last hexadecimal digits.
void append_hex(std::string& out, uint32_t number, int digits) {
  for (int i = digits - 1; i >= 0; --i) out += "0123456789abcdef"[(number >> (4 * i)) & 15];
}

/// Appends a part whose length no limit on values bounds.
void put(Budget& budget, std::string_view part, std::string& out) {
  if (budget.work(part.size(), 1)) out += part;
}

/// `sorted`: dicts by their keys, as pprint has them.
void write(Budget& budget, const Value& value, bool sorted, std::string& out, int level);

/// pprint's order: keys that cannot be compared are by the names of their types.
bool pretty_less(Budget& budget, const Value& a, const Value& b) {
  const Result<bool> below = less(budget, a, b);
  return below ? *below : a.type_name() < b.type_name();
}

void write_items(Budget& budget, const std::vector<Value>& items, bool sorted, std::string& out,
                 int level) {
  bool first = true;
  for (const Value& item : items) {
    if (!first) out += ", ";
    first = false;
    write(budget, item, sorted, out, level);
  }
}

void write_entries(Budget& budget, const std::vector<std::pair<Value, Value>>& entries, bool sorted,
                   std::string& out, int level) {
  std::vector<const std::pair<Value, Value>*> order;
  if (!budget.work(entries.size(), Budget::kValue)) return;
  for (const auto& entry : entries) order.push_back(&entry);
  if (sorted) {
    std::ranges::stable_sort(order, [&](const auto* a, const auto* b) {
      return pretty_less(budget, a->first, b->first);
    });
  }
  bool first = true;
  for (const auto* entry : order) {
    if (!first) out += ", ";
    first = false;
    write(budget, entry->first, sorted, out, level);
    out += ": ";
    write(budget, entry->second, sorted, out, level);
  }
}

void json_character(char32_t code, bool ensure_ascii, std::string& out) {
  switch (code) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    case '\f': out += "\\f"; return;
    case '\b': out += "\\b"; return;
    default: break;
  }
  if (code >= 0x20 && (code < 0x7f || !ensure_ascii)) {
    append_utf8(out, code);
  } else if (code < 0x10000) {
    out += "\\u";
    append_hex(out, code, 4);
  } else {
    const uint32_t rest = code - 0x10000;
    out += "\\u";
    append_hex(out, 0xd800 + (rest >> 10), 4);
    out += "\\u";
    append_hex(out, 0xdc00 + (rest & 0x3ff), 4);
  }
}

void json_text(Budget& budget, std::string_view text, bool ensure_ascii, std::string& out) {
  constexpr int64_t kLongest = 6;  // bytes in place of one
  if (!budget.work(text.size(), kLongest)) return;
  out += '"';
  for (size_t at = 0; at < text.size();) {
    // Runs that stay as they are, as most of a text does.
    size_t end = at;
    while (end < text.size() && static_cast<unsigned char>(text[end]) >= 0x20 && text[end] != '"' &&
           text[end] != '\\' && (static_cast<unsigned char>(text[end]) < 0x7f || !ensure_ascii)) {
      ++end;
    }
    out += text.substr(at, end - at);
    if (end == text.size()) break;
    const Utf8Char c = decode_utf8(text, end);
    json_character(c.code, ensure_ascii, out);
    at = end + c.size;
  }
  out += '"';
}

std::string json_real(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return repr_real(value);
}

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonStyle& style, std::string& out)
      : budget_(budget), style_(style), out_(out) {}

  Status value(const Value& v, int level) {
    if (too_long(budget_, out_)) {
      return budget_.spent() ? budget_.failure() : raise("JSON is too large").value();
    }
    switch (v.kind()) {
      case Kind::none: out_ += "null"; return {};
      case Kind::boolean: out_ += v.boolean() ? "true" : "false"; return {};
      case Kind::integer: out_ += fmt::format("{}", v.integer()); return {};
      case Kind::big_integer: put(budget_, v.text(), out_); return {};
      case Kind::real: out_ += json_real(v.number()); return {};
      case Kind::string: json_text(budget_, v.text(), style_.ensure_ascii, out_); return {};
      case Kind::list:
      case Kind::tuple: {
        if (v.items().empty()) {
          out_ += "[]";
          return {};
        }
        out_ += '[';
        bool first = true;
        for (const Value& item : v.items()) {
          separate(first, level + 1);
          INFER_CHECK(value(item, level + 1));
        }
        close(level, ']');
        return {};
      }
      case Kind::dict: return dict(v.dict(), level);
      default: return raise("Object of type {} is not JSON serializable", v.type_name()).value();
    }
  }

 private:
  void separate(bool& first, int level) {
    if (!first) put(budget_, style_.item_separator, out_);
    first = false;
    line(level);
  }

  void line(int level) {
    if (!style_.pretty) return;
    out_ += '\n';
    for (int i = 0; i < level; ++i) put(budget_, style_.indent, out_);
  }

  void close(int level, char closer) {
    line(level);
    out_ += closer;
  }

  Status dict(const Dict& dict, int level) {
    if (dict.entries.empty()) {
      out_ += "{}";
      return {};
    }
    budget_.work(dict.entries.size(), Budget::kValue);
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      Status failure;
      std::ranges::stable_sort(entries, [&](const auto* a, const auto* b) {
        const Result<bool> below = less(budget_, a->first, b->first);
        if (!below) failure = below.error();
        return below.value_or(false);
      });
      INFER_CHECK(failure);
    }
    out_ += '{';
    bool first = true;
    for (const auto* entry : entries) {
      separate(first, level + 1);
      INFER_TRY_S(const std::string name, key(entry->first));
      json_text(budget_, name, style_.ensure_ascii, out_);
      put(budget_, style_.key_separator, out_);
      INFER_CHECK(value(entry->second, level + 1));
    }
    close(level, '}');
    return {};
  }

  Result<std::string> key(const Value& key) {
    switch (key.kind()) {
      case Kind::string:
      case Kind::big_integer: budget_.work(key.text().size(), 1); return key.text();
      case Kind::none: return "null";
      case Kind::boolean: return key.boolean() ? "true" : "false";
      case Kind::integer: return fmt::format("{}", key.integer());
      case Kind::real: return json_real(key.number());
      default: return raise("keys must be str, int, float, bool or None, not {}", key.type_name());
    }
  }

  Budget& budget_;
  const JsonStyle& style_;
  std::string& out_;
};

/// `level`: how deep the value lies; a namespace may hold itself.
void write(Budget& budget, const Value& value, bool sorted, std::string& out, int level) {
  budget.nest(level);
  if (level > Budget::kNesting || too_long(budget, out)) return;
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined: out += "Undefined"; return;
    case Kind::none: out += "None"; return;
    case Kind::boolean: out += value.boolean() ? "True" : "False"; return;
    case Kind::integer: out += fmt::format("{}", value.integer()); return;
    case Kind::big_integer: put(budget, value.text(), out); return;
    case Kind::real: out += repr_real(value.number()); return;
    case Kind::string:
      if (value.markup()) out += "Markup(";
      repr_text(budget, value.text(), out);
      if (value.markup()) out += ')';
      return;
    case Kind::list:
      out += '[';
      write_items(budget, value.items(), sorted, out, level + 1);
      out += ']';
      return;
    case Kind::tuple:
      out += '(';
      write_items(budget, value.items(), sorted, out, level + 1);
      out += value.items().size() == 1 ? ",)" : ")";
      return;
    case Kind::dict:
      out += '{';
      write_entries(budget, value.dict().entries, sorted, out, level + 1);
      out += '}';
      return;
    case Kind::name_space: {
      out += "<Namespace {";
      bool first = true;
      for (const auto& [name, attribute] : value.as<Namespace>()->attributes) {
        if (!first) out += ", ";
        first = false;
        repr_text(budget, name, out);
        out += ": ";
        write(budget, attribute, sorted, out, level + 1);
      }
      out += "}>";
      return;
    }
    case Kind::callable:
    case Kind::object: put(budget, value.object()->repr(), out); return;
  }
}

}  // namespace

std::string repr_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string_view shortest(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t e = shortest.find('e');
  std::string digits;
  for (const char c : shortest.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  int exponent = 0;
  const char* first = shortest.data() + e + 1;
  if (*first == '+') ++first;
  std::from_chars(first, shortest.data() + shortest.size(), exponent);
  std::string out = std::signbit(value) ? "-" : "";
  const auto count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) {
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  }
  if (count <= exponent + 1) {
    return out + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  const auto whole = static_cast<size_t>(exponent + 1);
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

void repr_text(Budget& budget, std::string_view text, std::string& out) {
  if (!budget.work(text.size(), Budget::kCharacter)) return;
  const bool single = text.find('\'') != std::string_view::npos;
  const char quote = single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    const char32_t code = c.code;
    at += c.size;
    if (code == static_cast<char32_t>(quote) || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (is_printable(code)) {
      append_utf8(out, code);
    } else if (code < 0x100) {
      out += "\\x";
      append_hex(out, code, 2);
    } else if (code < 0x10000) {
      out += "\\u";
      append_hex(out, code, 4);
    } else {
      out += "\\U";
      append_hex(out, code, 8);
    }
  }
  out += quote;
}

void write_repr(Budget& budget, const Value& value, std::string& out, bool sorted) {
  write(budget, value, sorted, out, 0);
}

Status write_json(Budget& budget, const Value& value, const JsonStyle& style, std::string& out) {
  return JsonWriter(budget, style, out).value(value, 0);
}

}  // namespace infer::jinja
