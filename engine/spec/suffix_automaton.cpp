#include "engine/spec/suffix_automaton.h"

#include <algorithm>
#include <utility>

namespace infer {
namespace {

/// Suffixes whose latest occurrence is noted for each token: bounds its time; the shorter ones are
/// rarely asked for.
constexpr int kNotedSuffixes = 16;
constexpr size_t kFirstTable = 64;

/// Grows by a quarter: doubling would leave up to half of the memory unused.
template <typename T>
void append(std::vector<T>& to, const T& value) {
  if (to.size() == to.capacity()) to.reserve(to.size() + to.size() / 4 + 16);
  to.push_back(value);
}

template <typename T>
int64_t bytes_of(const std::vector<T>& v) {
  return static_cast<int64_t>(v.capacity() * sizeof(T));
}

}  // namespace

SuffixAutomaton::SuffixAutomaton() { append(states_, State{}); }

void SuffixAutomaton::clear() {
  states_.resize(1);
  states_.front() = State{};
  text_.clear();
  further_.clear();
  table_.clear();
  states_.shrink_to_fit();
  text_.shrink_to_fit();
  further_.shrink_to_fit();
  table_.shrink_to_fit();
  last_ = 0;
  steps_ = 0;
}

void SuffixAutomaton::extend(int32_t token) {
  if (token != kBorder) note_end();
  const auto size = static_cast<int32_t>(text_.size());
  const int32_t added = add_state({.length = size + 1, .link = 0, .end = size + 1});
  int32_t parent = last_;
  int32_t child = kNone;
  while (parent != kNone && (child = next(parent, token)) == kNone) {
    add_transition(parent, token, added);
    parent = at(parent).link;
  }
  if (parent != kNone) {
    const bool whole = at(child).length == at(parent).length + 1;
    const int32_t link = whole ? child : split(parent, child, token);
    at(added).link = link;
  }
  last_ = added;
  append(text_, token);
}

/// The suffixes of the text have now occurred at its end. Noted only when something follows there,
/// so that what they are followed by can be told.
void SuffixAutomaton::note_end() {
  const auto size = static_cast<int32_t>(text_.size());
  int32_t state = at(last_).link;
  for (int i = 0; i < kNotedSuffixes && state > 0; ++i, state = at(state).link) {
    at(state).end = size;
    ++steps_;
  }
}

/// Those strings of `child` that are one of `parent` and the token now end at one position more
/// than its others: they get a state of their own.
int32_t SuffixAutomaton::split(int32_t parent, int32_t child, int32_t token) {
  const State old = at(child);
  const int32_t made =
      add_state({.length = at(parent).length + 1, .link = old.link, .end = old.end});
  if (old.next != kNone) add_transition(made, old.token, old.next);
  for (int32_t i = old.further; i != kNone;) {
    const Transition transition = further_[static_cast<size_t>(i)];
    add_transition(made, transition.token, transition.next);
    i = transition.further;
  }
  at(child).link = made;
  for (; parent != kNone && next(parent, token) == child; parent = at(parent).link) {
    change_transition(parent, token, made);
  }
  return made;
}

int32_t SuffixAutomaton::add_state(const State& state) {
  append(states_, state);
  ++steps_;
  return static_cast<int32_t>(states_.size() - 1);
}

SuffixAutomaton::Match SuffixAutomaton::repeated() const {
  if (last_ == 0) return {};
  const State& state = at(at(last_).link);
  return {state.length, state.end};
}

void SuffixAutomaton::advance(Cursor& cursor, int32_t token) const {
  settle(cursor);
  int32_t found = kNone;
  while ((found = token < 0 ? kNone : next(cursor.state, token)) == kNone) {
    if (cursor.state == 0) return;
    shorten(cursor);
  }
  cursor.state = found;
  ++cursor.length;
}

SuffixAutomaton::Match SuffixAutomaton::match(const Cursor& cursor) const {
  Cursor settled = cursor;
  settle(settled);
  return {settled.length, at(settled.state).end};
}

void SuffixAutomaton::shorten(Cursor& cursor) const {
  settle(cursor);
  cursor.state = at(cursor.state).link;
  cursor.length = at(cursor.state).length;
}

/// States may have been split since.
void SuffixAutomaton::settle(Cursor& cursor) const {
  while (cursor.state != 0 && at(at(cursor.state).link).length >= cursor.length) {
    cursor.state = at(cursor.state).link;
  }
}

int64_t SuffixAutomaton::bytes() const {
  return bytes_of(text_) + bytes_of(states_) + bytes_of(further_) + bytes_of(table_);
}

/// Where a transition that is not the first of its state stands in the table, or would be put.
size_t SuffixAutomaton::place(int32_t state, int32_t token) const {
  const auto key = static_cast<uint64_t>(static_cast<uint32_t>(state)) << 32 |
                   static_cast<uint64_t>(static_cast<uint32_t>(token));
  uint64_t hash = key * 0x9e3779b97f4a7c15u;
  hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15u;
  const size_t mask = table_.size() - 1;
  for (size_t i = hash >> 32 & mask;; i = (i + 1) & mask) {
    if (table_[i] == kNone) return i;
    const Transition& t = further_[static_cast<size_t>(table_[i])];
    if (t.state == state && t.token == token) return i;
  }
}

int32_t SuffixAutomaton::next(int32_t state, int32_t token) const {
  const State& from = at(state);
  if (from.token == token) return from.next;
  if (from.further == kNone) return kNone;
  const int32_t found = table_[place(state, token)];
  return found == kNone ? kNone : further_[static_cast<size_t>(found)].next;
}

void SuffixAutomaton::change_transition(int32_t state, int32_t token, int32_t next) {
  ++steps_;
  State& from = at(state);
  if (from.token == token) {
    from.next = next;
  } else {
    further_[static_cast<size_t>(table_[place(state, token)])].next = next;
  }
}

/// There must be none yet.
void SuffixAutomaton::add_transition(int32_t state, int32_t token, int32_t next) {
  ++steps_;
  State& from = at(state);
  if (from.next == kNone) {
    from.token = token;
    from.next = next;
    return;
  }
  append(further_, {state, token, next, from.further});
  from.further = static_cast<int32_t>(further_.size() - 1);
  if (2 * further_.size() <= table_.size()) {
    enter(from.further);
    return;
  }
  table_.assign(std::max(kFirstTable, 2 * table_.size()), kNone);
  for (int32_t i = 0; std::cmp_less(i, further_.size()); ++i) enter(i);
}

void SuffixAutomaton::enter(int32_t transition) {
  const Transition& t = further_[static_cast<size_t>(transition)];
  table_[place(t.state, t.token)] = transition;
  ++steps_;
}

}  // namespace infer
