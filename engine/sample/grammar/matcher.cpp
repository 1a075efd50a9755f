#include "engine/sample/grammar/matcher.h"

#include <algorithm>

namespace infer {
namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 32);
}

uint64_t hash_of(const Matcher::Config& c) { return mix(mix(mix(1, c.state), c.count), c.stack); }

/// Configurations of which one is looked for by comparing with all.
constexpr size_t kFewVisited = 24;

/// Configurations visited for one byte after which ways are dropped.
constexpr size_t kMaxVisits = 20'000;

}  // namespace

Matcher::Matcher(std::shared_ptr<const CompiledGrammar> grammar) : grammar_(std::move(grammar)) {
  stacks_ = {{CompiledGrammar::kNone, kEmptyStack, 0}, {CompiledGrammar::kNone, kUnknownStack, 0}};
  sets_.push_back({0, 0, 0, false, false, nullptr});
}

size_t Matcher::bytes() const {
  constexpr size_t kMapEntry = 56;
  return sets_.size() * (sizeof(Set) + kMapEntry) + configs_.size() * sizeof(Config) +
         stacks_.size() * (sizeof(Stack) + kMapEntry) + move_tables_ * sizeof(Moves);
}

uint32_t Matcher::push(uint32_t return_to, uint32_t parent) {
  const uint64_t key = (uint64_t{return_to} << 32) | parent;
  const auto [entry, fresh] = stack_ids_.try_emplace(key, static_cast<uint32_t>(stacks_.size()));
  if (fresh) stacks_.push_back({return_to, parent, stacks_[parent].depth + 1});
  return entry->second;
}

void Matcher::begin() {
  pending_.clear();
  visited_.clear();
  visited_index_.clear();
  made_.clear();
  made_complete_ = false;
  made_escaped_ = false;
}

bool Matcher::first_visit(const Config& config) {
  if (visited_.size() < kFewVisited) {
    if (std::ranges::find(visited_, config) != visited_.end()) return false;
    visited_.push_back(config);
    return true;
  }
  if (visited_index_.empty()) {
    for (const Config& c : visited_) visited_index_[hash_of(c)].push_back(c);
  }
  std::vector<Config>& same = visited_index_[hash_of(config)];
  if (std::ranges::find(same, config) != same.end()) return false;
  same.push_back(config);
  visited_.push_back(config);
  return true;
}

void Matcher::visit(const Config& config) {
  if (may_go_on(config.state, config.stack)) pending_.push_back(config);
}

bool Matcher::may_leave(const Config& config) const {
  if (!grammar_->state(config.state).is_final) return false;
  const CompiledGrammar::Rule& rule = grammar_->rule_of(config.state);
  return !rule.counted || config.stack == kUnknownStack || config.count >= rule.min;
}

void Matcher::leave_rule(const Config& config) {
  if (config.stack == kEmptyStack) {
    made_complete_ = true;
  } else if (config.stack == kUnknownStack) {
    made_escaped_ = true;
  } else {
    const Stack& top = stacks_[config.stack];
    visit({top.return_to, 0, top.parent});
  }
}

void Matcher::close(const Config& first) {
  // Depth first: whatever is dropped, one way at least reaches a state that reads. A way is at most
  // as long as the calls that can be open.
  visit(first);
  while (!pending_.empty()) {
    const Config config = pending_.back();
    pending_.pop_back();
    if (!first_visit(config)) continue;
    ++work_;
    if (made_.size() >= kMaxConfigs || (visited_.size() > kMaxVisits && !made_.empty())) {
      pending_.clear();
      return;
    }
    if (may_leave(config)) leave_rule(config);
    const CompiledGrammar::Rule& rule = grammar_->rule_of(config.state);
    const bool last_round = rule.counted && config.stack != kUnknownStack &&
                            config.state == rule.start && config.count >= rule.max &&
                            rule.max != CompiledGrammar::kNone;
    const bool reads =
        !grammar_->edges(config.state).empty() || grammar_->state(config.state).reads_tokens != 0;
    if (!last_round && reads) made_.push_back(config);
    for (const CompiledGrammar::Call& call : grammar_->calls(config.state)) {
      const uint32_t callee = grammar_->rule(call.rule).start;
      if (call.target == CompiledGrammar::kNone) {
        visit({callee, 0, config.stack});
        continue;
      }
      const uint32_t depth = stacks_[config.stack].depth;
      if (depth + 1 + grammar_->state(callee).height > grammar_->max_depth() ||
          depth + grammar_->state(call.target).height > grammar_->max_depth()) {
        continue;
      }
      visit({callee, 0, push(call.target, config.stack)});
    }
  }
}

