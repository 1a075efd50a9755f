// Colours of source code: what a part of a line is, found by the tables in languages.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "gui/text/languages.h"

namespace infer::gui {

enum class Token : uint8_t {
  plain,
  keyword,
  type,
  string,
  comment,
  number,
  function,
  meta,  ///< preprocessor, annotations, variables of a shell, tags
  key,   ///< a field's name
  added,
  removed,
};
constexpr size_t kTokens = 11;

struct TokenSpan {
  uint32_t begin = 0, end = 0;  ///< bytes in the line
  Token token = Token::plain;
};

/// What is open at the end of a line.
struct HighlightState {
  enum class Open : uint8_t { nothing, comment, triple, backtick, tag } open = Open::nothing;
  uint8_t depth = 0;  ///< of nested comments
  char quote = 0;     ///< of what is open

  bool operator==(const HighlightState&) const = default;
};

/// Line by line, so that a text that grows is coloured once. Thread-safe for different states.
class Highlighter {
 public:
  /// An unknown name gives a highlighter that finds nothing.
  explicit Highlighter(std::string_view language_name);

  /// `line` has no '\n'. The spans cover it in order. Linear in the line. Returns the state at the
  /// begin of the next line.
  HighlightState line(std::string_view line, HighlightState state,
                      std::vector<TokenSpan>& spans) const;
  bool knows_language() const { return language_ != nullptr; }

 private:
  friend class LineReader;

  const Language* language_;
  std::vector<std::string_view> keywords_, types_;  ///< sorted
};

}  // namespace infer::gui
