// Cutting a text into words by regular expressions that nobody has written a matcher for, with
// PCRE2.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/status.h"
#include "engine/weights/tokenizer_spec.h"

namespace infer {

/// Immutable, safe from several threads. A match that takes more steps than a limit ends the
/// cutting of the piece it is in: what is left of it is one word.
class RegexSplitter {
 public:
  /// The patterns are in Oniguruma's syntax, as the library `tokenizers` has them. unsupported,
  /// naming `source` and the pattern, where PCRE2 would take it for something else or refuses it.
  static Result<RegexSplitter> create(const std::vector<SplitRule>& rules,
                                      const std::string& source);
  RegexSplitter(RegexSplitter&&) noexcept;
  RegexSplitter& operator=(RegexSplitter&&) = delete;
  ~RegexSplitter();

  /// Bytes [begin, end).
  struct Word {
    uint32_t begin, end;
  };
  /// The words in order. What is not UTF-8 is no part of a match.
  std::vector<Word> split(std::string_view text) const;

 private:
  struct Step;
  struct Scratch;
  explicit RegexSplitter(std::vector<Step> steps);
  static void cut(const Step& step, std::string_view text, Word piece, Scratch& scratch,
                  std::vector<Word>& out);

  std::vector<Step> steps_;
};

}  // namespace infer
