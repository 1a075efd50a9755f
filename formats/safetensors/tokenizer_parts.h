// The sections of a tokenizer.json, one function each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/weights/tokenizer_spec.h"
#include "formats/safetensors/json_document.h"

namespace infer::safetensors {

/// Most tokens of a vocabulary: what a file's ids may make us allocate.
inline constexpr int64_t kMaxTokens = int64_t{1} << 20;

/// ▁ (U+2581), SentencePiece's space.
inline constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

/// `normalizer` and `pre_tokenizer` together: what happens to a text before its words become
/// tokens.
struct TextSteps {
  bool compose = false;      ///< NFC
  bool byte_level = false;   ///< words are spelt in GPT-2's alphabet
  bool space_marks = false;  ///< spaces become ▁
  bool prefix = false;       ///< a text gets a ▁ before it
  bool prefix_at_start_only = false;
  bool prefix_unless_space = false;
  bool prepends = false;     ///< the ▁ before it is put there by the normaliser
  bool marks_twice = false;  ///< both of them make ▁ of spaces
  bool strip_left = false, strip_right = false;  ///< Strip
  bool strips_first = false;                     ///< before `charsmap`
  bool words_at_white_space = false;             ///< WhitespaceSplit before Metaspace
  bool join_spaces = false;                      ///< runs of spaces count as one, also at the ends
  bool joins_to_marks = false;                   ///< as a ▁
  bool bert = false;                             ///< BertNormalizer and BertPreTokenizer
  int8_t lowercase = -1, strip_accents = -1;     ///< of BertNormalizer
  std::vector<uint8_t> charsmap;                 ///< Precompiled
  std::vector<SplitRule> splits;
};

/// Steps that have no place in TextSteps are failures (unsupported) kept by the JsonPlace.
TextSteps read_text_steps(const JsonPlace& root);

/// Ids by spelling: views of the tokens, which do not change any more.
using TokenIds = std::unordered_map<std::string_view, int32_t>;

/// `post_processor`: the spellings of what stands before and after a text. Empty where nothing
/// does; `found` is false where the file has no such section.
struct Surroundings {
  bool found = false;
  std::vector<std::string> before, after;
  bool separated = false;  ///< of two texts a second token follows what ends the first
};
Surroundings read_surroundings(const JsonPlace& post_processor);

/// The tokens of `model.vocab` into spec.tokens, spec.types (`unused`, "": no such id), and of
/// Unigram spec.scores.
void read_vocabulary(const JsonPlace& model, TokenizerSpec& spec);

/// What `model` and the steps say else, by its type: spec.model, merges or scores, `words`.
void read_bpe(const JsonPlace& model, TextSteps steps, const TokenIds& ids, TokenizerSpec& spec);
void read_unigram(const JsonPlace& model, TextSteps steps, TokenizerSpec& spec);
void read_wordpiece(const JsonPlace& model, const TextSteps& steps, TokenizerSpec& spec);

}  // namespace infer::safetensors
