#include "engine/sample/grammar/mask_cache.h"

#include <algorithm>
#include <utility>

namespace infer {
namespace {

/// Configurations that are looked up one by one; more are followed together.
constexpr size_t kFewConfigs = 8;
/// First bytes up to which a state's tokens are found as fast as they are looked up.
constexpr uint32_t kNarrow = 4;
/// Configurations visited for one mask, some tenths of a second.
constexpr uint64_t kMaxMaskWork = 4'000'000;
constexpr size_t kMaxMaskBytes = size_t{16} << 20;
constexpr size_t kMaxStateBytes = size_t{24} << 20;
constexpr size_t kMaxMatcherBytes = size_t{24} << 20;

/// Above what makes a table full: what one mask may add.
constexpr size_t kMostMatcherBytes = 4 * kMaxMatcherBytes;

bool limited(const CompiledGrammar::Rule& rule) {
  return rule.counted && rule.max != CompiledGrammar::kNone;
}

}  // namespace

size_t MaskTable::StateTokens::bytes() const {
  return sizeof(*this) + allowed.words().size_bytes() + few.capacity() * sizeof(int32_t) +
         rounds.capacity() * sizeof(Needed) + doubts.capacity() * sizeof(Doubt);
}

bool MaskTable::out_of_work() const {
  return matcher_.work() > work_limit_ || matcher_.bytes() > kMostMatcherBytes;
}

bool MaskTable::full() const { return matcher_.bytes() > kMaxMatcherBytes; }

size_t MaskTable::bytes() const { return matcher_.bytes() + mask_bytes_ + state_bytes_; }

Matcher::SetId MaskTable::step(Matcher::SetId set, int32_t token) {
  if (token < 0 || token >= trie_->vocab_size()) return Matcher::kDead;
  const std::string_view bytes = trie_->bytes(token);
  Matcher::SetId by_bytes = bytes.empty() ? Matcher::kDead : set;
  for (const char c : bytes) {
    by_bytes = matcher_.step(by_bytes, static_cast<uint8_t>(c));
    if (by_bytes == Matcher::kDead) break;
  }
  if (!matcher_.grammar().reads_tokens()) return by_bytes;
  return matcher_.join_token(set, token, by_bytes);
}

std::shared_ptr<const TokenMask> MaskTable::mask(Matcher::SetId set) {
  if (const auto it = masks_.find(set); it != masks_.end()) return it->second;
  const Matcher::SetId same = canonical(set);
  std::shared_ptr<const TokenMask> result;
  if (const auto it = masks_.find(same); it != masks_.end()) {
    result = it->second;
  } else {
    result = compute(same);
    mask_bytes_ += result->words().size_bytes();
    if (mask_bytes_ > kMaxMaskBytes) {
      masks_.clear();
      mask_bytes_ = result->words().size_bytes();
    }
    masks_.emplace(same, result);
  }
  masks_.emplace(set, result);
  return result;
}

/// A set with the same mask: limits of counted rules that no token reaches might as well be at any
/// such distance.
Matcher::SetId MaskTable::canonical(Matcher::SetId set) {
  const CompiledGrammar& g = matcher_.grammar();
  const auto longest = static_cast<uint32_t>(trie_->longest());
  const auto span = matcher_.configs(set);
  std::vector<Matcher::Config> configs(span.begin(), span.end());
  bool changed = false;
  for (Matcher::Config& c : configs) {
    const CompiledGrammar::Rule& rule = g.rule_of(c.state);
    if (!rule.counted) continue;
    if (limited(rule) && rule.max - c.count <= longest) continue;
    uint32_t count = c.count;
    if (count >= rule.min) {
      count = rule.min;
    } else if (rule.min - count > longest) {
      count = 0;
    }
    changed = changed || count != c.count;
    c.count = count;
  }
  return changed ? matcher_.set_of(std::move(configs), matcher_.complete(set)) : set;
}

std::shared_ptr<const TokenMask> MaskTable::compute(Matcher::SetId set) {
  auto mask = std::make_shared<TokenMask>(trie_->vocab_size());
  work_limit_ = matcher_.work() + kMaxMaskWork;
  sets_.resize(trie_->longest() + 1);
  if (state_bytes_ > kMaxStateBytes) {
    states_.clear();
    state_bytes_ = 0;
  }
  const auto span = matcher_.configs(set);
  const std::vector<Matcher::Config> configs(span.begin(), span.end());
  if (matcher_.complete(set)) {
    for (const int32_t token : trie_->eog()) mask->set(token);
  }
  if (matcher_.grammar().reads_tokens()) {
    for (const Matcher::Config& c : configs) add_named(c, *mask);
  }
  const bool together =
      configs.size() > kFewConfigs ||
      std::ranges::all_of(configs, [this](const auto& c) { return narrow(c.state); }) ||
      !std::ranges::all_of(configs, [this](const auto& c) { return known_apart(c); });
  sets_[0] = set;
  if (together) {
    try_subtree(0, trie_->node_count(), *mask);
    return mask;
  }
  for (const Matcher::Config& c : configs) {
    add_known(c, *mask);
    sets_[0] = set;
    try_doubts(tokens_in(c.state).doubts, *mask);
  }
  return mask;
}

bool MaskTable::narrow(uint32_t state) const {
  uint32_t bytes = 0;
  for (const auto& e : matcher_.grammar().edges(state)) bytes += e.last - e.first + 1u;
  return bytes <= kNarrow;
}

bool MaskTable::known_apart(const Matcher::Config& config) {
  const CompiledGrammar& g = matcher_.grammar();
  const StateTokens& known = tokens_in(config.state);
  if (!known.usable || matcher_.depth(config.stack) + known.reach > g.max_depth()) return false;
  const CompiledGrammar::Rule& rule = g.rule_of(config.state);
  if (!limited(rule) || known.rounds.empty()) return true;
  return rule.max - config.count >= known.rounds.front().rounds || !reads_after(config);
}

/// Whether what follows a counted rule can begin like one more round of it.
bool MaskTable::reads_after(const Matcher::Config& config) {
  const CompiledGrammar& g = matcher_.grammar();
  const Matcher::SetId after = matcher_.returned(config);
  for (const auto& inside : g.edges(g.rule_of(config.state).start)) {
    for (const Matcher::Config& c : matcher_.configs(after)) {
      for (const auto& e : g.edges(c.state)) {
        if (e.first <= inside.last && inside.first <= e.last) return true;
      }
    }
  }
  return false;
}

void MaskTable::add_known(const Matcher::Config& config, TokenMask& mask) {
  const StateTokens& known = tokens_in(config.state);
  const CompiledGrammar::Rule& rule = matcher_.grammar().rule_of(config.state);
  const uint32_t left = limited(rule) ? rule.max - config.count : CompiledGrammar::kNone;
  if (known.rounds.empty() || known.rounds.front().rounds <= left) {
    if (known.allowed.vocab_size() > 0) mask.add(known.allowed);
    for (const int32_t token : known.few) mask.set(token);
    return;
  }
  const auto fits = std::ranges::lower_bound(known.rounds, left, std::greater<>(), &Needed::rounds);
  const auto beyond = fits - known.rounds.begin();
  if (known.allowed.vocab_size() == 0 || beyond > known.rounds.end() - fits) {
    for (auto it = fits; it != known.rounds.end(); ++it) mask.set(it->token);
    return;
  }
  TokenMask some = known.allowed;
  for (auto it = known.rounds.begin(); it != fits; ++it) some.reset(it->token);
  mask.add(some);
}

/// Adds the tokens that the state reads as such.
void MaskTable::add_named(const Matcher::Config& config, TokenMask& mask) {
  const auto edges = matcher_.grammar().token_edges(config.state);
  if (edges.empty()) return;
  const auto read = [&](const CompiledGrammar::TokenEdge& e) {
    return e.target != CompiledGrammar::kNone && matcher_.may_go_on(e.target, config.stack);
  };
  const bool others = edges.back().token == CompiledGrammar::kOtherTokens;
  const auto named = edges.first(edges.size() - (others ? 1 : 0));
  if (others && read(edges.back())) {
    TokenMask rest(trie_->vocab_size());
    rest.set_all();
    for (const int32_t token : trie_->eog()) rest.reset(token);
    for (const auto& e : named) rest.reset(e.token);
    mask.add(rest);
  }
  for (const auto& e : named) {
    if (read(e)) mask.set(e.token);
  }
}

/// Adds the tokens of nodes [first, end) that lead on from the sets above them.
void MaskTable::try_subtree(uint32_t first, uint32_t end, TokenMask& mask) {
  for (uint32_t i = first; i < end;) {
    const TokenTrie::Node& node = trie_->node(i);
    const Matcher::SetId set = matcher_.step(sets_[node.depth], node.byte);
    if (set == Matcher::kDead) {
      i = node.end;
      continue;
    }
    if (out_of_work()) return;
    sets_[node.depth + 1u] = set;
    for (const int32_t token : trie_->tokens_at(i)) mask.set(token);
    ++i;
  }
}

void MaskTable::try_doubts(const std::vector<Doubt>& doubts, TokenMask& mask) {
  for (uint32_t i = 0; i < doubts.size();) {
    const Doubt& doubt = doubts[i];
    if (doubt.subtree) {
      try_subtree(doubt.node, trie_->node(doubt.node).end, mask);
      i = doubt.skip;
      continue;
    }
    const TokenTrie::Node& node = trie_->node(doubt.node);
    const Matcher::SetId set = matcher_.step(sets_[node.depth], node.byte);
    if (set == Matcher::kDead || out_of_work()) {
      i = doubt.skip;
      continue;
    }
    sets_[node.depth + 1u] = set;
    ++i;
  }
}

const MaskTable::StateTokens& MaskTable::tokens_in(uint32_t state) {
  const auto it = states_.find(state);
  if (it != states_.end()) return it->second;
  StateTokens made = tell_apart(state);
  state_bytes_ += made.bytes();
  return states_.emplace(state, std::move(made)).first->second;
}

MaskTable::StateTokens MaskTable::tell_apart(uint32_t state) {
  StateTokens out;
  const CompiledGrammar& g = matcher_.grammar();
  const CompiledGrammar::Rule& rule = g.rule_of(state);
  const bool counts = limited(rule);
  const uint64_t limit = matcher_.work() + kMaxMaskWork;
  std::vector<int32_t> allowed;
  std::vector<Matcher::SetId> sets(trie_->longest() + 1);
  std::vector<uint8_t> escaped(trie_->longest() + 1);
  std::vector<uint32_t> doubtful;  // the depth-first order makes them ascend
  sets[0] = matcher_.isolated(state);
  for (uint32_t i = 0; i < trie_->node_count();) {
    const TokenTrie::Node& node = trie_->node(i);
    const Matcher::SetId set = matcher_.step(sets[node.depth], node.byte);
    if (set == Matcher::kDead) {
      if (escaped[node.depth] != 0) doubtful.push_back(i);
      i = node.end;
      continue;
    }
    if (matcher_.work() > limit || matcher_.bytes() > kMostMatcherBytes) return out;
    const size_t below = node.depth + 1u;
    sets[below] = set;
    escaped[below] = escaped[node.depth] != 0 || matcher_.escaped(set) ? 1 : 0;
    out.reach = std::max(out.reach, matcher_.reach(set));
    for (const int32_t token : trie_->tokens_at(i)) {
      allowed.push_back(token);
      if (!counts) continue;
      uint32_t rounds = CompiledGrammar::kNone;
      for (const Matcher::Config& c : matcher_.configs(set)) {
        rounds = std::min(rounds, c.count + (c.state == rule.start ? 0 : 1));
      }
      out.rounds.push_back({rounds, token});
    }
    ++i;
  }
  std::ranges::sort(out.rounds, [](const Needed& a, const Needed& b) {
    return a.rounds != b.rounds ? a.rounds > b.rounds : a.token < b.token;
  });
  if (allowed.size() < static_cast<size_t>(trie_->vocab_size()) / 64) {
    out.few = std::move(allowed);
  } else {
    out.allowed = TokenMask(trie_->vocab_size());
    for (const int32_t token : allowed) out.allowed.set(token);
  }

  // The way to each doubtful subtree, shared where the ways are.
  std::vector<uint32_t> open;  // in out.doubts
  uint32_t at = 0;
  for (const uint32_t target : doubtful) {
    while (!open.empty() && trie_->node(out.doubts[open.back()].node).end <= target) {
      out.doubts[open.back()].skip = static_cast<uint32_t>(out.doubts.size());
      open.pop_back();
    }
    if (open.empty()) {
      while (trie_->node(at).end <= target) at = trie_->node(at).end;
    } else {
      at = out.doubts[open.back()].node;
    }
    while (at != target) {
      if (open.empty() || out.doubts[open.back()].node != at) {
        open.push_back(static_cast<uint32_t>(out.doubts.size()));
        out.doubts.push_back({at, 0, false});
      }
      ++at;
      while (trie_->node(at).end <= target) at = trie_->node(at).end;
    }
    out.doubts.push_back({target, static_cast<uint32_t>(out.doubts.size()) + 1, true});
  }
  for (const uint32_t i : open) out.doubts[i].skip = static_cast<uint32_t>(out.doubts.size());
  out.usable = true;
  return out;
}

MaskTable& MaskCache::table() {
  if (!table_) table_ = std::make_unique<MaskTable>(grammar_, trie_);
  return *table_;
}

void MaskCache::give_up() {
  if (!table_) return;
  for (Place* place = places_; place != nullptr; place = place->before_) {
    if (!place->free_) place->free_ = table_->matcher().export_configs(place->set_);
  }
  table_.reset();
  note_bytes();
}

MaskCache::Place::Place(MaskCache& cache) : cache_(cache) {
  set_ = cache.table().matcher().start();
  before_ = std::exchange(cache.places_, this);
  if (before_ != nullptr) before_->after_ = this;
}

MaskCache::Place::Place(const Place& other)
    : cache_(other.cache_), set_(other.set_), free_(other.free_) {
  before_ = std::exchange(cache_.places_, this);
  if (before_ != nullptr) before_->after_ = this;
}

MaskCache::Place::~Place() {
  if (before_ != nullptr) before_->after_ = after_;
  (after_ != nullptr ? after_->before_ : cache_.places_) = before_;
}

Matcher::SetId MaskCache::Place::set() const {
  if (free_) {
    set_ = cache_.table().matcher().import_configs(*free_);
    free_.reset();
  }
  return set_;
}

}  // namespace infer
