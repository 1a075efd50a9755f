// Making the graphs; grammar_compiler.cpp compiles them.
#include "engine/sample/grammar/grammar.h"

#include <algorithm>

namespace infer {
namespace {

constexpr uint8_t kLowestContinuation = 0x80;
constexpr uint8_t kHighestContinuation = 0xbf;

/// Bytes of the character's UTF-8; returns their number.
uint32_t encode(char32_t code, uint8_t* out) {
  if (code < 0x80) {
    out[0] = static_cast<uint8_t>(code);
    return 1;
  }
  const uint32_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (uint32_t i = size - 1; i > 0; --i, code >>= 6) {
    out[i] = static_cast<uint8_t>(kLowestContinuation | (code & 0x3f));
  }
  constexpr uint8_t kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  out[0] = static_cast<uint8_t>(kLead[size] | code);
  return size;
}

bool all_equal(const uint8_t* bytes, uint32_t size, uint8_t value) {
  for (uint32_t i = 0; i < size; ++i) {
    if (bytes[i] != value) return false;
  }
  return true;
}

}  // namespace

uint32_t CompiledGrammar::after_token(uint32_t state, int32_t token) const {
  const std::span<const TokenEdge> edges = token_edges(state);
  const auto at = std::ranges::lower_bound(edges, token, {}, &TokenEdge::token);
  if (at != edges.end() && at->token == token) return at->target;
  const bool others = !edges.empty() && edges.back().token == kOtherTokens;
  return others ? edges.back().target : kNone;
}

uint32_t RuleGraph::literal(uint32_t from, std::string_view text) {
  for (const char c : text) {
    const uint32_t next = node();
    byte(from, c, next);
    from = next;
  }
  return from;
}

/// From `low` to `high`, each of `size` bytes.
struct RuleGraph::Utf8Range {
  const uint8_t* low;
  const uint8_t* high;
  uint32_t size;
};

/// Reads a byte from `first` to `last`, then the rest.
void RuleGraph::utf8_lead(uint32_t from, uint32_t first, uint32_t last, const Utf8Range& rest,
                          uint32_t to, CharacterRests* shared) {
  uint32_t next = nodes;
  bool fresh = true;
  if (shared != nullptr) {
    std::array<uint32_t, 3> key{to, rest.size, rest.size};
    for (uint32_t i = 0; i < rest.size; ++i) {
      key[1] = (key[1] << 8) | rest.low[i];
      key[2] = (key[2] << 8) | rest.high[i];
    }
    const auto known = shared->try_emplace(key, next);
    next = known.first->second;
    fresh = known.second;
  }
  if (fresh) node();
  bytes(from, static_cast<uint8_t>(first), static_cast<uint8_t>(last), next);
  if (fresh) utf8_range(next, rest, to, shared);
}

void RuleGraph::utf8_range(uint32_t from, const Utf8Range& range, uint32_t to,
                           CharacterRests* shared) {
  const auto [low, high, size] = range;
  if (size == 1) {
    bytes(from, low[0], high[0], to);
    return;
  }
  if (low[0] == high[0]) {
    utf8_lead(from, low[0], low[0], {low + 1, high + 1, size - 1}, to, shared);
    return;
  }
  // A first byte at either end may allow only some continuations; those between allow all.
  constexpr uint8_t kAllLow[] = {kLowestContinuation, kLowestContinuation, kLowestContinuation};
  constexpr uint8_t kAllHigh[] = {kHighestContinuation, kHighestContinuation, kHighestContinuation};
  uint32_t first = low[0];
  uint32_t last = high[0];
  if (!all_equal(low + 1, size - 1, kLowestContinuation)) {
    utf8_lead(from, first, first, {low + 1, kAllHigh, size - 1}, to, shared);
    ++first;
  }
  if (!all_equal(high + 1, size - 1, kHighestContinuation)) {
    utf8_lead(from, last, last, {kAllLow, high + 1, size - 1}, to, shared);
    --last;
  }
  if (first <= last) utf8_lead(from, first, last, {kAllLow, kAllHigh, size - 1}, to, shared);
}

void RuleGraph::characters(uint32_t from, const CodePointSet& set, uint32_t to,
                           CharacterRests* shared) {
  constexpr char32_t kLastOfSize[] = {0x7f, 0x7ff, 0xffff, kMaxCodePoint};
  for (const CodePointRange& r : set.ranges()) {
    char32_t first = r.first;
    for (const char32_t end : kLastOfSize) {
      if (first > r.last) break;
      if (first > end) continue;
      uint8_t low[4];
      uint8_t high[4];
      const uint32_t size = encode(first, low);
      encode(r.last < end ? r.last : end, high);
      utf8_range(from, {low, high, size}, to, shared);
      first = end + 1;
    }
  }
}

GrammarBuilder::RuleId GrammarBuilder::add_rule(std::string name) {
  graphs_.emplace_back(std::move(name), size_);
  ++size_;
  return static_cast<RuleId>(graphs_.size() - 1);
}

GrammarBuilder::RuleId GrammarBuilder::add_counted_rule(std::string name, uint32_t min,
                                                        uint32_t max) {
  const RuleId rule = add_rule(std::move(name));
  graphs_[rule].counted = true;
  graphs_[rule].min = min;
  graphs_[rule].max = max;
  return rule;
}

}  // namespace infer
