// Which tokens of a vocabulary are special, and finding them in a text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/core/status.h"
#include "engine/text/byte_trie.h"
#include "engine/weights/tokenizer_spec.h"

namespace infer {

/// Ids by spelling; the keys are views of TokenizerSpec::tokens.
using TokenMap = std::unordered_map<std::string_view, int32_t>;

/// Tokens with a role; kNoToken where there is none.
struct SpecialTokens {
  int32_t bos = kNoToken, eos = kNoToken, eot = kNoToken, eom = kNoToken;
  int32_t unknown = kNoToken, separator = kNoToken, padding = kNoToken;
  int32_t cls = kNoToken, mask = kNoToken;
  int32_t fim_pre = kNoToken, fim_suf = kNoToken, fim_mid = kNoToken;
  int32_t fim_pad = kNoToken, fim_rep = kNoToken, fim_sep = kNoToken;
};

/// What a vocabulary does with its special tokens, defaults filled in.
struct SpecialRules {
  SpecialTokens ids;
  int32_t prefix = kNoToken;  ///< what add_special puts before a text: `bos` or `cls`
  int32_t suffix = kNoToken;  ///< and after it: `eos` or `separator`
  bool add_bos = false;
  bool add_eos = false;
  std::vector<int32_t> eog;  ///< end of generation, ascending
};

/// Fills in roles that the file leaves open (by the habits of the kind and by well-known spellings)
/// and sets the types of end tokens that a file calls user-defined to control. `defaults_bos`: what
/// the kind or pre-tokenizer does where the file does not say.
SpecialRules resolve_special_tokens(TokenizerSpec& spec, const TokenMap& by_text,
                                    bool default_add_bos);

/// Finds special tokens in a text: leftmost, then longest. By default there are none.
class SpecialMatcher {
 public:
  SpecialMatcher() = default;
  /// Of the tokens that are found in a text as it is: all but spec.normalised. The lists of ids of
  /// `spec` are in ascending order.
  static SpecialMatcher raw(const TokenizerSpec& spec);
  /// Of spec.normalised, which become `spellings`.
  static SpecialMatcher normalised(const TokenizerSpec& spec,
                                   const std::vector<std::string>& spellings);

  struct Hit {
    size_t begin = 0, end = 0;  ///< bytes of the text before the token, none if begin >= end
    int32_t id = kNoToken;      ///< kNoToken: no further token
  };
  struct Place {
    size_t from = 0;       ///< where to look
    size_t taken = 0;      ///< the text before it belongs to tokens already
    size_t white_end = 0;  ///< all between `from` and here is white space, and no more follows
  };
  /// The first token at or after a place, which moves behind it. With `control` false only
  /// user-defined ones count.
  Hit find(std::string_view text, Place& place, bool control) const;

  /// Calls between(text) -> Status for what tokens leave of a text, and token(id), in order.
  template <typename Between, typename Token>
  Status divide(std::string_view text, bool control, Between&& between, Token&& token) const {
    for (Place place;;) {
      const Hit hit = find(text, place, control);
      if (hit.end > hit.begin) INFER_CHECK(between(text.substr(hit.begin, hit.end - hit.begin)));
      if (hit.id == kNoToken) return {};
      token(hit.id);
    }
  }

 private:
  struct Entry {
    std::string_view spelling;
    int32_t id;
    bool control;
  };
  SpecialMatcher(const TokenizerSpec& spec, const std::vector<Entry>& entries);

  ByteTrie all_;
  ByteTrie user_defined_;
  std::vector<int32_t> strips_left_;   ///< ids that swallow white space before them, ascending
  std::vector<int32_t> strips_right_;  ///< and after them
  std::vector<int32_t> single_words_;  ///< ids that count only where no word goes on beside them
};

/// An added token as a text has it, where a vocabulary of words spells it otherwise ("bert").
std::string literal_text(const TokenizerSpec& spec, int32_t id);

/// The spelling of a user-defined token inside a text, where it differs from the file's.
std::string user_defined_text(const TokenizerSpec& spec, std::string_view token);

}  // namespace infer
