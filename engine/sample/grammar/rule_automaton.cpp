#include "engine/sample/grammar/rule_automaton.h"

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>

namespace infer {
namespace {

using Set = std::vector<uint32_t>;

struct SetHash {
  size_t operator()(const Set& set) const {
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (const uint32_t v : set) h = (h ^ v) * 0x100000001b3u;
    return static_cast<size_t>(h ^ (h >> 29));
  }
};

/// The edges of a graph by the node they leave.
template <typename Edge>
class ByNode {
 public:
  ByNode(const std::vector<Edge>& edges, uint32_t nodes) : edges_(edges) {
    if (edges.empty()) return;
    begins_.resize(nodes + 1);
    for (const Edge& e : edges) ++begins_[e.from + 1];
    for (uint32_t i = 0; i < nodes; ++i) begins_[i + 1] += begins_[i];
    std::ranges::sort(edges_, [](const Edge& a, const Edge& b) {
      return a.from != b.from ? a.from < b.from : a.to < b.to;
    });
  }
  std::span<const Edge> of(uint32_t node) const {
    if (begins_.empty()) return {};
    return {edges_.data() + begins_[node], edges_.data() + begins_[node + 1]};
  }

 private:
  std::vector<uint32_t> begins_;  ///< empty where there are no edges
  std::vector<Edge> edges_;
};

/// Where the edges that leave a state begin, and where they have ended.
class Cuts {
 public:
  void add(const RuleGraph::Bytes& e) {
    add(e.first);
    if (e.last < 255) add(e.last + 1u);
  }
  /// The first one from this byte on, or 256.
  uint32_t next(uint32_t byte) const {
    for (; byte < 256; byte = (byte | 63) + 1) {
      const uint64_t rest = words_[byte / 64] >> (byte % 64);
      if (rest != 0) return byte + static_cast<uint32_t>(std::countr_zero(rest));
    }
    return 256;
  }

 private:
  void add(uint32_t byte) { words_[byte / 64] |= uint64_t{1} << (byte % 64); }

  std::array<uint64_t, 4> words_{};
};

class Determiniser {
 public:
  Determiniser(const RuleGraph& graph, int64_t& work)
      : epsilons_(graph.epsilons, graph.nodes),
        bytes_(graph.byte_edges, graph.nodes),
        calls_(graph.calls, graph.nodes),
        tokens_(graph.tokens, graph.nodes),
        marks_(graph.nodes),
        work_(work) {}

  /// False, with nothing of use made, where there would be more states.
  bool subsets(size_t most_states) {
    state_of({RuleGraph::kStart});
    for (size_t i = 0; i < sets_.size() && work_ > 0; ++i) {
      if (sets_.size() > most_states) return false;
      const Set set = sets_[i];
      finish(i, set);
      byte_moves(i, set);
      call_moves(i, set);
      token_moves(i, set);
    }
    return true;
  }

  /// One state for every node that something leads to.
  void nodes() {
    sets_.clear();
    ids_.clear();
    out_.states.clear();
    state_of({RuleGraph::kStart});
    for (size_t i = 0; i < sets_.size() && work_ > 0; ++i) {
      const Set set = sets_[i];
      finish(i, set);
      for (const uint32_t node : set) {
        for (const RuleGraph::Bytes& e : bytes_.of(node)) {
          const uint32_t target = state_of({e.to});
          out_.states[i].edges.push_back({e.first, e.last, target});
          --work_;
        }
      }
      call_moves(i, set);
      token_moves(i, set);
    }
  }

  RuleAutomaton take() { return std::move(out_); }

 private:
  void finish(size_t state, const Set& set) {
    out_.states[state].is_final = std::ranges::binary_search(set, RuleGraph::kEnd);
  }

  /// The state of all nodes that these reach by empty moves.
  uint32_t state_of(Set set) {
    ++stamp_;
    for (const uint32_t node : set) marks_[node] = stamp_;
    for (size_t i = 0; i < set.size(); ++i) {
      for (const RuleGraph::Epsilon& e : epsilons_.of(set[i])) {
        --work_;
        if (marks_[e.to] == stamp_) continue;
        marks_[e.to] = stamp_;
        set.push_back(e.to);
      }
    }
    work_ -= static_cast<int64_t>(set.size());
    std::ranges::sort(set);
    // Nodes with empty moves alone make no difference.
    std::erase_if(set, [this](uint32_t node) {
      return node != RuleGraph::kEnd && bytes_.of(node).empty() && calls_.of(node).empty() &&
             tokens_.of(node).empty();
    });
    const auto [entry, fresh] = ids_.try_emplace(set, static_cast<uint32_t>(sets_.size()));
    if (fresh) {
      sets_.push_back(std::move(set));
      out_.states.emplace_back();
    }
    return entry->second;
  }

