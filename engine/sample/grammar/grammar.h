// The common form of grammars: rules over bytes. Each rule is an automaton and may call others.
//
// A recursive transition network (Woods 1970): the automata read bytes and call rules; text in
// UTF-8 is compiled to its bytes, so that a token may end inside a character.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/status.h"
#include "engine/sample/grammar/code_points.h"

namespace infer {

/// Most states and edges of one grammar, all rules together.
inline constexpr uint32_t kMaxGrammarSize = 400'000;

/// Immutable and thread-safe. Made by GrammarBuilder::compile. Every state can be completed: some
/// text leads from it to the end of its rule within `height` further calls.
class CompiledGrammar {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Edge {
    uint8_t first, last;  ///< bytes, both included
    uint32_t target;
  };
  struct Call {
    uint32_t rule;
    uint32_t target;  ///< kNone: nothing follows in the calling rule
  };
  /// Reads one whole token, independently of its bytes. Never a token that ends a text.
  struct TokenEdge {
    int32_t token;    ///< kOtherTokens: each token without an edge of its own in this state
    uint32_t target;  ///< kNone: the token is not read
  };
  static constexpr int32_t kOtherTokens = INT32_MAX;
  struct State {
    uint32_t edges_begin, calls_begin;
    uint32_t rule : 29;
    uint32_t is_final : 1;
    uint32_t reads_tokens : 1;  ///< there are token edges
    uint32_t height;            ///< least nested calls for completing the rule from here
  };
  /// A counted rule is a loop of `min` to `max` rounds. Every round begins at its start, and the
  /// last one ends there. Other rules have max 0.
  struct Rule {
    uint32_t start;
    uint32_t min, max;  ///< max kNone: any number
    bool counted;
  };

  std::span<const Edge> edges(uint32_t state) const {
    return {edges_.data() + states_[state].edges_begin,
            edges_.data() + states_[state + 1].edges_begin};
  }
  std::span<const Call> calls(uint32_t state) const {
    return {calls_.data() + states_[state].calls_begin,
            calls_.data() + states_[state + 1].calls_begin};
  }
  /// Sorted by token, each token once; kOtherTokens is last.
  std::span<const TokenEdge> token_edges(uint32_t state) const {
    if (states_[state].reads_tokens == 0) return {};
    return {token_edges_.data() + token_edges_begin_[state],
            token_edges_.data() + token_edges_begin_[state + 1]};
  }
  /// The state after the token; kNone if it is not read. Not for tokens that end a text.
  uint32_t after_token(uint32_t state, int32_t token) const;
  bool reads_tokens() const { return !token_edges_.empty(); }
  const State& state(uint32_t state) const { return states_[state]; }
  const Rule& rule(uint32_t rule) const { return rules_[rule]; }
  const Rule& rule_of(uint32_t state) const { return rules_[states_[state].rule]; }
  uint32_t state_count() const { return static_cast<uint32_t>(states_.size() - 1); }
  uint32_t start_rule() const { return start_rule_; }
  /// Nested calls at any time.
  uint32_t max_depth() const { return max_depth_; }
  /// Memory in use.
  size_t bytes() const {
    return sizeof(*this) + states_.capacity() * sizeof(State) + edges_.capacity() * sizeof(Edge) +
           calls_.capacity() * sizeof(Call) + rules_.capacity() * sizeof(Rule) +
           token_edges_.capacity() * sizeof(TokenEdge) +
           token_edges_begin_.capacity() * sizeof(uint32_t);
  }
  /// Whether any text contains this byte.
  bool uses_byte(uint8_t byte) const { return used_bytes_[byte]; }

 private:
  friend class GrammarCompiler;
  CompiledGrammar() = default;

  std::vector<State> states_;  ///< and one more at the end
  std::vector<Edge> edges_;    ///< of a state: sorted where the state is deterministic
  std::vector<Call> calls_;
  std::vector<TokenEdge> token_edges_;
  std::vector<uint32_t> token_edges_begin_;  ///< by state and one more; empty without token edges
  std::vector<Rule> rules_;
  std::vector<bool> used_bytes_;
  uint32_t start_rule_ = 0;
  uint32_t max_depth_ = 0;
};

/// The automaton of one rule while it is being built; nondeterministic. Node 0 is the start, node 1
/// the end.
class RuleGraph {
 public:
  static constexpr uint32_t kStart = 0;
  static constexpr uint32_t kEnd = 1;

