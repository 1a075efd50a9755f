// From the graphs of rules to one table, without what leads nowhere.
#include <algorithm>
#include <queue>

#include "engine/sample/grammar/grammar.h"
#include "engine/sample/grammar/rule_automaton.h"

namespace infer {

namespace {

/// Steps of work, about a tenth of a microsecond each at most.
constexpr int64_t kMaxWork = 5'000'000;

}  // namespace

class GrammarCompiler {
 public:
  explicit GrammarCompiler(const std::deque<RuleGraph>& graphs) : graphs_(graphs) {}

  Result<std::shared_ptr<const CompiledGrammar>> compile(uint32_t start, uint32_t max_depth) {
    if (!join_automata(start)) {
      return fail(StatusCode::unsupported,
                  "the grammar is too large: compiled it exceeds {} states and edges, or too much "
                  "work",
                  kMaxGrammarSize);
    }
    const std::vector<uint32_t> heights = completions(/*by_bytes=*/true);
    const uint32_t first = starts_[start];
    if (heights[first] == kNone) {
      return fail(StatusCode::invalid_argument, "no text matches {}", graphs_[start].name);
    }
    prune(heights);
    const std::vector<uint32_t> empties = completions(/*by_bytes=*/false);
    if (const uint32_t rule = find_left_recursion(empties); rule != kNone) {
      return fail(StatusCode::invalid_argument,
                  "{} is left-recursive: it can begin with itself. Put what it reads first before "
                  "the recursion, or use a repetition",
                  graphs_[rule].name);
    }
    return table(start, heights, std::max(max_depth, heights[first] + max_depth / 2));
  }

 private:
  static constexpr uint32_t kNone = CompiledGrammar::kNone;
  struct CallSite {
    uint32_t state;
    CompiledGrammar::Call call;
  };

  /// The automata of all rules that `start` needs, in one numbering.
  bool join_automata(uint32_t start) {
    starts_.assign(graphs_.size(), kNone);
    std::vector<uint32_t> pending{start};
    starts_[start] = 0;
    int64_t work = kMaxWork;
    size_t size = 0;
    while (!pending.empty()) {
      const uint32_t rule = pending.back();
      pending.pop_back();
      RuleAutomaton automaton = make_rule_automaton(graphs_[rule], work);
      const auto base = static_cast<uint32_t>(states_.size());
      starts_[rule] = base;
      for (RuleAutomaton::State& state : automaton.states) {
        for (auto& e : state.edges) e.target += base;
        for (auto& c : state.calls) {
          c.target += base;
          if (starts_[c.rule] != kNone) continue;
          starts_[c.rule] = 0;
          pending.push_back(c.rule);
        }
        for (auto& t : state.tokens) {
          if (t.target != kNone) t.target += base;
        }
        size += 1 + state.edges.size() + state.calls.size() + state.tokens.size();
        states_.push_back(std::move(state));
        rules_.push_back(rule);
      }
      if (work <= 0 || size > 2 * size_t{kMaxGrammarSize}) return false;
    }
    return true;
  }

  bool nothing_follows(uint32_t state) const {
    const RuleAutomaton::State& s = states_[state];
    return s.is_final && s.edges.empty() && s.calls.empty() && s.tokens.empty();
  }

  bool skippable(uint32_t rule) const { return !graphs_[rule].counted || graphs_[rule].min == 0; }

  /// For each state how many nested calls it takes at least to the end of its rule, kNone where no
  /// text leads there; `by_bytes` false: without reading anything. Knuth 1977, "A generalization of
  /// Dijkstra's algorithm".
  std::vector<uint32_t> completions(bool by_bytes) const {
    const auto n = static_cast<uint32_t>(states_.size());
    std::vector<std::vector<uint32_t>> readers(n);  // states with an edge to this one
    std::vector<std::vector<CallSite>> returns(n);  // calls that come back to this one
    std::vector<std::vector<CallSite>> callers(graphs_.size());
    for (uint32_t s = 0; s < n; ++s) {
      if (by_bytes) {
        for (const auto& e : states_[s].edges) readers[e.target].push_back(s);
        for (const auto& t : states_[s].tokens) {
          if (t.target != kNone) readers[t.target].push_back(s);
        }
      }
      for (const auto& c : states_[s].calls) {
        returns[c.target].push_back({s, c});
        callers[c.rule].push_back({s, c});
      }
    }
    std::vector<uint32_t> height(n, kNone);
    using Entry = std::pair<uint32_t, uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (uint32_t s = 0; s < n; ++s) {
      if (states_[s].is_final && (by_bytes || skippable(rules_[s]))) queue.emplace(0, s);
    }
    const auto call = [&](const CallSite& site) {
      const uint32_t inner = height[starts_[site.call.rule]];
      const uint32_t after = height[site.call.target];
      if (inner == kNone || after == kNone || height[site.state] != kNone) return;
      const uint32_t frame = nothing_follows(site.call.target) ? 0 : 1;
      queue.emplace(std::max(inner + frame, after), site.state);
    };
    while (!queue.empty()) {
      const auto [h, s] = queue.top();
      queue.pop();
      if (height[s] != kNone) continue;
      height[s] = h;
      for (const uint32_t reader : readers[s]) {
        if (height[reader] == kNone) queue.emplace(h, reader);
      }
      for (const CallSite& site : returns[s]) call(site);
      if (starts_[rules_[s]] != s) continue;
      for (const CallSite& site : callers[rules_[s]]) call(site);
    }
    return height;
  }

