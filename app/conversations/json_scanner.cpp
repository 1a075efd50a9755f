#include "conversations/json_scanner.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace infer::conversations {
namespace {

constexpr int kEnd = std::istream::traits_type::eof();
constexpr size_t kMaxNameBytes = 1'000;

bool is_space(int c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

JsonScanner::JsonScanner(std::istream& in, std::string name) : in_(in), name_(std::move(name)) {
  if (in_.peek() != 0xEF) return;
  // A byte order mark, as some editors write it.
  for (const int expected : {0xEF, 0xBB, 0xBF}) {
    if (next() != expected) fail("JSON");
  }
}

int JsonScanner::next() {
  const int c = in_.get();
  if (c != kEnd) ++position_;
  return c;
}

void JsonScanner::fail(const std::string& expected) {
  if (!status_.ok()) return;
  status_ = in_.bad() ? Status(StatusCode::io, fmt::format("{}: cannot read the file", name_))
                      : Status(StatusCode::bad_file,
                               fmt::format("{}: byte {}: expected {}", name_, position_, expected));
}

void JsonScanner::skip_space() {
  while (is_space(in_.peek())) next();
}

char JsonScanner::peek() {
  if (!status_.ok()) return 0;
  skip_space();
  const int c = in_.peek();
  return c == kEnd ? '\0' : static_cast<char>(c);
}

bool JsonScanner::take(char expected) {
  if (!status_.ok()) return false;
  skip_space();
  if (in_.peek() == static_cast<unsigned char>(expected)) {
    next();
    return true;
  }
  fail(fmt::format("'{}'", expected));
  return false;
}

bool JsonScanner::another(char end, bool& is_first) {
  if (peek() == end) {
    take(end);
    return false;
  }
  if (!is_first) take(',');
  is_first = false;
  return status_.ok();
}

bool JsonScanner::take_nested(std::string& text, size_t most) {
  int64_t depth = 0;
  bool in_string = false;
  do {
    const int c = next();
    if (c == kEnd || text.size() == most) return false;
    text += static_cast<char>(c);
    if (in_string) {
      if (c == '\\') {
        const int escaped = next();
        if (escaped == kEnd || text.size() == most) return false;
        text += static_cast<char>(escaped);
      }
      in_string = c != '"';
    } else {
      in_string = c == '"';
      depth += c == '{' || c == '[' ? 1 : 0;
      depth -= c == '}' || c == ']' ? 1 : 0;
    }
  } while (in_string || depth > 0);
  return true;
}

std::string JsonScanner::value(size_t most) {
  std::string text;
  const char first = peek();
  if (first == '{' || first == '[' || first == '"') {
    if (!take_nested(text, most)) {
      fail(in_.eof() ? "the end of a value that began before"
                     : fmt::format("a value of at most {} bytes", most));
    }
    return text;
  }
  for (int c = in_.peek(); status_.ok() && c != kEnd && c != ',' && c != '}' && c != ']' &&
                           !is_space(c) && text.size() < most;
       c = in_.peek()) {
    text += static_cast<char>(next());
  }
  if (text.empty()) fail("a value");
  return text;
}

std::string JsonScanner::member() {
  if (peek() != '"') {
    fail("the name of a member");
    return {};
  }
  const nlohmann::json name = nlohmann::json::parse(value(kMaxNameBytes), nullptr, false);
  if (!name.is_string()) {
    fail("the name of a member");
    return {};
  }
  take(':');
  return name.get<std::string>();
}

void JsonScanner::end() {
  if (peek() != 0) fail("the end of the file");
}

}  // namespace infer::conversations
