// Which tokens of a vocabulary a grammar allows next.
//
// After Dong et al. 2024 (XGrammar): for each state of the grammar the tokens are told apart, once,
// into those that it allows or forbids whatever called its rule, and the few that return from the
// rule and depend on that; only these are tried with the real stack.
#pragma once

#include <memory>

#include "engine/core/status.h"
#include "engine/sample/constraint.h"
#include "engine/sample/grammar/grammar.h"
#include "engine/sample/grammar/token_trie.h"

namespace infer {

class MaskCache;

/// A grammar with the masks that its sequences have needed so far, for one vocabulary. Safe from
/// several threads.
class TokenGrammar {
 public:
  /// More than its masks and the matcher's tables take. They stay within about 64 MiB; those of
  /// very ambiguous grammars may need this much.
  static constexpr int64_t kMostTableBytes = int64_t{160} << 20;

  /// unsupported where the vocabulary lacks a token for a single byte that the grammar uses: a text
  /// could then begin that no token continues.
  static Result<std::shared_ptr<TokenGrammar>> create(
      std::shared_ptr<const CompiledGrammar> grammar, std::shared_ptr<const TokenTrie> tokens);
  ~TokenGrammar();
  TokenGrammar(const TokenGrammar&) = delete;
  TokenGrammar& operator=(const TokenGrammar&) = delete;

  /// Memory in use, about, but for the vocabulary's trie.
  size_t bytes() const;
  /// Gives back the memory of masks and tables: they are computed again when they are needed. Not
  /// while another thread uses them.
  void give_up_tables();

 private:
  friend class GrammarConstraint;
  TokenGrammar(std::shared_ptr<const CompiledGrammar> grammar,
               std::shared_ptr<const TokenTrie> tokens);

  std::unique_ptr<MaskCache> cache_;
};

/// The constraint of a sequence whose text is still empty.
std::unique_ptr<Constraint> make_constraint(std::shared_ptr<TokenGrammar> grammar);

}  // namespace infer
