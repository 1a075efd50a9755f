// The grammars that an engine's sessions generate under.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "engine/core/status.h"
#include "engine/sample/grammar/token_mask.h"
#include "engine/text/tokenizer.h"
#include "infer/infer.hpp"

namespace infer {

/// Keeps those last used, so that equal requests compile once and share their masks. Any thread.
class Grammars {
 public:
  explicit Grammars(std::shared_ptr<const Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  /// The constraint that the options ask for; null if they ask for none. invalid_argument for text
  /// that is no grammar or schema, or where both are given; unsupported for what cannot be held to.
  Result<std::unique_ptr<Constraint>> constraint(const GenerateOptions& options);

 private:
  struct Entry {
    bool is_schema;
    std::string text;
    std::shared_ptr<TokenGrammar> grammar;
  };
  static constexpr size_t kKept = 8;

  Result<std::shared_ptr<TokenGrammar>> find(bool is_schema, const std::string& text);

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::mutex mutex_;
  std::shared_ptr<const TokenTrie> tokens_;
  std::list<Entry> entries_;  ///< the last used first
};

}  // namespace infer
