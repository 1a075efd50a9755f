// Every substring of a growing text, in memory and time linear in it: the smallest automaton that
// recognises its suffixes, built online (Blumer, Blumer, Haussler, Ehrenfeucht, Chen and Seiferas,
// "The smallest automaton recognizing the subwords of a text", TCS 40, 1985).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace infer {

/// Tokens are ≥ 0, or kBorder; a text has fewer than 2^30 of them. Time for a token: amortised
/// constant, whatever the size of the alphabet. Memory for n tokens: at most 2n states of 24 bytes,
/// n transitions beyond the first of a state, of 16 bytes and 16 in the table that finds them, and
/// the text, 4; with room to grow into less than 101 n bytes. Texts with Zipf's frequencies and
/// some repetition were measured at 60 to 70 n. extend() may throw std::bad_alloc; then only
/// clear() makes the automaton usable again. Not thread-safe.
class SuffixAutomaton {
 public:
  /// A separator between texts. No text that a cursor reads contains it, so no match crosses one.
  static constexpr int32_t kBorder = -1;
  /// Bytes for n tokens: less than (n + kFirstTokens) · kTokenBytes. While it grows, for a moment
  /// n · kGrowingBytes more.
  static constexpr int64_t kTokenBytes = 101;
  static constexpr int64_t kFirstTokens = 16;
  static constexpr int64_t kGrowingBytes = 48;

  /// text()[end − length, end).
  struct Match {
    int64_t length = 0;
    int64_t end = 0;
  };

  /// The longest suffix of another text that occurs in this one. By default no token has been read.
  /// A cursor stays valid while the automaton grows, but does not notice a longer suffix that
  /// occurs since then.
  struct Cursor {
    int32_t state = 0;
    int32_t length = 0;
  };

  SuffixAutomaton();

  void extend(int32_t token);
  /// Empties the automaton and frees its memory. Cannot fail. Cursors become invalid.
  void clear();

  std::span<const int32_t> text() const { return text_; }
  /// The longest suffix of the text that occurred earlier in it (the two may overlap), and an
  /// earlier occurrence. Usually that is the latest one. But if the text has many repeated
  /// suffixes, only the longest 16 of each position are tracked; of suffixes that occur equally
  /// often, only the longest one.
  Match repeated() const;

  /// Reads the next token of the cursor's text. Amortised constant time.
  void advance(Cursor& cursor, int32_t token) const;
  /// The suffix of the cursor and an occurrence of it, the latest as for repeated(). An occurrence
  /// before a border or at the end of the text is returned only if there is no other.
  Match match(const Cursor& cursor) const;
  /// Shortens the cursor's suffix to the longest one that occurs more often. It must not be empty.
  void shorten(Cursor& cursor) const;

  /// Memory held.
  int64_t bytes() const;
  int64_t states() const { return static_cast<int64_t>(states_.size()); }
  /// States, links and transitions that extend() has made or changed: a measure of its time.
  int64_t steps() const { return steps_; }

 private:
  static constexpr int32_t kNone = -1;

  /// The strings that end at the same positions: the longest one and its suffixes, except those of
  /// the state `link`.
  struct State {
    int32_t length = 0;  ///< of its longest string
    int32_t link =
        kNone;  ///< state of the longest suffix that ends elsewhere too; kNone of the empty one
    int32_t end = 0;  ///< position just after an occurrence
    // Nearly every state has one transition, hence the first is here.
    int32_t token = kNone;
    int32_t next = kNone;     ///< kNone where there is no transition
    int32_t further = kNone;  ///< further transitions: the newest of them in further_
  };
  struct Transition {
    int32_t state;  ///< from this
    int32_t token;
    int32_t next;     ///< to this
    int32_t further;  ///< another one of `state`
  };

  State& at(int32_t state) { return states_[static_cast<size_t>(state)]; }
  const State& at(int32_t state) const { return states_[static_cast<size_t>(state)]; }
  size_t place(int32_t state, int32_t token) const;
  /// kNone if there is none.
  int32_t next(int32_t state, int32_t token) const;
  void change_transition(int32_t state, int32_t token, int32_t next);
  void add_transition(int32_t state, int32_t token, int32_t next);
  void enter(int32_t transition);
  int32_t add_state(const State& state);
  int32_t split(int32_t parent, int32_t child, int32_t token);
  void note_end();
  void settle(Cursor& cursor) const;

  std::vector<int32_t> text_;
  std::vector<State> states_;  ///< the first stands for the empty string
  std::vector<Transition> further_;
  std::vector<int32_t> table_;  ///< open addressing by state and token: index in further_, or kNone
  int32_t last_ = 0;            ///< stands for the whole text
  int64_t steps_ = 0;
};

}  // namespace infer
