#include "engine/sample/grammar/char_dfa.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/text/unicode.h"

namespace infer {
namespace {

constexpr uint32_t kNowhere = UINT32_MAX;
/// The start of an automaton made by determinise(), which no set of nodes equals.
constexpr uint32_t kBeginMark = UINT32_MAX;

tl::unexpected<Status> too_complex() {
  return fail(StatusCode::unsupported, "the combined patterns and lengths need more than {} states",
              kMaxCharStates);
}

uint32_t follow(const CharDfa::State& state, char32_t code) {
  const auto after = std::ranges::upper_bound(state.edges, code, {}, &CharDfa::Edge::first);
  if (after == state.edges.begin() || code > std::prev(after)->last) return kNowhere;
  return std::prev(after)->target;
}

/// Appends an edge, joined with the one before where they touch.
void append(std::vector<CharDfa::Edge>& edges, char32_t first, char32_t last, uint32_t target) {
  if (!edges.empty() && edges.back().last + 1 == first && edges.back().target == target) {
    edges.back().last = last;
  } else {
    edges.push_back({first, last, target});
  }
}

}  // namespace

CharDfa CharDfa::all() {
  CharDfa dfa;
  dfa.states_.push_back({{{0, kMaxCodePoint, 0}}, true});
  return dfa;
}

Result<CharDfa> CharDfa::of_length(uint32_t min, uint32_t max) {
  const uint32_t last = max == kNoMaximum ? min : max;
  if (last >= kMaxCharStates) return too_complex();
  CharDfa dfa;
  for (uint32_t i = 0; i <= last; ++i) {
    State state{{}, i >= min};
    if (i < last) state.edges.push_back({0, kMaxCodePoint, i + 1});
    if (i == last && max == kNoMaximum) state.edges.push_back({0, kMaxCodePoint, i});
    dfa.states_.push_back(std::move(state));
  }
  return dfa;
}

CharDfa CharDfa::of(const std::vector<std::string_view>& strings) {
  std::vector<std::map<char32_t, uint32_t>> children(1);
  std::vector<bool> ends(1);
  for (const std::string_view s : strings) {
    uint32_t at = 0;
    for (size_t pos = 0; pos < s.size();) {
      const Utf8Char c = decode_utf8(s, pos);
      pos += c.size;
      const auto [it, fresh] =
          children[at].try_emplace(c.code, static_cast<uint32_t>(children.size()));
      at = it->second;
      if (!fresh) continue;
      children.emplace_back();
      ends.push_back(false);
    }
    ends[at] = true;
  }
  CharDfa dfa;
  for (size_t i = 0; i < children.size(); ++i) {
    State state{{}, ends[i]};
    for (const auto& [code, target] : children[i]) state.edges.push_back({code, code, target});
    dfa.states_.push_back(std::move(state));
  }
  return dfa;
}

bool CharDfa::matches(std::string_view text) const {
  uint32_t at = 0;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = decode_utf8(text, pos);
    if (!c.valid) return false;
    pos += c.size;
    at = follow(states_[at], c.code);
    if (at == kNowhere) return false;
  }
  return states_[at].is_final;
}

bool CharDfa::empty() const {
  std::vector<uint32_t> pending{0};
  std::vector<bool> seen(states_.size());
  seen[0] = true;
  while (!pending.empty()) {
    const State& state = states_[pending.back()];
    pending.pop_back();
    if (state.is_final) return false;
    for (const Edge& e : state.edges) {
      // Surrogates alone are no text.
      if (seen[e.target] || CodePointSet({{e.first, e.last}}).empty()) continue;
      seen[e.target] = true;
      pending.push_back(e.target);
    }
  }
  return true;
}

CharDfa::Lengths CharDfa::lengths() const {
  Lengths out{kNoMaximum, 0};
  std::vector<uint32_t> nearest(states_.size(), kNowhere), sources(states_.size());
  std::vector<uint32_t> order{0};
  nearest[0] = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const State& state = states_[order[i]];
    if (state.is_final) out.least = std::min(out.least, nearest[order[i]]);
    for (const Edge& e : state.edges) {
      ++sources[e.target];
      if (nearest[e.target] != kNowhere) continue;
      nearest[e.target] = nearest[order[i]] + 1;
      order.push_back(e.target);
    }
  }
  // In topological order; states of cycles are never reached.
  std::vector<uint32_t> farthest(states_.size()), ready;
  if (sources[0] == 0) ready.push_back(0);
  for (size_t i = 0; i < ready.size(); ++i) {
    const uint32_t s = ready[i];
    if (states_[s].is_final) out.most = std::max(out.most, farthest[s]);
    for (const Edge& e : states_[s].edges) {
      farthest[e.target] = std::max(farthest[e.target], farthest[s] + 1);
      if (--sources[e.target] == 0) ready.push_back(e.target);
    }
  }
  if (ready.size() < order.size()) out.most = kNoMaximum;
  return out;
}

