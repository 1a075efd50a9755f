#include "engine/sample/grammar/json_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <compare>
#include <map>

namespace infer {
namespace {

constexpr int64_t kMaxDecimalDigits = 400;
/// Nodes of one number.
constexpr size_t kMaxNumberNodes = 50'000;

void hex_digits(RuleGraph& graph, uint32_t from, int count, uint32_t to) {
  for (; count > 0; --count) {
    const uint32_t next = count == 1 ? to : graph.node();
    graph.bytes(from, '0', '9', next);
    graph.bytes(from, 'a', 'f', next);
    graph.bytes(from, 'A', 'F', next);
    from = next;
  }
}

void letter(RuleGraph& graph, uint32_t from, char first, char last, uint32_t to) {
  const auto upper = [](char c) { return static_cast<uint8_t>(c & ~0x20); };
  graph.bytes(from, static_cast<uint8_t>(first), static_cast<uint8_t>(last), to);
  graph.bytes(from, upper(first), upper(last), to);
}

/// XXXX behind \u: any character up to U+FFFF, or a pair of surrogates.
void emit_code(RuleGraph& graph, uint32_t from, uint32_t to) {
  const uint32_t rest = graph.node();
  graph.bytes(from, '0', '9', rest);
  letter(graph, from, 'a', 'c', rest);
  letter(graph, from, 'e', 'f', rest);
  hex_digits(graph, rest, 3, to);
  const uint32_t d = graph.node();
  letter(graph, from, 'd', 'd', d);
  const uint32_t below = graph.node();
  graph.bytes(d, '0', '7', below);
  hex_digits(graph, below, 2, to);
  const uint32_t high = graph.node();
  graph.bytes(d, '8', '9', high);
  letter(graph, d, 'a', 'b', high);
  const uint32_t low = graph.node();
  hex_digits(graph, high, 2, low);
  const uint32_t second = graph.node();
  const uint32_t second_d = graph.literal(low, "\\u");
  letter(graph, second_d, 'd', 'd', second);
  const uint32_t last = graph.node();
  letter(graph, second, 'c', 'f', last);
  hex_digits(graph, last, 2, to);
}

const CodePointSet& plain_characters() {
  static const CodePointSet kPlain =
      CodePointSet({{0, 0x1f}, {'"', '"'}, {'\\', '\\'}}).complement();
  return kPlain;
}

struct Escape {
  char32_t code;
  char letter;
};
constexpr Escape kShort[] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                             {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};

/// Characters of sets, escaped where they have to be. What is alike behind the first byte is there
/// once.
class NeededEscapes {
 public:
  explicit NeededEscapes(RuleGraph& graph) : graph_(graph) {}

  void emit(uint32_t from, const CodePointSet& set, uint32_t to) {
    graph_.characters(from, set.intersected(plain_characters()), to, &rests_);
    const CodePointSet escaped = set.intersected(plain_characters().complement());
    if (escaped.empty()) return;
    std::pair<std::vector<char32_t>, uint32_t> key{{}, to};
    for (const CodePointRange& r : escaped.ranges()) {
      for (char32_t c = r.first; c <= r.last; ++c) key.first.push_back(c);
    }
    const auto [it, fresh] = slashes_.try_emplace(std::move(key), 0);
    if (fresh) it->second = graph_.node();
    graph_.byte(from, '\\', it->second);
    if (!fresh) return;
    for (const char32_t c : it->first.first) emit_escape(it->second, c, to);
  }

 private:
  void emit_escape(uint32_t slash, char32_t c, uint32_t to) {
    const auto* short_form = std::ranges::find(kShort, c, &Escape::code);
    if (short_form != std::end(kShort)) graph_.byte(slash, short_form->letter, to);
    if (c >= 0x20) return;
    const uint32_t nibble = graph_.literal(slash, c < 0x10 ? "u000" : "u001");
    const char* digit = "0123456789abcdef";
    graph_.byte(nibble, digit[c & 15], to);
    if ((c & 15) >= 10) graph_.byte(nibble, static_cast<char>(digit[c & 15] & ~0x20), to);
  }

