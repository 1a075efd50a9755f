// Which tokens of a vocabulary a grammar allows next.
//
// After Dong et al. 2024 (XGrammar): each state of the grammar divides the tokens once. Most are
// allowed or forbidden whatever rule called the state's rule. A few return from the rule, so they
// depend on the caller. Only these are tried with the real stack.
#pragma once

#include <memory>
#include <string_view>

#include "engine/core/status.h"
#include "engine/sample/constraint.h"
#include "engine/sample/grammar/grammar.h"
#include "engine/sample/grammar/token_trie.h"

namespace infer {

class MaskCache;

/// A grammar for one vocabulary, with the masks that its sequences have needed so far. Thread-safe.
class TokenGrammar {
 public:
  /// An upper bound of the bytes of the masks and of the matcher's tables. Usually they stay within
  /// about 64 MiB; very ambiguous grammars may need this much.
  static constexpr int64_t kMostTableBytes = int64_t{160} << 20;

  /// Errors: unsupported if the vocabulary has no token for a single byte that the grammar uses. A
  /// text could otherwise begin that no token continues.
  static Result<std::shared_ptr<TokenGrammar>> create(
      std::shared_ptr<const CompiledGrammar> grammar, std::shared_ptr<const TokenTrie> tokens);
  ~TokenGrammar();
  TokenGrammar(const TokenGrammar&) = delete;
  TokenGrammar& operator=(const TokenGrammar&) = delete;

  /// Bytes in use, approximately, without the vocabulary's trie.
  size_t bytes() const;
  /// Frees the masks and tables. They are computed again when needed. Not while another thread uses
  /// them.
  void give_up_tables();

 private:
  friend class GrammarConstraint;
  TokenGrammar(std::shared_ptr<const CompiledGrammar> grammar,
               std::shared_ptr<const TokenTrie> tokens);

  std::unique_ptr<MaskCache> cache_;
};

/// A constraint for a sequence whose text is `begun`; null if no text of the grammar begins so.
std::unique_ptr<Constraint> make_constraint(std::shared_ptr<TokenGrammar> grammar,
                                            std::string_view begun = {});

}  // namespace infer