std::optional<CharDfa::Loop> CharDfa::loop() const {
  std::vector<uint32_t> depth(states_.size(), kNowhere), order{0};
  std::optional<Loop> found;
  depth[0] = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t s = order[i];
    const bool loops =
        std::ranges::any_of(states_[s].edges, [&](const Edge& e) { return e.target == s; });
    if (states_[s].is_final != loops || (loops && found)) return std::nullopt;
    if (loops) found = {s, depth[s]};
    for (const Edge& e : states_[s].edges) {
      if (loops ? e.target != s : depth[e.target] != kNowhere && depth[e.target] != depth[s] + 1) {
        return std::nullopt;
      }
      if (depth[e.target] != kNowhere) continue;
      depth[e.target] = depth[s] + 1;
      order.push_back(e.target);
    }
  }
  return found;
}

CharDfa CharDfa::complement() const {
  CharDfa out;
  const auto sink = static_cast<uint32_t>(states_.size());
  for (const State& state : states_) {
    State made{{}, !state.is_final};
    char32_t next = 0;
    for (const Edge& e : state.edges) {
      if (e.first > next) append(made.edges, next, e.first - 1, sink);
      append(made.edges, e.first, e.last, e.target);
      next = e.last + 1;
    }
    if (next <= kMaxCodePoint) append(made.edges, next, kMaxCodePoint, sink);
    out.states_.push_back(std::move(made));
  }
  out.states_.push_back({{{0, kMaxCodePoint, sink}}, true});
  return out;
}

Result<CharDfa> CharDfa::product(const CharDfa& other, bool both, CharWork& work) const {
  using Pair = std::pair<uint32_t, uint32_t>;
  CharDfa out;
  std::map<Pair, uint32_t> ids;
  std::vector<Pair> pairs;
  const auto id_of = [&](uint32_t a, uint32_t b) {
    const auto [it, fresh] = ids.try_emplace({a, b}, static_cast<uint32_t>(pairs.size()));
    if (fresh) pairs.emplace_back(a, b);
    return it->second;
  };
  const auto final_in = [](const CharDfa& dfa, uint32_t s) {
    return s != kNowhere && dfa.states_[s].is_final;
  };
  id_of(0, 0);
  static const std::vector<Edge> kNoEdges;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (pairs.size() > kMaxCharStates || work.left < 0) return too_complex();
    const auto [a, b] = pairs[i];
    State made;
    made.is_final =
        both ? final_in(*this, a) && final_in(other, b) : final_in(*this, a) || final_in(other, b);
    const auto& left = a == kNowhere ? kNoEdges : states_[a].edges;
    const auto& right = b == kNowhere ? kNoEdges : other.states_[b].edges;
    size_t l = 0;
    size_t r = 0;
    for (char32_t code = 0; code <= kMaxCodePoint;) {
      --work.left;
      while (l < left.size() && left[l].last < code) ++l;
      while (r < right.size() && right[r].last < code) ++r;
      char32_t end = kMaxCodePoint;
      const auto target = [&](const std::vector<Edge>& edges, size_t at) {
        if (at == edges.size()) return kNowhere;
        end =
            std::min<char32_t>(end, edges[at].first > code ? edges[at].first - 1 : edges[at].last);
        return edges[at].first > code ? kNowhere : edges[at].target;
      };
      const uint32_t x = target(left, l);
      const uint32_t y = target(right, r);
      if (both ? x != kNowhere && y != kNowhere : x != kNowhere || y != kNowhere) {
        append(made.edges, code, end, id_of(x, y));
      }
      code = end + 1;
    }
    out.states_.push_back(std::move(made));
  }
  return out.trimmed();
}

Result<CharDfa> CharDfa::intersected(const CharDfa& other, CharWork& work) const {
  return product(other, true, work);
}
Result<CharDfa> CharDfa::united(const CharDfa& other, CharWork& work) const {
  return product(other, false, work);
}

Result<CharDfa> CharDfa::minimal(CharWork& work) const {
  const CharDfa dfa = trimmed();
  const std::vector<State>& states = dfa.states_;
  // Moore's partition: states are of one class as long as their edges lead to the same classes.
  std::vector<uint32_t> classes(states.size());
  for (size_t s = 0; s < states.size(); ++s) classes[s] = states[s].is_final ? 1 : 0;
  for (size_t known = 0;;) {
    std::map<std::vector<uint32_t>, uint32_t> ids;
    std::vector<uint32_t> next;
    for (size_t s = 0; s < states.size(); ++s) {
      std::vector<Edge> edges;
      for (const Edge& e : states[s].edges) append(edges, e.first, e.last, classes[e.target]);
      std::vector<uint32_t> key{classes[s]};
      for (const Edge& e : edges) key.insert(key.end(), {e.first, e.last, e.target});
      work.left -= static_cast<int64_t>(edges.size());
      next.push_back(
          ids.try_emplace(std::move(key), static_cast<uint32_t>(ids.size())).first->second);
    }
    if (work.left < 0) return too_complex();
    classes = std::move(next);
    if (ids.size() == known) break;
    known = ids.size();
  }
  CharDfa out;
  for (size_t s = 0; s < states.size(); ++s) {
    if (classes[s] < out.states_.size())
      continue;  // classes are numbered as their first states come
    State& made = out.states_.emplace_back(State{{}, states[s].is_final});
    for (const Edge& e : states[s].edges) append(made.edges, e.first, e.last, classes[e.target]);
  }
  return out;
}