  RuleGraph& graph_;
  RuleGraph::CharacterRests rests_;
  std::map<std::pair<std::vector<char32_t>, uint32_t>, uint32_t> slashes_;
};

int compare_digits(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  const int order = a.compare(b);
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

int compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (const int order = compare_digits(a.whole, b.whole); order != 0) return order;
  const int order = a.fraction.compare(b.fraction);
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

/// Magnitudes between two bounds, digit by digit: how what has been written compares with each.
class MagnitudeGraph {
 public:
  MagnitudeGraph(RuleGraph& graph, uint32_t to, const NumberSpec& spec,
                 const NumberSpec::Bound& low, const std::optional<NumberSpec::Bound>& high)
      : graph_(graph), to_(to), spec_(spec), low_(low), high_(high) {
    if (spec.fractions || spec.multiple_of != 1) return;
    size_t most = std::max<size_t>(kMaxWholeDigits, low.value.whole.size());
    if (high) most = std::max(most, high->value.whole.size());
    most_digits_ = static_cast<uint32_t>(std::min<size_t>(most, kMaxBoundDigits));
  }

  bool emit(uint32_t from) {
    if (low_.value.whole.size() > most_digits_ || spec_.multiple_of > kMaxNumberNodes) return false;
    ids_.emplace(Key{}, from);
    pending_.push_back({Key{}, from});
    while (!pending_.empty()) {
      if (ids_.size() > kMaxNumberNodes) return false;
      const auto [key, node] = pending_.back();
      pending_.pop_back();
      expand(key, node);
    }
    return true;
  }

 private:
  struct Key {
    uint8_t whole = 0;     ///< digits before the point
    uint8_t fraction = 0;  ///< and after it
    bool zero = false;     ///< the part before the point is 0
    bool point = false;
    bool fractional =
        false;  ///< a digit after the point is not 0; only where integers are not allowed
    int8_t low = 0, high = 0;  ///< as of the digits so far, equally many of both
    uint32_t rest = 0;         ///< modulo multiple_of
    auto operator<=>(const Key&) const = default;
  };

  uint32_t node_of(const Key& key) {
    const auto [it, fresh] = ids_.try_emplace(key, 0);
    if (fresh) {
      it->second = graph_.node();
      pending_.push_back({key, it->second});
    }
    return it->second;
  }

  static int8_t after_digit(int8_t order, char digit, const std::string& bound, size_t at) {
    if (order != 0) return order;
    const char other = at < bound.size() ? bound[at] : '0';
    return static_cast<int8_t>(digit < other ? -1 : digit > other ? 1 : 0);
  }
  /// How the part before the point, which is complete, compares.
  static int8_t whole_order(const Key& key, int8_t order, const Decimal& bound) {
    if (key.whole == bound.whole.size()) return order;
    return key.whole < bound.whole.size() ? -1 : 1;
  }
  int order_at_end(const Key& key, int8_t order, const Decimal& bound) const {
    if (!key.point) order = whole_order(key, order, bound);
    return order == 0 && key.fraction < bound.fraction.size() ? -1 : order;
  }

  bool may_end(const Key& key) const {
    if (key.whole == 0 || (key.point && key.fraction == 0) || key.rest != 0) return false;
    if (!spec_.integers && !key.fractional) return false;
    const int low = order_at_end(key, key.low, low_.value);
    if (low < 0 || (low == 0 && low_.exclusive)) return false;
    if (!high_) return true;
    const int high = order_at_end(key, key.high, high_->value);
    return high < 0 || (high == 0 && !high_->exclusive);
  }

  void expand(const Key& key, uint32_t node) {
    if (may_end(key)) graph_.epsilon(node, to_);
    if (!key.point && key.whole > 0 && spec_.fractions && spec_.multiple_of == 1 &&
        key.whole < kMaxBoundedDigits) {
      Key next = key;
      next.point = true;
      next.low = whole_order(key, key.low, low_.value);
      if (high_) next.high = whole_order(key, key.high, high_->value);
      graph_.byte(node, '.', node_of(next));
    }
    if (uint32_t{key.whole} + key.fraction >= most_digits_ || (key.zero && !key.point)) return;
    for (char digit = '0'; digit <= '9'; ++digit) {
      Key next = key;
      if (key.point) {
        next.low = after_digit(key.low, digit, low_.value.fraction, key.fraction);
        if (high_) next.high = after_digit(key.high, digit, high_->value.fraction, key.fraction);
        next.fractional = key.fractional || (!spec_.integers && digit != '0');
        ++next.fraction;
      } else {
        next.low = after_digit(key.low, digit, low_.value.whole, key.whole);
        if (high_) next.high = after_digit(key.high, digit, high_->value.whole, key.whole);
        next.zero = key.whole == 0 && digit == '0';
        next.rest = static_cast<uint32_t>(
            (uint64_t{key.rest} * 10 + static_cast<uint64_t>(digit - '0')) % spec_.multiple_of);
        ++next.whole;
      }
      graph_.byte(node, digit, node_of(next));
    }
  }

  RuleGraph& graph_;
  uint32_t to_;
  const NumberSpec& spec_;
  const NumberSpec::Bound& low_;
  const std::optional<NumberSpec::Bound>& high_;
  uint32_t most_digits_ = kMaxBoundedDigits;
  std::map<Key, uint32_t> ids_;
  std::vector<std::pair<Key, uint32_t>> pending_;
};

/// Up to `most` digits, at least one.
void emit_digits(RuleGraph& graph, uint32_t from, uint32_t most, uint32_t to) {
  for (uint32_t i = 0; i < most; ++i) {
    const uint32_t next = graph.node();
    graph.bytes(from, '0', '9', next);
    graph.epsilon(next, to);
    from = next;
  }
}

void emit_any_number(RuleGraph& graph, uint32_t from, bool fractions, uint32_t to) {
  const uint32_t sign = graph.node();
  graph.byte(from, '-', sign);
  graph.epsilon(from, sign);
  const uint32_t whole = graph.node();
  graph.byte(sign, '0', whole);
  const uint32_t first = graph.node();
  graph.bytes(sign, '1', '9', first);
  graph.epsilon(first, whole);
  emit_digits(graph, first, kMaxWholeDigits - 1, whole);
  graph.epsilon(whole, to);
  if (!fractions) return;
  const uint32_t point = graph.node();
  const uint32_t fraction = graph.node();
  graph.byte(whole, '.', point);
  emit_digits(graph, point, kMaxFractionDigits, fraction);
  graph.epsilon(fraction, to);
  // Two digits keep the value within a double's range.
  const uint32_t exponent = graph.node();
  const uint32_t digits = graph.node();
  for (const uint32_t before : {whole, fraction}) {
    graph.byte(before, 'e', exponent);
    graph.byte(before, 'E', exponent);
  }
  graph.byte(exponent, '+', digits);
  graph.byte(exponent, '-', digits);
  graph.epsilon(exponent, digits);
  emit_digits(graph, digits, 2, to);
}

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view text) {
  Decimal out;
  if (text.starts_with('-')) {
    out.negative = true;
    text.remove_prefix(1);
  }
  int64_t exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != std::string_view::npos) {
    std::string_view digits = text.substr(e + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), exponent).ec != std::errc()) {
      return std::nullopt;
    }
    text = text.substr(0, e);
  }
  const size_t point = text.find('.');
  std::string digits(text.substr(0, point));
  auto whole = static_cast<int64_t>(digits.size());
  if (point != std::string_view::npos) digits += text.substr(point + 1);
  whole += exponent;
  if (whole > kMaxDecimalDigits || whole < -kMaxDecimalDigits) return std::nullopt;
  if (whole <= 0) {
    digits.insert(0, static_cast<size_t>(1 - whole), '0');
    whole = 1;
  }
  if (static_cast<size_t>(whole) > digits.size()) digits.resize(static_cast<size_t>(whole), '0');
  out.whole = digits.substr(0, static_cast<size_t>(whole));
  out.fraction = digits.substr(static_cast<size_t>(whole));
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size() - 1));
  while (out.fraction.ends_with('0')) out.fraction.pop_back();
  if (out.is_zero()) out.negative = false;
  return out;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int order = compare_magnitudes(a, b);
  return a.negative ? -order : order;
}

