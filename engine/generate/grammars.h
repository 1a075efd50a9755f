// The grammars that an engine's sessions generate under.
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

/// Keeps those last used, so that equal requests compile once and share their masks. Any thread. A
/// grammar is compiled on the thread that asks for it: only those who ask for the same one wait.
///
/// Memory: all grammars with their tables, those of running calls among them, take at most `most`
/// bytes, and beyond that what was added since trim(): by one call of a constraint less than
/// TokenGrammar::kMostTableBytes.
class Grammars {
 public:
  using Compile = std::function<Result<std::shared_ptr<const CompiledGrammar>>(
      bool is_schema, const std::string& text)>;

  /// For `most`, and what all take then.
  static constexpr int64_t kKeptBytes = int64_t{96} << 20;
  static constexpr int64_t kMostBytes = kKeptBytes + TokenGrammar::kMostTableBytes;
  /// Grammars kept at most, but for those of running calls.
  static constexpr size_t kMostKept = 32;

  /// Without `compile`: compile_gbnf() and compile_json_schema().
  explicit Grammars(std::shared_ptr<const Tokenizer> tokenizer, int64_t most = kKeptBytes,
                    Compile compile = {});

  /// The constraint that the options ask for; null if they ask for none. invalid_argument for text
  /// that is no grammar or schema, or where both are given; unsupported for what cannot be held to;
  /// does_not_fit where running calls have grammars that leave no room for it.
  Result<std::unique_ptr<Constraint>> constraint(const GenerateOptions& options);
  /// Gives up what exceeds the limit: grammars that nobody uses, the longest unused first, then the
  /// tables of others. Called after each token that a grammar had a part in.
  void trim();
  /// Held while a step asks a constraint for what is not known yet: one such call at a time adds to
  /// the tables.
  std::mutex& step_mutex() { return step_mutex_; }
  /// Memory in use, about.
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
  std::vector<std::weak_ptr<TokenGrammar>> dropped_;  ///< of them those that somebody uses still
};

}  // namespace infer
