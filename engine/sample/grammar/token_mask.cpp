#include "engine/sample/grammar/token_mask.h"

#include <utility>

#include "engine/sample/grammar/mask_cache.h"

namespace infer {

TokenGrammar::TokenGrammar(std::shared_ptr<const CompiledGrammar> grammar,
                           std::shared_ptr<const TokenTrie> tokens)
    : cache_(std::make_unique<MaskCache>(std::move(grammar), std::move(tokens))) {}

TokenGrammar::~TokenGrammar() = default;

Result<std::shared_ptr<TokenGrammar>> TokenGrammar::create(
    std::shared_ptr<const CompiledGrammar> grammar, std::shared_ptr<const TokenTrie> tokens) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto b = static_cast<uint8_t>(byte);
    if (!grammar->uses_byte(b) || tokens->has_byte(b)) continue;
    return fail(StatusCode::unsupported,
                "this vocabulary cannot write every text of the grammar: it has no token for the "
                "byte 0x{:02x}",
                byte);
  }
  return std::shared_ptr<TokenGrammar>(new TokenGrammar(std::move(grammar), std::move(tokens)));
}

class GrammarConstraint final : public Constraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<TokenGrammar> grammar) : grammar_(std::move(grammar)) {
    const std::lock_guard lock(cache().mutex);
    table_ = cache().table();
    set_ = table_->matcher().start();
  }

  bool allows(int32_t token) const override {
    if (ended_) return false;
    const std::lock_guard lock(cache().mutex);
    if (table_->trie().is_eog(token)) return table_->matcher().complete(set_);
    return table_->step(set_, token) != Matcher::kDead;
  }

  const TokenMask& mask() override {
    const std::lock_guard lock(cache().mutex);
    if (ended_) {
      mask_ = std::make_shared<const TokenMask>(table_->trie().vocab_size());
    } else {
      renew();
      mask_ = table_->mask(set_);
    }
    return *mask_;
  }

  bool accept(int32_t token) override {
    if (ended_) return false;
    const std::lock_guard lock(cache().mutex);
    renew();
    if (table_->trie().is_eog(token)) {
      ended_ = table_->matcher().complete(set_);
      return ended_;
    }
    const Matcher::SetId next = table_->step(set_, token);
    if (next == Matcher::kDead) return false;
    set_ = next;
    return true;
  }

  bool complete() const override {
    const std::lock_guard lock(cache().mutex);
    return table_->matcher().complete(set_);
  }

  bool must_end() const override {
    const std::lock_guard lock(cache().mutex);
    return table_->matcher().complete(set_) && table_->matcher().configs(set_).empty();
  }

  std::unique_ptr<Constraint> clone() const override {
    return std::make_unique<GrammarConstraint>(*this);
  }

 private:
  MaskCache& cache() const { return *grammar_->cache_; }

  /// Moves to the table in use where the old one is full.
  void renew() {
    if (!table_->full()) return;
    const std::shared_ptr<MaskTable> next = cache().table();
    if (next == table_) return;
    set_ = next->matcher().import_configs(table_->matcher().export_configs(set_));
    table_ = next;
  }

  std::shared_ptr<TokenGrammar> grammar_;
  std::shared_ptr<MaskTable> table_;
  Matcher::SetId set_ = Matcher::kDead;
  bool ended_ = false;
  std::shared_ptr<const TokenMask> mask_;
};

std::unique_ptr<Constraint> make_constraint(std::shared_ptr<TokenGrammar> grammar) {
  return std::make_unique<GrammarConstraint>(std::move(grammar));
}

Result<std::unique_ptr<Constraint>> make_constraint(std::shared_ptr<const CompiledGrammar> grammar,
                                                    std::shared_ptr<const TokenTrie> tokens) {
  INFER_TRY(auto shared, TokenGrammar::create(std::move(grammar), std::move(tokens)));
  return make_constraint(std::move(shared));
}

}  // namespace infer