  struct Epsilon {
    uint32_t from, to;
  };
  struct Bytes {
    uint32_t from, to;
    uint8_t first, last;
  };
  struct Call {
    uint32_t from, to, rule;
  };
  struct Token {
    uint32_t from, to;
    int32_t token;
    bool negated;  ///< any token but this one
  };

  RuleGraph(std::string name, uint32_t& size) : name(std::move(name)), size_(&size) {}

  uint32_t node() {
    ++*size_;
    return nodes++;
  }
  void epsilon(uint32_t from, uint32_t to) {
    ++*size_;
    epsilons.push_back({from, to});
  }
  void bytes(uint32_t from, uint8_t first, uint8_t last, uint32_t to) {
    ++*size_;
    byte_edges.push_back({from, to, first, last});
  }
  void byte(uint32_t from, char c, uint32_t to) {
    bytes(from, static_cast<uint8_t>(c), static_cast<uint8_t>(c), to);
  }
  void call(uint32_t from, uint32_t rule, uint32_t to) {
    ++*size_;
    calls.push_back({from, to, rule});
  }
  void token(uint32_t from, int32_t token, bool negated, uint32_t to) {
    ++*size_;
    tokens.push_back({from, to, token, negated});
  }
  /// Reads `text`; returns the node behind it.
  uint32_t literal(uint32_t from, std::string_view text);
  void literal(uint32_t from, std::string_view text, uint32_t to) {
    epsilon(literal(from, text), to);
  }
  /// Nodes after the first byte of a character, by their target and the bytes that lead there.
  using CharacterRests = std::map<std::array<uint32_t, 3>, uint32_t>;
  /// Reads one character of the set in UTF-8. Calls with the same `shared` share nodes.
  void characters(uint32_t from, const CodePointSet& set, uint32_t to,
                  CharacterRests* shared = nullptr);

  std::string name;
  uint32_t nodes = 2;
  bool counted = false;
  uint32_t min = 0, max = 0;
  std::vector<Epsilon> epsilons;
  std::vector<Bytes> byte_edges;
  std::vector<Call> calls;
  std::vector<Token> tokens;

 private:
  struct Utf8Range;
  void utf8_range(uint32_t from, const Utf8Range& range, uint32_t to, CharacterRests* shared);
  void utf8_lead(uint32_t from, uint32_t first, uint32_t last, const Utf8Range& rest, uint32_t to,
                 CharacterRests* shared);

  uint32_t* size_;
};

/// Collects rules and compiles them.
class GrammarBuilder {
 public:
  using RuleId = uint32_t;

  GrammarBuilder() = default;
  GrammarBuilder(const GrammarBuilder&) = delete;
  GrammarBuilder& operator=(const GrammarBuilder&) = delete;

  /// `name` appears in messages.
  RuleId add_rule(std::string name);
  /// Adds a rule of `min` to `max` repetitions of what its graph reads from kStart to kEnd; `max`
  /// CompiledGrammar::kNone: any number. The graph calls no rules and reads no whole tokens, and no
  /// text of it is the beginning of another.
  RuleId add_counted_rule(std::string name, uint32_t min, uint32_t max);
  /// Stays where it is when rules are added.
  RuleGraph& graph(RuleId rule) { return graphs_[rule]; }
  /// True if the grammar exceeds kMaxGrammarSize. The caller may then stop, since compile() will
  /// fail.
  bool too_large() const { return size_ > kMaxGrammarSize; }

  /// `max_depth`: most nested calls at any time; raised if the shortest text needs more than half
  /// of them. Errors: invalid_argument for a left-recursive grammar (with a rule of the cycle) and
  /// for one that no text matches; unsupported if a limit is exceeded.
  Result<std::shared_ptr<const CompiledGrammar>> compile(RuleId start, uint32_t max_depth) const;

 private:
  std::deque<RuleGraph> graphs_;
  uint32_t size_ = 0;
};

}  // namespace infer
