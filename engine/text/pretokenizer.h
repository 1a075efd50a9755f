// Cutting a text into the words that byte-level BPE then merges separately.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/char_text.h"
#include "engine/weights/tokenizer_spec.h"

namespace infer {

/// One step of cutting: each piece so far is cut at the beginning and end of every match.
struct SplitStage {
  /// The published regular expression that split() equals. Tests compare the two.
  const char* pattern;
  /// Appends the ends of the pieces of [begin, end), the last one being `end`. Linear time; sees
  /// nothing outside of the range.
  void (*split)(const CharText& text, uint32_t begin, uint32_t end, std::vector<uint32_t>& ends);
};

/// What a name in `tokenizer.ggml.pre` stands for.
struct PreTokenizer {
  std::span<const SplitStage> stages;
  bool ignore_merges = false;  ///< a word that is a token is that token, whatever the merges say
  bool add_bos = false;        ///< where the file does not say
  bool raw_utf8 = false;       ///< tokens are spelt in UTF-8 with ▁ for spaces, not byte by byte
};

/// Null for a name that is not known. "" is the default one.
const PreTokenizer* find_pretokenizer(std::string_view name);

/// The name of a pre-tokenizer that cuts words in the same places as `words`; "" if there is none.
/// If several do, the first one with the same ignore_merges, or else the first one.
std::string_view find_name(const WordRules& words);

/// All names, separated by ", ".
std::string pretokenizer_names();

/// Every name with its stages, for tests.
struct NamedPreTokenizer {
  std::string_view name;
  const PreTokenizer* rules;
};
std::span<const NamedPreTokenizer> all_pretokenizers();

/// The byte offsets at which the words of `text` end, ascending; the last is text.size().
std::vector<uint32_t> split_words(const PreTokenizer& rules, std::string_view text);

}  // namespace infer
