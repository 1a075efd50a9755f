// Text to token ids and back, for one vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/status.h"
#include "engine/text/special_tokens.h"
#include "engine/weights/tokenizer_spec.h"

namespace infer {

class TextEncoder;

struct EncodeOptions {
  /// Adds what the vocabulary says belongs around a text: beginning of text, separator, end of
  /// text.
  bool add_special = true;
  /// Control tokens spelt out in the text become those tokens; else they are plain text.
  /// User-defined tokens are always recognised.
  bool parse_special = false;
};

struct DecodeOptions {
  /// Control and unknown tokens appear as they are spelt; else they leave nothing.
  bool render_special = false;
};

/// Longest text that encode() takes, in bytes.
inline constexpr size_t kMaxTextBytes = size_t{64} << 20;

/// Immutable and thread-safe. For any text of n bytes, encode() takes time and memory in the order
/// of n log n. Bytes that are not UTF-8 become tokens of single bytes, if the vocabulary has them.
class Tokenizer {
 public:
  /// The tokenizer of `spec`. Errors: unsupported for a tokenizer or pre-tokenizer that is not
  /// known (the message lists those that are); bad_file naming the file and the field for a
  /// vocabulary that contradicts itself. Without a vocabulary ("none" or empty) encode() fails as
  /// unsupported.
  static Result<std::unique_ptr<Tokenizer>> create(TokenizerSpec spec);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// The ids of `text`. invalid_argument beyond kMaxTextBytes, unsupported without a vocabulary.
  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options = {}) const;

  /// The bytes that the tokens stand for, the inverse of encode() for every text that the
  /// vocabulary can represent. Ids that do not exist leave nothing.
  std::string decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  /// The bytes of one token as they stand inside a text: a space for SentencePiece's ▁, control
  /// tokens as they are spelt. Not always whole UTF-8 characters. Empty if there is no such id.
  /// Lives as long as the tokenizer.
  std::string_view piece(int32_t id) const;

  /// The id of the token with this spelling in the vocabulary file, or kNoToken.
  int32_t token_to_id(std::string_view text) const;
  TokenType type(int32_t id) const;

  int32_t vocab_size() const { return static_cast<int32_t>(spec_.tokens.size()); }
  const SpecialTokens& special() const { return special_.ids; }
  int32_t bos() const { return special_.ids.bos; }
  int32_t eos() const { return special_.ids.eos; }
  /// Whether encode() with add_special puts `bos` before and `eos` (or a separator) after the text.
  bool adds_bos() const { return special_.add_bos; }
  bool adds_eos() const { return special_.add_eos; }
  /// Whether a separator stands between two texts that are given together, behind the first one's
  /// end.
  bool adds_separator() const { return spec_.add_sep == 1; }

  /// Whether generation ends at this token.
  bool is_eog(int32_t id) const;
  /// All such tokens, ascending.
  std::span<const int32_t> eog_tokens() const { return special_.eog; }
  /// A token that steers the model and is no text.
  bool is_control(int32_t id) const;

  /// Whether encode() puts a space of its own before a text that begins the input or follows a
  /// special token; decode() takes it away again.
  bool adds_space_prefix() const;

  const std::string& chat_template() const { return spec_.chat_template; }
  const std::vector<std::pair<std::string, std::string>>& named_chat_templates() const {
    return spec_.named_chat_templates;
  }

 private:
  friend class PieceJoiner;

  explicit Tokenizer(TokenizerSpec spec);
  Status build();
  void build_pieces();
  bool in_range(int32_t id) const { return id >= 0 && id < vocab_size(); }
  Status encode_text(std::string_view text, bool parse_special, std::vector<int32_t>& out) const;
  Status encode_between(std::string_view text, bool fresh, bool parse_special,
                        std::vector<int32_t>& out) const;

  TokenizerSpec spec_;
  SpecialRules special_;
  SpecialMatcher matcher_;     ///< of tokens that are found in the text as it is
  SpecialMatcher normalised_;  ///< of those that are found in the normalised text
  TokenMap by_text_;
  std::unique_ptr<TextEncoder> encoder_;
  std::string piece_bytes_;
  std::vector<uint32_t> piece_ends_;  ///< piece i is piece_bytes_[ends[i−1], ends[i])
};

/// Appends tokens' bytes one token at a time, with the rule for the space that encode() adds.
class PieceJoiner {
 public:
  /// `at_start`: the next token begins a text rather than continues one.
  PieceJoiner(const Tokenizer& tokenizer, DecodeOptions options, bool at_start)
      : tokenizer_(&tokenizer), options_(options), fresh_(at_start) {}

  /// The bytes that this token adds; valid as long as the tokenizer.
  std::string_view next(int32_t id);

 private:
  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  bool fresh_;
};

}  // namespace infer