Matcher::SetId Matcher::intern() {
  if (made_.empty() && !made_complete_ && !made_escaped_) return kDead;
  std::ranges::sort(made_);
  made_.erase(std::ranges::unique(made_).begin(), made_.end());
  uint64_t hash = (made_complete_ ? 2u : 0u) + (made_escaped_ ? 1u : 0u);
  for (const Config& c : made_) hash = mix(hash, hash_of(c));
  const auto [first, last] = set_ids_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Set& set = sets_[it->second];
    if (set.complete == made_complete_ && set.escaped == made_escaped_ &&
        std::ranges::equal(configs(it->second), made_)) {
      return it->second;
    }
  }
  const auto id = static_cast<SetId>(sets_.size());
  uint32_t reach = 0;
  for (const Config& c : made_) {
    reach = std::max(reach, stacks_[c.stack].depth + grammar_->state(c.state).height);
  }
  sets_.push_back({static_cast<uint32_t>(configs_.size()), static_cast<uint32_t>(made_.size()),
                   reach, made_complete_, made_escaped_, nullptr});
  configs_.insert(configs_.end(), made_.begin(), made_.end());
  set_ids_.emplace(hash, id);
  return id;
}

Matcher::SetId Matcher::make_step(SetId set, uint8_t byte) {
  if (set == kDead) return kDead;
  begin();
  const uint32_t first = sets_[set].begin;
  const uint32_t size = sets_[set].size;
  for (uint32_t i = first; i < first + size; ++i) {
    const Config config = configs_[i];
    for (const CompiledGrammar::Edge& e : grammar_->edges(config.state)) {
      if (byte < e.first || byte > e.last) continue;
      Config next{e.target, config.count, config.stack};
      const CompiledGrammar::Rule& rule = grammar_->rule_of(e.target);
      if (rule.counted && e.target == rule.start) {
        // Beyond the minimum of an endless rule all counts are alike.
        const bool endless = rule.max == CompiledGrammar::kNone && config.stack != kUnknownStack;
        if (!endless || config.count < rule.min) ++next.count;
      }
      close(next);
    }
    ++work_;
  }
  const SetId result = intern();
  Set& from = sets_[set];
  if (!from.next) {
    from.next = std::make_unique<Moves>();
    from.next->fill(kNotKnown);
    ++move_tables_;
  }
  (*from.next)[byte] = result;
  return result;
}

Matcher::SetId Matcher::join_token(SetId set, int32_t token, SetId by_bytes) {
  std::vector<Config> targets;
  for (const Config& c : configs(set)) {
    const uint32_t target = grammar_->after_token(c.state, token);
    if (target != CompiledGrammar::kNone) targets.push_back({target, 0, c.stack});
    ++work_;
  }
  if (targets.empty()) return by_bytes;
  begin();
  const std::span<const Config> others = configs(by_bytes);
  made_.assign(others.begin(), others.end());
  made_complete_ = complete(by_bytes);
  made_escaped_ = escaped(by_bytes);
  for (const Config& target : targets) close(target);
  return intern();
}

Matcher::SetId Matcher::start() {
  begin();
  close({grammar_->rule(grammar_->start_rule()).start, 0, kEmptyStack});
  return intern();
}

Matcher::SetId Matcher::only(const Config& config) {
  begin();
  made_.push_back(config);
  return intern();
}

Matcher::SetId Matcher::set_of(std::vector<Config> configs, bool complete) {
  begin();
  made_ = std::move(configs);
  made_complete_ = complete;
  return intern();
}

Matcher::SetId Matcher::returned(const Config& config) {
  begin();
  leave_rule(config);
  while (!pending_.empty()) {
    const Config next = pending_.back();
    pending_.pop_back();
    close(next);
  }
  return intern();
}

Matcher::FreeSet Matcher::export_configs(SetId set) const {
  FreeSet free;
  free.complete = sets_[set].complete;
  for (const Config& c : configs(set)) {
    FreeConfig& out = free.configs.emplace_back(FreeConfig{c.state, c.count, {}});
    for (uint32_t s = c.stack; s > kUnknownStack; s = stacks_[s].parent) {
      out.returns.push_back(stacks_[s].return_to);
    }
  }
  return free;
}

Matcher::SetId Matcher::import_configs(const FreeSet& set) {
  std::vector<Config> configs;
  for (const FreeConfig& c : set.configs) {
    uint32_t stack = kEmptyStack;
    for (size_t i = c.returns.size(); i-- > 0;) stack = push(c.returns[i], stack);
    configs.push_back({c.state, c.count, stack});
  }
  return set_of(std::move(configs), set.complete);
}

}  // namespace infer
