// Sets of strings as deterministic automata over characters. Patterns, lengths, formats and lists
// of names are combined in this form before they become rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/status.h"
#include "engine/sample/grammar/code_points.h"

namespace infer {

/// Most states of an automaton.
inline constexpr size_t kMaxCharStates = 5000;

/// The work allowed for automata, in steps of some tens of nanoseconds. Automata of one schema
/// share one object, so that their total work is bounded.
struct CharWork {
  int64_t left = 8'000'000;
};

/// State 0 is the start. A character that no edge of the state reads is not in the set.
class CharDfa {
 public:
  struct Edge {
    char32_t first, last;
    uint32_t target;
  };
  struct State {
    std::vector<Edge> edges;  ///< sorted, disjoint
    bool is_final = false;
  };

  /// Every string.
  static CharDfa all();
  /// The strings of `min` to `max` characters (kNoMaximum: any number of them).
  static constexpr uint32_t kNoMaximum = UINT32_MAX;
  static Result<CharDfa> of_length(uint32_t min, uint32_t max);
  /// Exactly these strings, which are valid UTF-8.
  static CharDfa of(const std::vector<std::string_view>& strings);

  const std::vector<State>& states() const { return states_; }
  bool matches(std::string_view text) const;
  /// Whether no string is in the set.
  bool empty() const;
  /// The least and the greatest length of its strings, in characters; kNoMaximum: there is no
  /// greatest. Of a set that is trimmed and not empty.
  struct Lengths {
    uint32_t least = 0, most = 0;
  };
  Lengths lengths() const;
  /// Of a trimmed set: strings of `prefix` characters, then any number of characters of one class.
  struct Loop {
    uint32_t state;   ///< the one with the loop, which is the only final one
    uint32_t prefix;  ///< length of every text that leads there
  };
  std::optional<Loop> loop() const;

  CharDfa complement() const;
  /// Errors of these two: unsupported if a limit is exceeded.
  Result<CharDfa> intersected(const CharDfa& other, CharWork& work) const;
  Result<CharDfa> united(const CharDfa& other, CharWork& work) const;
  /// The same set with the fewest states. Error: unsupported if the work is too much.
  Result<CharDfa> minimal(CharWork& work) const;
  /// The same set, without states that lead to no final state.
  CharDfa trimmed() const;

 private:
  friend class CharNfa;
  Result<CharDfa> product(const CharDfa& other, bool both, CharWork& work) const;

  std::vector<State> states_;
};

/// A nondeterministic automaton with the assertions ^ and $, for building patterns. Node 0 is the
/// start, node 1 the end.
class CharNfa {
 public:
  static constexpr uint32_t kStart = 0;
  static constexpr uint32_t kEnd = 1;
  static constexpr uint32_t kMaxNodes = 50'000;

  enum class When : uint8_t { always, at_begin, at_end };

  uint32_t node() {
    nodes_.emplace_back();
    return static_cast<uint32_t>(nodes_.size() - 1);
  }
  void empty_move(uint32_t from, uint32_t to, When when = When::always) {
    nodes_[from].empties.push_back({to, when});
  }
  void read(uint32_t from, const CodePointSet& set, uint32_t to) {
    nodes_[from].reads.push_back({set, to});
  }
  bool too_large() const { return nodes_.size() > kMaxNodes; }

  /// The strings that match as a whole, or, with `anywhere`, those with a part that matches.
  Result<CharDfa> determinise(bool anywhere, CharWork& work) const;

 private:
  struct Empty {
    uint32_t to;
    When when;
  };
  struct Read {
    CodePointSet set;
    uint32_t to;
  };
  struct Node {
    std::vector<Empty> empties;
    std::vector<Read> reads;
  };
  std::vector<Node> nodes_{2};
};

}  // namespace infer
