// What the tests of grammars share: a slow recogniser, small vocabularies, random texts.
#pragma once

#include <doctest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sample/constraint.h"
#include "engine/sample/grammar/gbnf.h"
#include "engine/sample/grammar/grammar.h"
#include "engine/sample/grammar/json_schema.h"
#include "engine/sample/grammar/token_mask.h"
#include "engine/sample/grammar/token_trie.h"

namespace infer::test {

/// Recognises texts by the grammar's automata, plainly: for each rule and place all ends. Shares
/// nothing with the matcher.
class Recogniser {
 public:
  Recogniser(const CompiledGrammar& grammar, std::string_view text)
      : grammar_(grammar), text_(text.begin(), text.end()) {
    whole_ = ends(grammar.start_rule(), 0).contains(text_.size());
  }
  /// The text of these tokens, each of which may be read as such instead.
  Recogniser(const CompiledGrammar& grammar, const std::vector<int32_t>& tokens,
             const TokenTrie& trie)
      : grammar_(grammar) {
    for (const int32_t token : tokens) {
      const size_t begin = text_.size();
      const std::string_view bytes = trie.bytes(token);
      text_.insert(text_.end(), bytes.begin(), bytes.end());
      if (bytes.empty()) text_.push_back(kNoByte);
      tokens_[begin] = {token, text_.size()};
    }
    whole_ = ends(grammar.start_rule(), 0).contains(text_.size());
  }
  bool whole() const { return whole_; }
  /// Whether some text begins so.
  bool prefix() const { return prefix_; }

 private:
  const std::set<size_t>& ends(uint32_t rule, size_t begin) {
    const auto known = known_.find({rule, begin});
    if (known != known_.end()) return known->second;
    std::set<size_t> out;
    const CompiledGrammar::Rule& r = grammar_.rule(rule);
    using Place = std::tuple<uint32_t, size_t, uint32_t>;
    std::set<Place> seen;
    std::vector<Place> pending;
    const auto add = [&](uint32_t state, size_t pos, uint32_t count) {
      if (seen.insert({state, pos, count}).second) pending.emplace_back(state, pos, count);
    };
    add(r.start, begin, 0);
    while (!pending.empty()) {
      const auto [state, pos, count] = pending.back();
      pending.pop_back();
      if (pos == text_.size()) prefix_ = true;
      if (grammar_.state(state).is_final && (!r.counted || count >= r.min)) out.insert(pos);
      if (r.counted && state == r.start && count >= r.max) continue;
      for (const auto& e : grammar_.edges(state)) {
        if (pos == text_.size()) break;
        if (text_[pos] == kNoByte) break;
        const auto byte = static_cast<uint8_t>(text_[pos]);
        if (byte < e.first || byte > e.last) continue;
        add(e.target, pos + 1, r.counted && e.target == r.start ? count + 1 : count);
      }
      if (const auto at = tokens_.find(pos); at != tokens_.end()) {
        const auto [token, end] = at->second;
        uint32_t target = CompiledGrammar::kNone;
        for (const auto& e : grammar_.token_edges(state)) {
          if (e.token != token && e.token != CompiledGrammar::kOtherTokens) continue;
          target = e.target;
          break;
        }
        if (target != CompiledGrammar::kNone) add(target, end, count);
      }
      for (const auto& c : grammar_.calls(state)) {
        const std::set<size_t> inner = ends(c.rule, pos);
        for (const size_t end : inner) {
          if (c.target == CompiledGrammar::kNone) {
            out.insert(end);
          } else {
            add(c.target, end, 0);
          }
        }
      }
    }
    return known_[{rule, begin}] = out;
  }

  const CompiledGrammar& grammar_;
  static constexpr int kNoByte = 1000;  ///< stands for a token that is no text

  std::vector<int> text_;
  std::map<size_t, std::pair<int32_t, size_t>>
      tokens_;  ///< by where they begin: and where they end
  std::map<std::pair<uint32_t, size_t>, std::set<size_t>> known_;
  bool whole_ = false;
  bool prefix_ = false;
};

/// Knuth's MMIX generator.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435761u + 1) {}
  uint32_t below(uint32_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>((state_ >> 33) % n);
  }

 private:
  uint64_t state_;
};

