// From a template's source to tokens, with Jinja's rules for white space: trim_blocks (a line end
// after a block or comment goes) and lstrip_blocks (so does the space before it on its line).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/template/value.h"

namespace infer::jinja {

enum class TokenKind : uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  number,
  op,
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  int line = 1;
  std::string text;  ///< data, names, operators, strings unescaped
  Value number;

  bool is_name(std::string_view name) const { return kind == TokenKind::name && text == name; }
  bool is_op(std::string_view op) const { return kind == TokenKind::op && text == op; }
};

/// What a token is called in messages.
std::string describe(const Token& token);

/// The tokens, the last one `end`. bad_file with the line otherwise.
Result<std::vector<Token>> tokenize(std::string_view source);

template <typename... Args>
tl::unexpected<Status> syntax_error(int line, fmt::format_string<Args...> text, Args&&... args) {
  return fail(StatusCode::bad_file, "template, line {}: {}", line,
              fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace infer::jinja