bool emit_number(RuleGraph& graph, uint32_t from, const NumberSpec& spec, uint32_t to) {
  if (!spec.lower && !spec.upper && spec.multiple_of == 1 && spec.integers) {
    emit_any_number(graph, from, spec.fractions, to);
    return true;
  }
  const NumberSpec::Bound zero;
  const auto magnitude = [](const NumberSpec::Bound& b) {
    NumberSpec::Bound out = b;
    out.value.negative = false;
    return out;
  };
  // A bound on the other side of zero leaves all magnitudes from zero on.
  const bool lower_negative = !spec.lower || spec.lower->value.negative;
  const bool upper_negative = spec.upper && spec.upper->value.negative;
  if (!upper_negative) {
    const NumberSpec::Bound low = lower_negative ? zero : *spec.lower;
    const uint32_t begin = graph.node();
    graph.epsilon(from, begin);
    if (!MagnitudeGraph(graph, to, spec, low, spec.upper).emit(begin)) return false;
  }
  if (lower_negative) {
    const bool upper_zero = spec.upper && spec.upper->value.is_zero();
    const NumberSpec::Bound low = upper_negative || upper_zero ? magnitude(*spec.upper) : zero;
    std::optional<NumberSpec::Bound> high;
    if (spec.lower) high = magnitude(*spec.lower);
    const uint32_t begin = graph.node();
    graph.byte(from, '-', begin);
    if (!MagnitudeGraph(graph, to, spec, low, high).emit(begin)) return false;
  }
  return true;
}

