// The part of a tokenizer that differs from kind to kind. Not for use outside engine/text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/status.h"
#include "engine/weights/tokenizer_spec.h"

namespace infer {

/// ▁ (U+2581), SentencePiece's space.
inline constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

/// Turns text without special tokens into ids. Immutable, safe from several threads. The spec that
/// it was made from outlives it.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  /// The text as it is when normalised tokens are looked for. `fresh`: it begins the input or
  /// follows a special token.
  virtual std::string normalise(std::string_view text, bool fresh) const = 0;

  /// Appends the ids of a normalised text, or of what normalised tokens leave of one. `fresh`: it
  /// begins the input or follows a special or normalised token. unsupported if a pattern of the
  /// model needs too long for the text.
  virtual Status encode(std::string_view text, bool fresh, std::vector<int32_t>& out) const = 0;

  /// The bytes that a normal token with this spelling stands for.
  virtual std::string piece(std::string_view token) const = 0;

  /// Whether a space is put before a fresh text.
  virtual bool adds_space_prefix() const { return false; }
  /// Whether add_special puts `bos` before a text if the file does not say.
  virtual bool default_add_bos() const { return false; }
};

Result<std::unique_ptr<TextEncoder>> make_sentencepiece_bpe(const TokenizerSpec& spec);
Result<std::unique_ptr<TextEncoder>> make_byte_bpe(const TokenizerSpec& spec);
Result<std::unique_ptr<TextEncoder>> make_wordpiece(const TokenizerSpec& spec);
Result<std::unique_ptr<TextEncoder>> make_unigram(const TokenizerSpec& spec);
Result<std::unique_ptr<TextEncoder>> make_scored_pieces(const TokenizerSpec& spec);

// Shared by the kinds.

/// Kinds that sum scores leave longer tokens out: it bounds the work per character against a
/// hostile file.
inline constexpr size_t kMaxPieceBytes = 512;
/// bad_file unless there are scores, and finite ones.
Status check_scores(const TokenizerSpec& spec);
/// Ids of the byte tokens <0x00>…<0xFF>, kNoToken where there is none.
std::vector<int32_t> byte_tokens(const TokenizerSpec& spec);
/// The byte of "<0x0A>", or −1.
int parse_byte_token(std::string_view token);
/// What text becomes that has no token; kNoToken if the vocabulary has none for it.
int32_t unknown_token(const TokenizerSpec& spec);
/// Whether `text` begins with a space or ▁.
bool begins_with_space(std::string_view text);
/// `text` with every space a ▁, and with `prefix` another ▁ before it unless it is empty.
std::string with_marks(std::string_view text, bool prefix);
/// `text` with every ▁ a space.
std::string unescape_spaces(std::string_view text);
/// The type of a token, normal where the spec has no types.
TokenType token_type(const TokenizerSpec& spec, int32_t id);
/// Whether a list of ids in ascending order has this one.
bool contains(const std::vector<int32_t>& sorted, int32_t id);
/// Whether ordinary text may become this token. `spec.apart` is in ascending order.
bool is_text_token(const TokenizerSpec& spec, int32_t id);

}  // namespace infer
