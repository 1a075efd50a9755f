// str.splitlines().
#pragma once

#include <string_view>
#include <vector>

#include "engine/text/template/characters.h"
#include "engine/text/template/value.h"
#include "engine/text/unicode.h"

namespace infer::jinja {

/// The lines of a text, with what ends them if `keep_ends`. Views into the text. Stops once the
/// budget is spent.
inline std::vector<std::string_view> split_lines(Budget& budget, std::string_view text,
                                                 bool keep_ends) {
  std::vector<std::string_view> lines;
  budget.work(text.size(), Budget::kLoop);
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size() && !budget.spent();) {
    const Utf8Char c = decode_utf8(text, pos);
    if (!is_line_end(c.code)) {
      pos += c.size;
      continue;
    }
    const size_t end = pos;
    pos += c.size;
    if (c.code == '\r' && pos < text.size() && text[pos] == '\n') ++pos;
    budget.step();
    lines.push_back(text.substr(begin, (keep_ends ? pos : end) - begin));
    begin = pos;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace infer::jinja