  void prune(const std::vector<uint32_t>& heights) {
    for (RuleAutomaton::State& state : states_) {
      std::erase_if(state.edges, [&](const auto& e) { return heights[e.target] == kNone; });
      std::erase_if(state.calls, [&](const auto& c) {
        return heights[c.target] == kNone || heights[starts_[c.rule]] == kNone;
      });
      for (auto& t : state.tokens) {
        if (t.target != kNone && heights[t.target] == kNone) t.target = kNone;
      }
      // One that is not read matters where all others are.
      const bool others = !state.tokens.empty() &&
                          state.tokens.back().token == CompiledGrammar::kOtherTokens &&
                          state.tokens.back().target != kNone;
      if (!others) std::erase_if(state.tokens, [](const auto& t) { return t.target == kNone; });
    }
  }

  /// A rule that can call itself before it has read anything, or kNone.
  uint32_t find_left_recursion(const std::vector<uint32_t>& empties) const {
    std::vector<std::vector<uint32_t>> first_calls(graphs_.size());
    std::vector<uint32_t> seen(states_.size(), kNone);
    for (uint32_t rule = 0; rule < graphs_.size(); ++rule) {
      if (starts_[rule] == kNone) continue;
      std::vector<uint32_t> pending{starts_[rule]};
      seen[starts_[rule]] = rule;
      while (!pending.empty()) {
        const uint32_t s = pending.back();
        pending.pop_back();
        for (const auto& c : states_[s].calls) {
          first_calls[rule].push_back(c.rule);
          if (empties[starts_[c.rule]] == kNone || seen[c.target] == rule) continue;
          seen[c.target] = rule;
          pending.push_back(c.target);
        }
      }
    }
    enum : uint8_t { fresh, open, done };
    std::vector<uint8_t> marks(graphs_.size(), fresh);
    std::vector<std::pair<uint32_t, size_t>> path;
    for (uint32_t root = 0; root < graphs_.size(); ++root) {
      if (marks[root] != fresh) continue;
      marks[root] = open;
      path.emplace_back(root, 0);
      while (!path.empty()) {
        auto& [rule, next] = path.back();
        if (next == first_calls[rule].size()) {
          marks[rule] = done;
          path.pop_back();
          continue;
        }
        const uint32_t callee = first_calls[rule][next++];
        if (marks[callee] == open) return callee;
        if (marks[callee] != fresh) continue;
        marks[callee] = open;
        path.emplace_back(callee, 0);
      }
    }
    return kNone;
  }

  std::shared_ptr<const CompiledGrammar> table(uint32_t start, const std::vector<uint32_t>& heights,
                                               uint32_t max_depth) const {
    std::shared_ptr<CompiledGrammar> g(new CompiledGrammar);
    g->used_bytes_.assign(256, false);
    g->start_rule_ = start;
    g->max_depth_ = max_depth;
    for (uint32_t rule = 0; rule < graphs_.size(); ++rule) {
      const RuleGraph& graph = graphs_[rule];
      g->rules_.push_back({starts_[rule], graph.min, graph.max, graph.counted});
    }
    for (uint32_t s = 0; s < states_.size(); ++s) {
      g->states_.push_back({static_cast<uint32_t>(g->edges_.size()),
                            static_cast<uint32_t>(g->calls_.size()), rules_[s],
                            states_[s].is_final ? 1u : 0u, states_[s].tokens.empty() ? 0u : 1u,
                            heights[s]});
      for (const auto& e : states_[s].edges) {
        g->edges_.push_back(e);
        for (uint32_t b = e.first; b <= e.last; ++b) g->used_bytes_[b] = true;
      }
      for (auto c : states_[s].calls) {
        if (nothing_follows(c.target)) c.target = kNone;
        g->calls_.push_back(c);
      }
    }
    g->states_.push_back({static_cast<uint32_t>(g->edges_.size()),
                          static_cast<uint32_t>(g->calls_.size()), 0, 0, 0, 0});
    add_token_edges(*g);
    return g;
  }

  void add_token_edges(CompiledGrammar& g) const {
    for (const RuleAutomaton::State& state : states_) {
      g.token_edges_begin_.push_back(static_cast<uint32_t>(g.token_edges_.size()));
      g.token_edges_.insert(g.token_edges_.end(), state.tokens.begin(), state.tokens.end());
    }
    g.token_edges_begin_.push_back(static_cast<uint32_t>(g.token_edges_.size()));
    if (g.token_edges_.empty()) g.token_edges_begin_ = {};
  }

  const std::deque<RuleGraph>& graphs_;
  std::vector<uint32_t> starts_;  ///< by rule: its first state; kNone: not needed
  std::vector<RuleAutomaton::State> states_;
  std::vector<uint32_t> rules_;  ///< by state
};

Result<std::shared_ptr<const CompiledGrammar>> GrammarBuilder::compile(uint32_t start,
                                                                       uint32_t max_depth) const {
  if (too_large()) {
    return fail(StatusCode::unsupported, "the grammar is too large: more than {} states and edges",
                kMaxGrammarSize);
  }
  return GrammarCompiler(graphs_).compile(start, max_depth);
}

}  // namespace infer
