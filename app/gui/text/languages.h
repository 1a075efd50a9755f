// What the highlighter knows of a programming language: words and marks, no code.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace infer::gui {

/// Bits of Language::traits.
enum LanguageTrait : uint32_t {
  kIgnoresCase = 1 << 0,
  kNestedComments = 1 << 1,
  kTripleQuotes = 1 << 2,     ///< """ and ''' hold several lines
  kLongBackticks = 1 << 3,    ///< `…` holds several lines
  kHashLines = 1 << 4,        ///< a line that begins with # is for the preprocessor
  kAtWords = 1 << 5,          ///< @word is an annotation
  kDollarWords = 1 << 6,      ///< $word and ${…} are variables
  kDashedWords = 1 << 7,      ///< words may hold '-'
  kKeys = 1 << 8,             ///< a word or string before ':' or '=' names a field
  kTags = 1 << 9,             ///< text with <tags>
  kChanges = 1 << 10,         ///< lines that begin with + or - were added or removed
  kProse = 1 << 11,           ///< Markdown
  kQuotedChars = 1 << 12,     ///< '…' holds one character; a lone ' is none (Rust's lifetimes)
  kDoubledQuotes = 1 << 13,   ///< '' within a string is a quote, a backslash is nothing special
  kMarkAfterBlank = 1 << 14,  ///< a line comment begins only at a start or after a blank
};

struct Language {
  std::string_view names;     ///< names after a fence, with blanks between, the usual one first
  std::string_view keywords;  ///< with blanks between
  std::string_view types;     ///< types, constants and functions that belong to the language
  std::string_view line_comments;  ///< one or two marks
  std::string_view comment_begin, comment_end;
  std::string_view quotes;  ///< characters that begin and end strings
  uint32_t traits = 0;
};

/// All languages. Constants of the program.
const std::vector<Language>& languages();

/// The language that is called `name`, whatever its case; null if it is not known.
const Language* find_language(std::string_view name);

}  // namespace infer::gui
