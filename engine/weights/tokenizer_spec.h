// A vocabulary as a file describes it; engine/text makes a Tokenizer of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace infer {

/// Kinds of token, by the numbers GGUF uses.
enum class TokenType : uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

inline constexpr int32_t kNoToken = -1;

/// BERT's max_input_chars_per_word.
inline constexpr int32_t kMaxWordChars = 100;

/// How a text is divided into words at the matches of a regular expression.
enum class SplitBehaviour : uint8_t {
  isolated,    ///< each match is a word, and so is each text between matches
  previous,    ///< a match ends the word it follows
  next,        ///< a match begins the word that follows
  contiguous,  ///< as isolated, but adjacent matches are one word
  matches,     ///< only matches are words; the rest is dropped
};

/// One step of dividing a text into words. Each step divides the words of the step before.
struct SplitRule {
  std::string pattern;  ///< in Oniguruma's syntax
  SplitBehaviour behaviour = SplitBehaviour::isolated;
};

/// A pre-tokenizer that has no name in GGUF.
struct WordRules {
  std::vector<SplitRule> steps;
  bool ignore_merges = false;  ///< a word that is a token becomes that token, without merges
  /// True: merges work on characters, with ▁ for spaces. False: on bytes.
  bool characters = false;
  bool fuse_unknown = false;  ///< a run of unknown characters is one token
};

/// The names follow GGUF (`tokenizer.ggml.*`). Ids are checked by the reader: kNoToken or in range.
/// `tokens`, `scores`, `types` have equal length where not empty.
struct TokenizerSpec {
  std::string source;  ///< file, for messages
  std::string model;   ///< "llama", "gpt2", "bert", "t5", "plamo2"; "none" or empty: no vocabulary
  std::string pre;     ///< pre-tokenizer of "gpt2": "llama-bpe", "qwen2", …
  /// Of "gpt2", in place of `pre`: only Hugging Face's files have it.
  std::optional<WordRules> words;
  std::vector<std::string> tokens;            ///< by id
  std::vector<float> scores;                  ///< by id, or empty
  std::vector<TokenType> types;               ///< by id, or empty: all normal
  std::vector<std::string> merges;            ///< "left right", best first
  std::vector<uint8_t> precompiled_charsmap;  ///< SentencePiece normalisation (Unigram)

  int32_t bos = kNoToken, eos = kNoToken, eot = kNoToken, eom = kNoToken;
  int32_t unknown = kNoToken, separator = kNoToken, padding = kNoToken;
  int32_t cls = kNoToken, mask = kNoToken;
  int32_t fim_pre = kNoToken, fim_suf = kNoToken, fim_mid = kNoToken;
  int32_t fim_pad = kNoToken, fim_rep = kNoToken, fim_sep = kNoToken;

  // −1: the file does not say, the kind's default holds; else 0 or 1.
  int8_t add_bos = -1, add_eos = -1, add_sep = -1, add_space_prefix = -1;
  int8_t remove_extra_whitespaces = -1;
  int8_t lowercase = -1, strip_accents = -1;  ///< tokenizer.ggml.normalizer.*, for "bert"

  // What GGUF has no keys for: written under keys of our own (tokenizer_keys.h).
  int8_t ignore_merges = -1;          ///< "gpt2" with `pre`: −1: as `pre` says
  bool prefix_at_start_only = false;  ///< no space of its own for what follows a special token
  bool prefix_unless_space = false;   ///< nor for what begins with a space
  bool join_spaces = false;           ///< "t5": runs of spaces count as one, also at the ends
  std::vector<int32_t> strips_left, strips_right;  ///< tokens that take the white space around them
  std::vector<int32_t>
      single_words;  ///< tokens that are found only where no word goes on beside them
  /// Tokens that are looked for, normalised like the text, in what the others leave of the
  /// normalised text.
  std::vector<int32_t> normalised;
  std::vector<int32_t> literal;  ///< tokens that are found as they are spelt: ▁ is no space in them
  std::vector<int32_t> apart;    ///< tokens that a text has only by their spelling, never by merges
  bool compose = false;          ///< "gpt2": texts are put into Unicode's form C
  // "t5", in the manner of the library `tokenizers`. The first four take the place of
  // remove_extra_whitespaces.
  bool strip_left = false, strip_right = false;  ///< white space at the ends is dropped
  bool cuts_at_marks = false;         ///< a ▁ begins a word, and tokens lie within words
  bool words_at_white_space = false;  ///< white space is dropped, and a ▁ put before each word
  bool strips_first = false;          ///< before the precompiled charsmap, else after it
  bool joins_to_marks = false;        ///< what join_spaces makes of several spaces is ▁
  /// The charsmap maps what a reader takes for one character, of up to 5 bytes, as a whole.
  bool maps_graphemes = false;
  std::vector<double> exact_scores;  ///< as `scores`, where float cannot hold them; or empty
  /// "bert": longer words, in characters, become the unknown token.
  int32_t max_word_chars = kMaxWordChars;
  // "plamo2": so many equal characters, or spaces, in a row share no token with what is beside
  // them; 0: any number may.
  int32_t cut_repeats = 0, cut_spaces = 0;

  std::string chat_template;  ///< Jinja source, or empty
  std::vector<std::pair<std::string, std::string>> named_chat_templates;
};

}  // namespace infer
