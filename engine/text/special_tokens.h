// Which tokens of a vocabulary are special, and finding them in a text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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

/// Finds special tokens in a text: leftmost, then longest.
class SpecialMatcher {
 public:
  SpecialMatcher() = default;
  explicit SpecialMatcher(const TokenizerSpec& spec);

  struct Hit {
    size_t begin = 0, end = 0;            ///< the token's spelling, bytes
    size_t text_end = 0, text_begin = 0;  ///< end of the text before it, start of the text after
    int32_t id = kNoToken;                ///< kNoToken: no further token
  };
  /// The first token at or after `pos`. With `control` false only user-defined ones count.
  Hit find(std::string_view text, size_t pos, bool control) const;

 private:
  ByteTrie all_;
  ByteTrie user_defined_;
  std::vector<int32_t> strips_left_;   ///< ids that swallow white space before them, ascending
  std::vector<int32_t> strips_right_;  ///< and after them
};

/// The spelling of a user-defined token inside a text, where it differs from the file's.
std::string user_defined_text(const TokenizerSpec& spec, std::string_view token);

}  // namespace infer
