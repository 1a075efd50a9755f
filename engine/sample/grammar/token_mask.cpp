#include "engine/sample/grammar/token_mask.h"

#include <optional>
#include <utility>

#include "engine/sample/grammar/mask_cache.h"

namespace infer {

namespace {

/// Whether each token is one of the vocabulary, and some token is read where there are edges.
Status check_token_edges(std::span<const CompiledGrammar::TokenEdge> edges,
                         const TokenTrie& tokens) {
  if (edges.empty()) return {};
  const bool others = edges.back().token == CompiledGrammar::kOtherTokens;
  const auto named = edges.first(edges.size() - (others ? 1 : 0));
  bool any = false;
  for (const auto& e : named) {
    if (e.token < 0 || e.token >= tokens.vocab_size() || tokens.is_eog(e.token)) {
      return error(StatusCode::invalid_argument,
                   "the grammar names the token {}, which is not in this vocabulary or ends a text",
                   e.token);
    }
    any = any || e.target != CompiledGrammar::kNone;
  }
  if (any || named.size() + tokens.eog().size() < static_cast<size_t>(tokens.vocab_size())) {
    return {};
  }
  return error(StatusCode::unsupported,
               "the grammar excludes all tokens of this vocabulary at the same place");
}

}  // namespace

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
  for (uint32_t state = 0; state < grammar->state_count(); ++state) {
    INFER_CHECK_R(check_token_edges(grammar->token_edges(state), *tokens));
  }
  return std::shared_ptr<TokenGrammar>(new TokenGrammar(std::move(grammar), std::move(tokens)));
}

class GrammarConstraint final : public Constraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<TokenGrammar> grammar) : grammar_(std::move(grammar)) {
    const std::lock_guard lock(cache().mutex);
    place_.emplace(cache());
  }
  GrammarConstraint(const GrammarConstraint& other)
      : Constraint(other), grammar_(other.grammar_), ended_(other.ended_), mask_(other.mask_) {
    const std::lock_guard lock(cache().mutex);
    place_.emplace(*other.place_);
  }
  GrammarConstraint& operator=(const GrammarConstraint&) = delete;
  ~GrammarConstraint() override {
    end_announcement();
    const std::lock_guard lock(cache().mutex);
    place_.reset();
  }

  bool allows(int32_t token) const override {
    if (ended_) return false;
    const std::lock_guard lock(cache().mutex);
    const Matcher::SetId set = place_->set();
    MaskTable& table = cache().table();
    const bool allowed = cache().trie().is_eog(token) ? table.matcher().complete(set)
                                                      : table.step(set, token) != Matcher::kDead;
    cache().note_bytes();
    return allowed;
  }

  void announce_mask() override {
    if (!std::exchange(announced_, true)) ++cache().announced;
  }

  bool mask_is_known() const override {
    if (cache().announced > 0) return false;
    const std::unique_lock lock(cache().mutex, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    if (ended_) return true;
    const Matcher::SetId set = place_->set();
    return cache().table().knows_mask(set);
  }

  const TokenMask& mask() override {
    const Announced over{*this};
    const std::lock_guard lock(cache().mutex);
    if (ended_) {
      mask_ = std::make_shared<const TokenMask>(cache().trie().vocab_size());
    } else {
      cache().renew();
      const Matcher::SetId set = place_->set();
      mask_ = cache().table().mask(set);
      cache().note_bytes();
    }
    return *mask_;
  }

  bool accept(int32_t token) override {
    if (ended_) return false;
    const std::lock_guard lock(cache().mutex);
    cache().renew();
    const Matcher::SetId set = place_->set();
    MaskTable& table = cache().table();
    if (cache().trie().is_eog(token)) {
      ended_ = table.matcher().complete(set);
      return ended_;
    }
    const Matcher::SetId next = table.step(set, token);
    cache().note_bytes();
    if (next == Matcher::kDead) return false;
    place_->move_to(next);
    return true;
  }

  /// Appends text that no whole token spells; false, without any change, if it is not allowed.
  bool accept_bytes(std::string_view text) {
    const std::lock_guard lock(cache().mutex);
    Matcher::SetId set = place_->set();
    for (const char c : text) set = cache().table().matcher().step(set, static_cast<uint8_t>(c));
    cache().note_bytes();
    if (set == Matcher::kDead) return false;
    place_->move_to(set);
    return true;
  }

  bool complete() const override {
    const std::lock_guard lock(cache().mutex);
    const Matcher::SetId set = place_->set();
    return cache().table().matcher().complete(set);
  }

  bool must_end() const override {
    const std::lock_guard lock(cache().mutex);
    const Matcher::SetId set = place_->set();
    Matcher& matcher = cache().table().matcher();
    return matcher.complete(set) && matcher.configs(set).empty();
  }

  std::unique_ptr<Constraint> clone() const override {
    return std::make_unique<GrammarConstraint>(*this);
  }

 private:
  /// Ends an announcement, however mask() ends.
  struct Announced {
    GrammarConstraint& constraint;
    ~Announced() { constraint.end_announcement(); }
  };

  MaskCache& cache() const { return *grammar_->cache_; }
  void end_announcement() {
    if (std::exchange(announced_, false)) --cache().announced;
  }

  std::shared_ptr<TokenGrammar> grammar_;
  std::optional<MaskCache::Place> place_;  ///< always there, but while it is made and removed
  bool ended_ = false;
  bool announced_ = false;  ///< not of copies
  std::shared_ptr<const TokenMask> mask_;
};

size_t TokenGrammar::bytes() const { return sizeof(*this) + cache_->bytes(); }

void TokenGrammar::give_up_tables() {
  const std::unique_lock lock(cache_->mutex, std::try_to_lock);
  if (lock.owns_lock()) cache_->give_up();
}

std::unique_ptr<Constraint> make_constraint(std::shared_ptr<TokenGrammar> grammar,
                                            std::string_view begun) {
  auto made = std::make_unique<GrammarConstraint>(std::move(grammar));
  if (!made->accept_bytes(begun)) return nullptr;
  return made;
}

}  // namespace infer
