#include "engine/sample/grammar/object_graph.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "engine/sample/grammar/json_text.h"

namespace infer {
namespace {

constexpr uint32_t kNone = CompiledGrammar::kNone;
/// Members that are counted one by one.
constexpr uint64_t kMaxCountedMembers = 4096;
constexpr size_t kMaxPlaces = 50'000;
/// Bytes from which on what several names have in common is a rule of its own, so that a version of
/// the trie takes one call instead of a copy.
constexpr size_t kCalledFrom = 5;

/// Some of the names of consecutive members. Names are added one by one, and each version of the
/// trie stays as it was.
class NameTrie {
 public:
  using Listed = ObjectMembers::Listed;

  NameTrie(GrammarBuilder& builder, NameRules& names, uint32_t rule,
           std::span<const Listed> members)
      : builder_(builder), names_(names), rule_(rule), members_(members), leaves_(members.size()) {
    std::vector<uint32_t> sorted(members.size());
    std::iota(sorted.begin(), sorted.end(), 0u);
    std::ranges::sort(sorted, {}, [&](uint32_t i) -> std::string_view { return members[i].text; });
    nodes_.push_back({});
    std::vector<uint32_t> path{0};
    std::string_view before;
    for (const uint32_t i : sorted) {
      const std::string_view text = members[i].text;
      const auto shared =
          static_cast<size_t>(std::ranges::mismatch(before, text).in1 - before.begin());
      uint32_t below = kNone;
      for (; nodes_[path.back()].end > shared; path.pop_back()) below = path.back();
      if (nodes_[path.back()].end < shared) {
        const auto middle = static_cast<uint32_t>(nodes_.size());
        nodes_.push_back({path.back(), shared, text, {below}});
        nodes_[path.back()].children.back() = middle;
        nodes_[below].parent = middle;
        path.push_back(middle);
      }
      leaves_[i] = static_cast<uint32_t>(nodes_.size());
      nodes_[path.back()].children.push_back(leaves_[i]);
      nodes_.push_back({path.back(), text.size(), text});
      path.push_back(leaves_[i]);
      before = text;
    }
  }

  /// Adds the member at `index`, behind which the graph goes on at `to`. Returns the node from
  /// which all members added so far are read.
  uint32_t add(size_t index, uint32_t to) {
    uint32_t at = leaves_[index];
    const uint32_t value = members_[index].value;
    const uint32_t member = names_.member(label(at).substr(1), value);
    nodes_[at].entry = graph().node();
    graph().call(nodes_[at].entry, member, to);
    for (;;) {
      at = nodes_[at].parent;
      const uint32_t version = graph().node();
      for (const uint32_t child : nodes_[at].children) {
        if (nodes_[child].entry == kNone) continue;
        graph().byte(version, label(child)[0], nodes_[child].entry);
      }
      if (at == 0 || builder_.too_large()) return version;
      nodes_[at].entry = read(label(at).substr(1), version);
    }
  }

 private:
  struct Node {
    uint32_t parent = 0;
    size_t end = 0;         ///< bytes of `text` up to here
    std::string_view text;  ///< a name that passes here
    std::vector<uint32_t> children{};
    /// Of the newest version, behind the first byte of its label; kNone: no name added passes here.
    uint32_t entry = kNone;
  };

  RuleGraph& graph() { return builder_.graph(rule_); }
  std::string_view label(uint32_t node) const {
    const Node& n = nodes_[node];
    return n.text.substr(nodes_[n.parent].end, n.end - nodes_[n.parent].end);
  }
  /// A node from which `text` leads to `to`.
  uint32_t read(std::string_view text, uint32_t to) {
    if (text.size() >= kCalledFrom) {
      const uint32_t literal = names_.literal(text);
      const uint32_t from = graph().node();
      graph().call(from, literal, to);
      return from;
    }
    for (; !text.empty(); text.remove_suffix(1)) {
      const uint32_t from = graph().node();
      graph().byte(from, text.back(), to);
      to = from;
    }
    return to;
  }

  GrammarBuilder& builder_;
  NameRules& names_;
  uint32_t rule_;
  std::span<const Listed> members_;
  std::vector<Node> nodes_;  ///< the root first
  std::vector<uint32_t> leaves_;
};

class ObjectGraph {
 public:
  ObjectGraph(GrammarBuilder& builder, NameRules& names, uint32_t rule, uint32_t space,
              const ObjectMembers& members)
      : builder_(builder),
        names_(names),
        rule_(rule),
        space_(space),
        members_(members),
        size_(members.listed.size()),
        next_required_(size_ + 1, size_) {
    limited_ = members.most < (members.others.empty() ? size_ : UINT64_MAX);
    if (limited_) most_ = std::min(members.most, kMaxCountedMembers);
    for (size_t i = size_; i-- > 0;) {
      next_required_[i] = members.listed[i].required ? i : next_required_[i + 1];
    }
  }

