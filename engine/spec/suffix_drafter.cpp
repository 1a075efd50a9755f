#include "engine/spec/suffix_drafter.h"

#include <algorithm>
#include <new>
#include <utility>

#include "engine/spec/match.h"

namespace infer {
namespace {

/// Tokens of a history that are read again when what was learnt has changed: longer matches than
/// this are seen only as they grow.
constexpr size_t kTokensReadAgain = 64;
/// Calls of propose() after which a sequence that none of them was about may lose its automaton.
constexpr int64_t kIdle = 64;

}  // namespace

Status SuffixDrafter::propose(std::span<DraftRequest* const> requests) {
  ++clock_;
  for (DraftRequest* const request : requests) {
    try {
      Sequence& sequence = sequences_[request->id];
      read(sequence, request->history);
      copy(sequence, *request);
    } catch (const std::bad_alloc&) {
      forget(request->id);
      return error(StatusCode::out_of_memory, "no memory to draft from {} tokens",
                   request->history.size());
    }
  }
  return {};
}

/// Whether the sequence may have so many tokens. Takes the room of idle sequences if need be.
bool SuffixDrafter::make_room(Sequence& sequence, int64_t tokens) {
  while (charged_ - sequence.charged + charge(tokens) > most_tokens_) {
    Sequence* idle = nullptr;
    for (auto& [id, other] : sequences_) {
      if (other.charged == 0 || clock_ - other.last_use < kIdle) continue;
      if (idle == nullptr || other.last_use < idle->last_use) idle = &other;
    }
    if (idle == nullptr) return false;
    clear(*idle);
  }
  charged_ += charge(tokens) - sequence.charged;
  sequence.charged = charge(tokens);
  return true;
}

void SuffixDrafter::clear(Sequence& sequence) {
  sequence.own.clear();
  sequence.learnt = -1;  // the whole history is read again: by the other cursors, too
  charged_ -= std::exchange(sequence.charged, 0);
}

void SuffixDrafter::forget(int64_t id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  charged_ -= found->second.charged;
  sequences_.erase(found);
}

void SuffixDrafter::read(Sequence& sequence, std::span<const int32_t> history) {
  sequence.last_use = clock_;
  const std::span<const int32_t> known = sequence.own.text();
  if (known.size() > history.size() || !std::equal(known.begin(), known.end(), history.begin())) {
    sequence.own.clear();
    sequence.learnt = -1;
  }
  size_t unread = history.size() - sequence.own.text().size();
  if (make_room(sequence, std::ssize(history))) {
    for (const int32_t token : history.last(unread)) sequence.own.extend(token);
  } else {
    clear(sequence);
    unread = history.size();
  }

  if (sequence.learnt != learnt_ || unread > kTokensReadAgain) {
    sequence.earlier = {};
    sequence.learnt = learnt_;
    unread = std::min(history.size(), kTokensReadAgain);
  }
  for (size_t i = 0; i < earlier_.size(); ++i) {
    for (const int32_t token : history.last(unread)) {
      earlier_[i].advance(sequence.earlier[i], token);
    }
  }
}

void SuffixDrafter::copy(const Sequence& sequence, DraftRequest& request) const {
  request.tokens.clear();
  std::span<const int32_t> text = sequence.own.text();
  SuffixAutomaton::Match best = sequence.own.repeated();
  for (size_t i = 0; i < earlier_.size(); ++i) {
    const SuffixAutomaton& earlier = earlier_[i];
    SuffixAutomaton::Cursor cursor = sequence.earlier[i];
    SuffixAutomaton::Match match = earlier.match(cursor);
    // What ends where a text ended has nothing after it: less of it may.
    while (match.length > best.length &&
           earlier.text()[static_cast<size_t>(match.end)] == SuffixAutomaton::kBorder) {
      earlier.shorten(cursor);
      match = earlier.match(cursor);
    }
    if (match.length > best.length) {
      best = match;
      text = earlier.text();
    }
  }
  if (best.length < kShortestMatch) return;
  const bool own = text.data() == sequence.own.text().data();
  propose_copy(text, best.end, best.length, own, request);
}

void SuffixDrafter::learn(int64_t /*id*/, std::span<const int32_t> history, int64_t from) {
  const auto begin = static_cast<size_t>(std::clamp<int64_t>(from, 0, std::ssize(history)));
  const std::span<const int32_t> all = history.subspan(begin);
  const std::span<const int32_t> made =
      all.last(std::min(all.size(), static_cast<size_t>(kEarlierTokens) - 1));
  if (std::ssize(made) <= kShortestMatch) return;
  ++learnt_;
  try {
    if (std::ssize(earlier_[0].text()) + std::ssize(made) + 1 > kEarlierTokens) {
      std::swap(earlier_[0], earlier_[1]);
      earlier_[0].clear();
    }
    for (const int32_t token : made) earlier_[0].extend(token);
    earlier_[0].extend(SuffixAutomaton::kBorder);
  } catch (const std::bad_alloc&) {
    unlearn();
  }
}

void SuffixDrafter::unlearn() {
  ++learnt_;
  for (SuffixAutomaton& earlier : earlier_) earlier.clear();
}

int64_t SuffixDrafter::bytes() const {
  int64_t bytes = 0;
  for (const auto& [id, sequence] : sequences_) bytes += sequence.own.bytes();
  for (const SuffixAutomaton& earlier : earlier_) bytes += earlier.bytes();
  return bytes;
}

}  // namespace infer