CharDfa CharDfa::trimmed() const {
  const size_t n = states_.size();
  std::vector<std::vector<uint32_t>> sources(n);
  std::vector<uint32_t> pending;
  std::vector<bool> leads(n);
  for (uint32_t s = 0; s < n; ++s) {
    for (const Edge& e : states_[s].edges) sources[e.target].push_back(s);
    if (!states_[s].is_final) continue;
    leads[s] = true;
    pending.push_back(s);
  }
  while (!pending.empty()) {
    const uint32_t s = pending.back();
    pending.pop_back();
    for (const uint32_t source : sources[s]) {
      if (leads[source]) continue;
      leads[source] = true;
      pending.push_back(source);
    }
  }
  std::vector<uint32_t> ids(n, kNowhere);
  uint32_t next = 0;
  for (uint32_t s = 0; s < n; ++s) {
    if (s == 0 || leads[s]) ids[s] = next++;
  }
  CharDfa out;
  for (uint32_t s = 0; s < n; ++s) {
    if (ids[s] == kNowhere) continue;
    State made{{}, states_[s].is_final};
    for (const Edge& e : states_[s].edges) {
      if (leads[e.target]) append(made.edges, e.first, e.last, ids[e.target]);
    }
    out.states_.push_back(std::move(made));
  }
  return out;
}

Result<CharDfa> CharNfa::determinise(bool anywhere, CharWork& budget) const {
  if (too_large()) return too_complex();
  using Set = std::vector<uint32_t>;
  CharDfa out;
  std::map<Set, uint32_t> ids;
  std::vector<Set> sets;
  int64_t& work = budget.left;
  std::vector<uint32_t> marks(nodes_.size());
  uint32_t stamp = 0;
  const auto close = [&](Set& set, bool begin, bool end) {
    ++stamp;
    for (const uint32_t node : set) marks[node] = stamp;
    for (size_t i = 0; i < set.size(); ++i) {
      for (const Empty& e : nodes_[set[i]].empties) {
        --work;
        if (marks[e.to] == stamp || (e.when == When::at_begin && !begin) ||
            (e.when == When::at_end && !end)) {
          continue;
        }
        marks[e.to] = stamp;
        set.push_back(e.to);
      }
    }
    work -= static_cast<int64_t>(set.size());
  };
  const auto id_of = [&](Set set, bool begin) {
    close(set, begin, false);
    std::ranges::sort(set);
    // Once a part has matched, whatever follows is in.
    if (anywhere && std::ranges::binary_search(set, kEnd)) set = {kEnd};
    Set key = set;
    if (begin) key.push_back(kBeginMark);
    const auto [it, fresh] = ids.try_emplace(std::move(key), static_cast<uint32_t>(sets.size()));
    if (fresh) {
      CharDfa::State state;
      Set at_end = set;
      close(at_end, begin, true);
      state.is_final = std::ranges::find(at_end, kEnd) != at_end.end();
      out.states_.push_back(std::move(state));
      sets.push_back(std::move(set));
    }
    return it->second;
  };
  id_of({kStart}, true);
  for (size_t i = 0; i < sets.size(); ++i) {
    if (sets.size() > kMaxCharStates || work < 0) return too_complex();
    const Set set = sets[i];
    if (anywhere && set == Set{kEnd}) {
      out.states_[i].edges = {{0, kMaxCodePoint, id_of({kEnd}, false)}};
      continue;
    }
    std::set<char32_t> cuts{0};
    for (const uint32_t node : set) {
      for (const Read& r : nodes_[node].reads) {
        for (const CodePointRange& range : r.set.ranges()) {
          cuts.insert(range.first);
          cuts.insert(range.last + 1);
          --work;
        }
      }
    }
    for (auto cut = cuts.begin(); cut != cuts.end() && work > 0; ++cut) {
      const char32_t first = *cut;
      if (first > kMaxCodePoint) break;
      const auto next = std::next(cut);
      const char32_t last = next == cuts.end() ? kMaxCodePoint : *next - 1;
      Set targets;
      if (anywhere) targets.push_back(kStart);
      for (const uint32_t node : set) {
        for (const Read& r : nodes_[node].reads) {
          --work;
          if (r.set.contains(first)) targets.push_back(r.to);
        }
      }
      if (targets.empty()) continue;
      std::ranges::sort(targets);
      targets.erase(std::ranges::unique(targets).begin(), targets.end());
      const uint32_t to = id_of(std::move(targets), false);  // first: it moves the states
      append(out.states_[i].edges, first, last, to);
    }
  }
  if (work < 0) return too_complex();
  return out.trimmed();
}

}  // namespace infer
