// Cuts a text into words by regular expressions, with PCRE2. For patterns without a matcher of
// their own in split_rules.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/status.h"
#include "engine/weights/tokenizer_spec.h"

namespace infer {

/// The pattern without lists of characters within lists, [a[bc]] as [abc], which mean the same in
/// Oniguruma. What is negated within a list, or cut with another one, stays.
std::string flat_classes(std::string_view pattern);

/// Immutable, safe from several threads. The work for one text is bounded in proportion to its
/// length, whatever the patterns.
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
  /// The words in order. What is not UTF-8 is no part of a match. unsupported, naming the source
  /// and the pattern, where a pattern needs more work than a text of that length may take.
  Result<std::vector<Word>> split(std::string_view text) const;

 private:
  struct Step;
  struct Scratch;
  RegexSplitter(std::vector<Step> steps, std::string source);
  static bool cut(const Step& step, std::string_view text, Word piece, Scratch& scratch,
                  std::vector<Word>& out);

  std::vector<Step> steps_;
  std::string source_;
};

}  // namespace infer