void emit_character(RuleGraph& graph, uint32_t from, uint32_t to) {
  graph.characters(from, plain_characters(), to);
  const uint32_t slash = graph.node();
  graph.byte(from, '\\', slash);
  for (const char c : std::string_view("\"\\/bfnrt")) graph.byte(slash, c, to);
  const uint32_t code = graph.node();
  graph.byte(slash, 'u', code);
  emit_code(graph, code, to);
}

void emit_characters(RuleGraph& graph, uint32_t from, const std::vector<CharDfa::Edge>& edges,
                     uint32_t to) {
  std::vector<CodePointRange> ranges;
  for (const CharDfa::Edge& e : edges) ranges.push_back({e.first, e.last});
  NeededEscapes(graph).emit(from, CodePointSet(std::move(ranges)), to);
}

void emit_string_body(RuleGraph& graph, uint32_t from, const CharDfa& characters, uint32_t to,
                      std::optional<StringLoop> loop) {
  NeededEscapes needed(graph);
  std::vector<uint32_t> nodes;
  for (size_t i = 0; i < characters.states().size(); ++i) nodes.push_back(graph.node());
  graph.epsilon(from, nodes[0]);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const CharDfa::State& state = characters.states()[i];
    if (loop && i == loop->state) {
      graph.call(nodes[i], loop->rule, to);
      continue;
    }
    if (state.is_final) graph.epsilon(nodes[i], to);
    std::map<uint32_t, std::vector<CodePointRange>> by_target;
    for (const CharDfa::Edge& e : state.edges) by_target[e.target].push_back({e.first, e.last});
    for (auto& [target, ranges] : by_target) {
      needed.emit(nodes[i], CodePointSet(std::move(ranges)), nodes[target]);
    }
  }
}

void emit_colon(RuleGraph& graph, uint32_t from, uint32_t value) {
  const uint32_t colon = graph.literal(from, ":");
  graph.call(graph.literal(colon, " "), value, RuleGraph::kEnd);
  graph.call(colon, value, RuleGraph::kEnd);
}

void emit_white_space(RuleGraph& graph, uint32_t from, uint32_t to) {
  graph.epsilon(from, to);
  graph.byte(from, ' ', to);
  uint32_t at = graph.node();
  graph.byte(from, '\n', at);
  for (uint32_t i = 0; i < kMaxIndent; ++i) {
    graph.epsilon(at, to);
    const uint32_t next = graph.node();
    graph.byte(at, ' ', next);
    at = next;
  }
  graph.epsilon(at, to);
}

}  // namespace infer