  void byte_moves(size_t state, const Set& set) {
    std::vector<RuleGraph::Bytes> edges;
    Cuts cuts;
    for (const uint32_t node : set) {
      for (const RuleGraph::Bytes& e : bytes_.of(node)) {
        edges.push_back(e);
        cuts.add(e);
      }
    }
    if (edges.empty()) return;
    std::ranges::sort(edges, {}, &RuleGraph::Bytes::first);
    size_t next = 0;
    std::vector<RuleGraph::Bytes> open;  // those that read `first`
    for (uint32_t first = cuts.next(0); first < 256;) {
      const uint32_t end = cuts.next(first + 1);
      std::erase_if(open, [&](const RuleGraph::Bytes& e) { return e.last < first; });
      for (; next < edges.size() && edges[next].first == first; ++next) open.push_back(edges[next]);
      Set targets;
      for (const RuleGraph::Bytes& e : open) targets.push_back(e.to);
      work_ -= static_cast<int64_t>(open.size());
      if (!targets.empty()) {
        std::ranges::sort(targets);
        targets.erase(std::ranges::unique(targets).begin(), targets.end());
        const uint32_t target = state_of(std::move(targets));
        auto& made = out_.states[state].edges;
        if (!made.empty() && made.back().last + 1u == first && made.back().target == target) {
          made.back().last = static_cast<uint8_t>(end - 1);
        } else {
          made.push_back({static_cast<uint8_t>(first), static_cast<uint8_t>(end - 1), target});
        }
      }
      first = end;
    }
  }

  void call_moves(size_t state, const Set& set) {
    std::vector<RuleGraph::Call> calls;
    for (const uint32_t node : set) {
      for (const RuleGraph::Call& c : calls_.of(node)) calls.push_back(c);
    }
    work_ -= static_cast<int64_t>(2 * calls.size());
    std::ranges::sort(calls, [](const RuleGraph::Call& a, const RuleGraph::Call& b) {
      return std::pair(a.rule, a.to) < std::pair(b.rule, b.to);
    });
    for (size_t i = 0; i < calls.size();) {
      Set targets;
      const uint32_t rule = calls[i].rule;
      for (; i < calls.size() && calls[i].rule == rule; ++i) {
        if (targets.empty() || targets.back() != calls[i].to) targets.push_back(calls[i].to);
      }
      const uint32_t target = state_of(std::move(targets));
      out_.states[state].calls.push_back({rule, target});
    }
  }

  /// Always deterministic: an edge for each token that is named, and one for all others.
  void token_moves(size_t state, const Set& set) {
    std::vector<RuleGraph::Token> named;
    std::vector<RuleGraph::Token> negated;
    std::vector<int32_t> tokens;
    for (const uint32_t node : set) {
      for (const RuleGraph::Token& t : tokens_.of(node)) {
        (t.negated ? negated : named).push_back(t);
        tokens.push_back(t.token);
      }
    }
    if (tokens.empty()) return;
    if (!negated.empty()) tokens.push_back(CompiledGrammar::kOtherTokens);
    std::ranges::sort(tokens);
    tokens.erase(std::ranges::unique(tokens).begin(), tokens.end());
    std::ranges::sort(named, {}, &RuleGraph::Token::token);
    size_t next = 0;
    for (const int32_t token : tokens) {
      Set targets;
      for (; next < named.size() && named[next].token == token; ++next) {
        targets.push_back(named[next].to);
      }
      for (const RuleGraph::Token& t : negated) {
        if (t.token != token) targets.push_back(t.to);
      }
      work_ -= static_cast<int64_t>(1 + targets.size() + negated.size());
      if (work_ <= 0) return;
      uint32_t target = CompiledGrammar::kNone;
      if (!targets.empty()) {
        std::ranges::sort(targets);
        targets.erase(std::ranges::unique(targets).begin(), targets.end());
        target = state_of(std::move(targets));
      }
      out_.states[state].tokens.push_back({token, target});
    }
  }

  ByNode<RuleGraph::Epsilon> epsilons_;
  ByNode<RuleGraph::Bytes> bytes_;
  ByNode<RuleGraph::Call> calls_;
  ByNode<RuleGraph::Token> tokens_;
  std::vector<uint32_t> marks_;
  uint32_t stamp_ = 0;
  int64_t& work_;
  std::vector<Set> sets_;
  std::unordered_map<Set, uint32_t, SetHash> ids_;
  RuleAutomaton out_;
};

/// Leads what ends a round back to the start, where the next one begins.
void close_loop(RuleAutomaton& automaton, bool may_be_empty) {
  bool any = false;
  for (RuleAutomaton::State& state : automaton.states) {
    for (CompiledGrammar::Edge& e : state.edges) {
      if (!automaton.states[e.target].is_final) continue;
      e.target = 0;
      any = true;
    }
  }
  for (RuleAutomaton::State& state : automaton.states) state.is_final = false;
  automaton.states[0].is_final = any || may_be_empty;
}

}  // namespace

RuleAutomaton make_rule_automaton(const RuleGraph& graph, int64_t& work) {
  Determiniser determiniser(graph, work);
  if (!determiniser.subsets(4 * size_t{graph.nodes} + 1000)) determiniser.nodes();
  RuleAutomaton automaton = determiniser.take();
  if (graph.counted) close_loop(automaton, graph.min == 0);
  return automaton;
}

}  // namespace infer