  bool emit() {
    const uint32_t open = graph().literal(RuleGraph::kStart, "{");
    const uint32_t closing = graph().node();
    const uint32_t close = graph().node();
    graph().call(closing, space_, close);
    graph().byte(close, '}', RuleGraph::kEnd);
    graph().epsilon(open, node_of({}));
    // Each place leads to later ones in this order.
    for (const auto& [at, here] : places_) {
      if (places_.size() > kMaxPlaces) return false;
      if (builder_.too_large()) return true;
      if (at.distinct >= members_.least && next_required_[at.index] == size_) {
        if (at.written == 0) graph().byte(here, '}', RuleGraph::kEnd);
        if (at.written > 0) graph().epsilon(here, closing);
      }
      if (limited_ && at.written == most_) continue;
      const uint32_t next = next_members(at);
      if (next == kNone) continue;
      graph().call(at.written == 0 ? here : graph().literal(here, ","), space_, next);
    }
    return true;
  }

 private:
  struct Place {
    uint64_t written = 0;   ///< members so far, up to `most_`
    size_t index = 0;       ///< the listed members before are decided
    uint64_t distinct = 0;  ///< names that surely differ, up to `least`
    bool other = false;     ///< one that is not listed is among them
    auto operator<=>(const Place&) const = default;
  };

  RuleGraph& graph() { return builder_.graph(rule_); }

  uint32_t node_of(const Place& place) {
    const auto [it, fresh] = places_.try_emplace(place, 0);
    if (fresh) it->second = graph().node();
    return it->second;
  }

  /// The node from which each member is read that may follow the place, or kNone.
  uint32_t next_members(const Place& at) {
    Place key = at;
    key.written = std::min(at.written + 1, most_);
    if (const auto it = members_at_.find(key); it != members_at_.end()) return it->second;
    const uint64_t distinct = std::min(at.distinct + 1, members_.least);
    const size_t required = next_required_[at.index];
    uint32_t others = kNone;
    if (required == size_ && !members_.others.empty()) {
      key.index = size_;
      others = graph().node();
      const uint32_t to = node_of({key.written, size_, at.other ? at.distinct : distinct, true});
      for (const uint32_t other : members_.others) graph().call(others, other, to);
      members_at_[key] = others;
    }
    if (at.index == size_) return others;

    const size_t end = std::min(required + 1, size_);
    NameTrie trie(builder_, names_, rule_,
                  std::span(members_.listed).subspan(at.index, end - at.index));
    for (size_t i = end; i-- > at.index && !builder_.too_large();) {
      const uint32_t from = trie.add(i - at.index, node_of({key.written, i + 1, distinct, false}));
      if (others != kNone) graph().epsilon(from, others);
      key.index = i;
      members_at_[key] = from;
    }
    return members_at_[key];
  }

  GrammarBuilder& builder_;
  NameRules& names_;
  uint32_t rule_, space_;
  const ObjectMembers& members_;
  size_t size_;
  std::vector<size_t> next_required_;  ///< by index: the first required member from there on
  bool limited_ = false;
  uint64_t most_ = 1;  ///< without a limit it matters only whether there is a member before
  std::map<Place, uint32_t> places_;
  std::map<Place, uint32_t> members_at_;  ///< by place; `written` counts the member that follows
};

}  // namespace

uint32_t NameRules::literal(std::string_view text) {
  if (const auto it = literals_.find(text); it != literals_.end()) return it->second;
  const uint32_t rule = builder_.add_rule("a name");
  literals_.emplace(text, rule);
  builder_.graph(rule).literal(RuleGraph::kStart, text, RuleGraph::kEnd);
  return rule;
}

uint32_t NameRules::member(std::string_view text, uint32_t value) {
  const auto [it, fresh] = members_.try_emplace({std::string(text), value}, 0);
  if (fresh) {
    it->second = builder_.add_rule("a member");
    RuleGraph& graph = builder_.graph(it->second);
    emit_colon(graph, graph.literal(RuleGraph::kStart, text), value);
  }
  return it->second;
}

bool emit_object(GrammarBuilder& builder, NameRules& names, uint32_t rule, uint32_t space,
                 const ObjectMembers& members) {
  return ObjectGraph(builder, names, rule, space, members).emit();
}

}  // namespace infer