/// All single bytes and these pieces; the last token ends a text.
struct SmallVocabulary {
  explicit SmallVocabulary(std::vector<std::string> more) {
    for (int b = 0; b < 256; ++b) pieces.emplace_back(1, static_cast<char>(b));
    pieces.insert(pieces.end(), more.begin(), more.end());
    std::vector<TokenTrie::Piece> all;
    for (size_t i = 0; i < pieces.size(); ++i) all.push_back({pieces[i], static_cast<int32_t>(i)});
    eog = static_cast<int32_t>(pieces.size());
    trie = std::make_shared<const TokenTrie>(std::move(all), std::vector<int32_t>{eog}, eog + 1);
  }
  std::vector<std::string> pieces;
  int32_t eog = 0;
  std::shared_ptr<const TokenTrie> trie;
};

inline std::vector<int32_t> tokens_of(const TokenMask& mask) {
  std::vector<int32_t> out;
  for (int32_t i = 0; i < mask.vocab_size(); ++i) {
    if (mask.test(i)) out.push_back(i);
  }
  return out;
}

inline std::shared_ptr<const CompiledGrammar> gbnf(const std::string& text) {
  auto grammar = compile_gbnf(text);
  REQUIRE_MESSAGE(grammar, (grammar ? std::string() : grammar.error().message()));
  return *grammar;
}

inline std::shared_ptr<const CompiledGrammar> schema(const std::string& text) {
  auto grammar = compile_json_schema(text);
  REQUIRE_MESSAGE(grammar, (grammar ? std::string() : text + ": " + grammar.error().message()));
  return *grammar;
}

/// The constraint of a sequence that shares nothing with others.
inline Result<std::unique_ptr<Constraint>> make_constraint(
    std::shared_ptr<const CompiledGrammar> grammar, std::shared_ptr<const TokenTrie> trie) {
  INFER_TRY(auto shared, TokenGrammar::create(std::move(grammar), std::move(trie)));
  return infer::make_constraint(std::move(shared));
}

inline std::unique_ptr<Constraint> constraint(std::shared_ptr<const CompiledGrammar> grammar,
                                              std::shared_ptr<const TokenTrie> trie) {
  auto made = make_constraint(std::move(grammar), std::move(trie));
  REQUIRE_MESSAGE(made, (made ? std::string() : made.error().message()));
  return *std::move(made);
}

/// What hostile grammars are tried with: pieces that run along what they repeat.
inline const SmallVocabulary& hostile_vocabulary() {
  static const SmallVocabulary kVocabulary({"aaaaaaaaaaaaaaaa", "abababababababab", "((((((((",
                                            "\"\"", "[[[[[[[[", "{\"a\":", "aaaa", "bbbb",
                                            "0000000000"});
  return kVocabulary;
}

/// Accepts random tokens of the masks, at most so many and none after `end`. No mask is empty.
inline void walk(Constraint& constraint, int32_t end, int steps) {
  Random random(1);
  for (int step = 0; step < steps; ++step) {
    const std::vector<int32_t> allowed = tokens_of(constraint.mask());
    REQUIRE(!allowed.empty());
    const int32_t token = allowed[random.below(static_cast<uint32_t>(allowed.size()))];
    REQUIRE(constraint.accept(token));
    if (token == end) return;
  }
}

/// A grammar is refused with a reason; one that compiles must also be usable: some tokens, each
/// with a mask that is not empty.
template <typename Compiled>
void try_out(const Compiled& compiled) {
  if (!compiled) {
    CHECK(!compiled.error().message().empty());
    CHECK(compiled.error().message().size() < 2000);
    CHECK((compiled.error().code() == StatusCode::unsupported ||
           compiled.error().code() == StatusCode::invalid_argument));
    return;
  }
  walk(*constraint(*compiled, hostile_vocabulary().trie), hostile_vocabulary().eog, 40);
}

/// A text drawn token by token from the masks. From `long_after` tokens on it prefers what ends.
inline std::string random_text(Constraint& constraint, const SmallVocabulary& vocabulary,
                               Random& random, int long_after = 60) {
  std::string text;
  for (int step = 0; step < 20'000; ++step) {
    const std::vector<int32_t> allowed = tokens_of(constraint.mask());
    REQUIRE_MESSAGE(!allowed.empty(), text);
    int32_t token = allowed[random.below(static_cast<uint32_t>(allowed.size()))];
    if (step >= long_after && constraint.complete()) {
      token = vocabulary.eog;
    } else if (step >= long_after && random.below(4) != 0) {
      constexpr std::string_view kClosers = "\"]}xq";
      const auto close = static_cast<int32_t>(kClosers[random.below(5)]);
      if (constraint.allows(close)) token = close;
    }
    REQUIRE(constraint.accept(token));
    if (token == vocabulary.eog) return text;
    text += vocabulary.pieces[static_cast<size_t>(token)];
  }
  FAIL("a text without an end: " << text.substr(0, 200));
  return text;
}

}  // namespace infer::test
