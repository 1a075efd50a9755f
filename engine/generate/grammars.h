// The grammars of an engine's sessions.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/core/status.h"
#include "engine/sample/grammar/grammar.h"
#include "engine/sample/grammar/token_mask.h"
#include "engine/text/tokenizer.h"
#include "infer/infer.hpp"

namespace infer {

/// Keeps the last used grammars, so that equal requests compile once and share their masks.
/// Thread-safe. A grammar is compiled on the thread that asks for it; other threads wait only if
/// they ask for the same grammar.
///
/// Memory: after trim() all grammars with their tables, including those in use, take at most `most`
/// bytes. Until the next trim() they may grow: one call of a constraint adds less than
/// TokenGrammar::kMostTableBytes.
class Grammars {
 public:
  using Compile = std::function<Result<std::shared_ptr<const CompiledGrammar>>(
      bool is_schema, const std::string& text)>;

  /// The default of `most`.
  static constexpr int64_t kKeptBytes = int64_t{96} << 20;
  /// The most memory that grammars then take at any time.
  static constexpr int64_t kMostBytes = kKeptBytes + TokenGrammar::kMostTableBytes;
  /// Most grammars kept, not counting those in use.
  static constexpr size_t kMostKept = 32;

  /// `compile` is for tests. Empty: compile_gbnf() and compile_json_schema().
  explicit Grammars(std::shared_ptr<const Tokenizer> tokenizer, int64_t most = kKeptBytes,
                    Compile compile = {});

  /// The constraint that the options ask for; null if they ask for none. Errors: invalid_argument
  /// for a text that is not a grammar or schema, or if both are given; unsupported for a grammar
  /// that cannot be enforced; does_not_fit if the grammars in use leave no room for this one.
  Result<std::unique_ptr<Constraint>> constraint(const GenerateOptions& options);
  /// Frees memory above the limit: first unused grammars, the one unused for longest first, then
  /// the tables of the others. Called after each token chosen under a grammar.
  void trim();
  /// Held while a step asks a constraint for something not computed yet, so that only one such call
  /// at a time adds to the tables.
  std::mutex& step_mutex() { return step_mutex_; }
  /// Bytes in use, approximately.
  int64_t bytes() const;

 private:
  struct Entry {
    bool is_schema;
    std::string text;
    std::shared_ptr<TokenGrammar> grammar;  ///< null while it is compiled, and if that failed
    Status failure;
    bool done = false;
  };

  Result<std::shared_ptr<TokenGrammar>> find(bool is_schema, const std::string& text);
  Result<std::shared_ptr<TokenGrammar>> make(bool is_schema, const std::string& text);
  bool settle(const std::shared_ptr<Entry>& entry);
  int64_t bytes_locked() const;
  bool trim_locked(const TokenGrammar* keep);

  std::shared_ptr<const Tokenizer> tokenizer_;
  int64_t most_;
  Compile compile_;
  std::mutex step_mutex_;
  mutable std::mutex mutex_;
  std::condition_variable compiled_;
  std::shared_ptr<const TokenTrie> tokens_;
  std::list<std::shared_ptr<Entry>> entries_;         ///< the last used first
  std::vector<std::weak_ptr<TokenGrammar>> dropped_;  ///< removed from entries_ but still in use
};

}  // namespace infer
