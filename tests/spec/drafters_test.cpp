// The drafters that look for earlier occurrences.
#include <doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "engine/spec/match.h"
#include "engine/spec/ngram_drafter.h"
#include "engine/spec/suffix_drafter.h"

using namespace infer;

namespace {

using Tokens = std::vector<int32_t>;

std::vector<DraftToken> draft(Drafter& drafter, const Tokens& history, int64_t most = 1000,
                              int64_t id = 1) {
  DraftRequest request;
  request.id = id;
  request.history = history;
  request.most = most;
  request.tokens = {{7, 7}};  // of an earlier call
  DraftRequest* const requests[] = {&request};
  REQUIRE(drafter.propose(requests).ok());
  return request.tokens;
}

Tokens tokens_of(const std::vector<DraftToken>& proposal) {
  Tokens tokens;
  for (const DraftToken& token : proposal) tokens.push_back(token.token);
  return tokens;
}

/// from, from + 1, …, to − 1.
Tokens range(int32_t from, int32_t to) {
  Tokens tokens(static_cast<size_t>(to - from));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Tokens random_tokens(std::mt19937& random, size_t count, uint32_t alphabet) {
  Tokens tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % alphabet);
  return tokens;
}

int64_t common_suffix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin();
}

/// What follows text[0, end), at most `most` tokens; where the text is the history, its end is
/// followed by these themselves.
Tokens copied(Tokens text, size_t end, int64_t most, bool is_history) {
  Tokens tokens;
  for (size_t i = end; i < text.size() && std::ssize(tokens) < most; ++i) {
    tokens.push_back(text[i]);
    if (is_history) text.push_back(text[i]);
  }
  return tokens;
}

/// Whether the proposal follows in `text` what equals the last `length` tokens of the history, and
/// goes on as long as it may.
bool follows(const Tokens& text, const Tokens& history, int64_t length, const Tokens& proposal,
             int64_t most) {
  for (size_t end = 1; end < text.size(); ++end) {
    if (common_suffix(std::span(text).first(end), history) >= length &&
        proposal == copied(text, end, most, &text == &history)) {
      return true;
    }
  }
  return false;
}

/// The longest suffix of the history that occurs in `text` with something after it.
int64_t longest(const Tokens& text, const Tokens& history) {
  int64_t length = 0;
  for (size_t end = 1; end < text.size(); ++end) {
    length = std::max(length, common_suffix(std::span(text).first(end), history));
  }
  return length;
}

std::vector<std::unique_ptr<Drafter>> both() {
  std::vector<std::unique_ptr<Drafter>> drafters;
  drafters.push_back(std::make_unique<NgramDrafter>());
  drafters.push_back(std::make_unique<SuffixDrafter>(1 << 20, 4));
  return drafters;
}

}  // namespace

TEST_CASE("confidences tell the length of a match") {
  const Tokens lengths = {2, 3, 4, 5, 6, 7, 9, 10, 15, 16, 31, 32, 100000};
  Tokens confidences;
  for (const int32_t length : lengths) confidences.push_back(match_confidence(length));
  CHECK(confidences == Tokens{0, 1, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7});
}

TEST_CASE("what matches nothing is followed by nothing") {
  for (const auto& drafter : both()) {
    CAPTURE(drafter->name());
    CHECK(draft(*drafter, {1}).empty());
    CHECK(draft(*drafter, {1, 1}).empty());
    CHECK(draft(*drafter, range(0, 500)).empty());
    // One token is too little.
    CHECK(draft(*drafter, range(0, 500) + Tokens{5}).empty());
    CHECK(draft(*drafter, {}).empty());
  }
}

TEST_CASE("copying with an edit") {
  const Tokens original = range(0, 100);
  for (const auto& drafter : both()) {
    CAPTURE(drafter->name());
    Tokens history = original + Tokens{1000, 0};
    CHECK(draft(*drafter, history).empty());
    history.push_back(1);
    std::vector<DraftToken> proposal = draft(*drafter, history, 5);
    CHECK(tokens_of(proposal) == range(2, 7));
    CHECK(proposal[0].confidence == 0);
    CHECK(proposal[1].confidence == 1);
    CHECK(proposal[4].confidence == 3);
    history = history + range(2, 40);
    CHECK(tokens_of(draft(*drafter, history, 3)) == range(40, 43));
    // Something else than proposed; two tokens later the copy goes on.
    history.push_back(2000);
    CHECK(draft(*drafter, history).empty());
    history.push_back(41);
    CHECK(draft(*drafter, history).empty());
    history.push_back(42);
    CHECK(tokens_of(draft(*drafter, history, 4)) == range(43, 47));
    // Past the end of the text, as if it began to repeat itself there.
    const Tokens period = range(43, 100) + Tokens{1000} + range(0, 40) + Tokens{2000, 41, 42};
    CHECK(tokens_of(draft(*drafter, history, std::ssize(period))) == period);
    CHECK(tokens_of(draft(*drafter, history, 3 * std::ssize(period))) == period + period + period);
  }
}

TEST_CASE("the latest of equal matches, the longest of all") {
  for (const auto& drafter : both()) {
    CAPTURE(drafter->name());
    CHECK(tokens_of(draft(*drafter, {1, 2, 10, 1, 2, 11, 1, 2}, 1)) == Tokens{11});
    CHECK(tokens_of(draft(*drafter, {5, 1, 2, 10, 6, 1, 2, 11, 5, 1, 2}, 1)) == Tokens{10});
  }
}

TEST_CASE("prompt look-up equals a search") {
  std::mt19937 random(1);
  NgramDrafter drafter;
  for (int round = 0; round < 4000; ++round) {
    const Tokens history = random_tokens(random, 1 + random() % 300, 2 + random() % 30);
    const auto most = static_cast<int64_t>(1 + random() % 9);
    int64_t best = 1;
    size_t after = 0;
    for (size_t end = history.size() - 1; end > 0; --end) {
      const int64_t length =
          std::min<int64_t>(8, common_suffix(std::span(history).first(end), history));
      if (length > best) best = length, after = end;
    }
    const std::vector<DraftToken> proposal = draft(drafter, history, most);
    const Tokens expected = best < 2 ? Tokens() : copied(history, after, most, true);
    REQUIRE(tokens_of(proposal) == expected);
    for (size_t i = 0; i < proposal.size(); ++i) {
      REQUIRE(proposal[i].confidence == match_confidence(best + static_cast<int64_t>(i)));
    }
  }
}

TEST_CASE("prompt look-up sees a bounded part of the history") {
  NgramDrafter drafter;
  constexpr auto kLookBack = static_cast<int32_t>(NgramDrafter::kLookBack);
  const Tokens pair = {1, 2};
  CHECK(tokens_of(draft(drafter, pair + range(10, 10 + kLookBack - 4) + pair, 1)) == Tokens{10});
  CHECK(draft(drafter, pair + range(10, 10 + kLookBack - 3) + pair, 1).empty());
}

TEST_CASE("histories that are shortened, changed, and others") {
  // Every proposal is right whatever happened to the histories in between.
  std::mt19937 random(2);
  for (int round = 0; round < 20; ++round) {
    SuffixDrafter drafter(1 << 20, 4);
    std::map<int64_t, Tokens> histories;
    std::vector<Tokens> learnt;
    const uint32_t alphabet = 2 + random() % 20;
    for (int step = 0; step < 150; ++step) {
      const auto id = static_cast<int64_t>(random() % 3);
      Tokens& history = histories[id];
      switch (random() % 12) {
        case 0: history.resize(random() % (history.size() + 1)); break;
        case 1:
          if (!history.empty()) history[random() % history.size()] = 77;
          break;
        case 2: {  // the context is full
          const auto drop = static_cast<ptrdiff_t>(history.size() / 2);
          history.erase(history.begin() + drop / 4, history.begin() + drop);
          break;
        }
        case 3: {
          const size_t from = random() % (history.size() + 1);
          drafter.learn(id, history, static_cast<int64_t>(from));
          learnt.emplace_back(history.begin() + static_cast<ptrdiff_t>(from), history.end());
          break;
        }
        case 4: drafter.forget(id); break;
        default: history = history + random_tokens(random, random() % 20, alphabet);
      }
      if (history.empty()) continue;
      const auto most = static_cast<int64_t>(1 + random() % 9);
      const std::vector<DraftToken> proposal = draft(drafter, history, most, id);
      const int64_t own = longest(history, history);
      int64_t best = own;
      for (const Tokens& text : learnt) best = std::max(best, longest(text, history));
      if (best < 2) {
        REQUIRE(proposal.empty());
        continue;
      }
      REQUIRE(!proposal.empty());
      // What was learnt is looked for up to 64 tokens back, more than match here by chance; a
      // sequence that learns its own repetition may match more.
      const int64_t length = own == best ? own : std::min<int64_t>(best, 64);
      REQUIRE(proposal[0].confidence == match_confidence(length));
      const Tokens tokens = tokens_of(proposal);
      bool right = own == best && follows(history, history, own, tokens, most);
      for (const Tokens& text : learnt) {
        right = right || (own < best && follows(text, history, length, tokens, most));
      }
      REQUIRE(right);
    }
  }
}

TEST_CASE("what one sequence made serves another") {
  SuffixDrafter drafter(1 << 20, 4);
  const Tokens prompt = range(0, 20);
  const Tokens made = range(100, 200);
  CHECK(draft(drafter, prompt + made, 10, 1).empty());
  drafter.learn(1, prompt + made, 20);
  drafter.forget(1);

  // Not what it was asked.
  CHECK(draft(drafter, {900, 5, 6}, 10, 2).empty());
  CHECK(tokens_of(draft(drafter, {901, 150, 151}, 10, 3)) == range(152, 162));
  // Up to its end and not beyond.
  drafter.learn(4, range(300, 400), 0);
  CHECK(tokens_of(draft(drafter, {902, 190, 191}, 1000, 5)) == range(192, 200));
  CHECK(draft(drafter, {903, 198, 199}, 10, 6).empty());
  // Nor does a match reach over its end.
  CHECK(draft(drafter, {199, 300}, 10, 7).empty());
  CHECK(draft(drafter, {904, 199, 300, 301}, 1, 8)[0].confidence == 0);
  // A sequence's own text comes first, unless the other matches more.
  CHECK(tokens_of(draft(drafter, {150, 151, 7, 150, 151}, 1, 9)) == Tokens{7});
  CHECK(tokens_of(draft(drafter, {150, 151, 7, 149, 150, 151}, 1, 10)) == Tokens{152});
  // Seen by sequences that were there before.
  CHECK(draft(drafter, {500, 501}, 2, 11).empty());
  drafter.learn(12, range(490, 510), 0);
  CHECK(tokens_of(draft(drafter, {500, 501}, 2, 11)) == Tokens{502, 503});
  CHECK(tokens_of(draft(drafter, {500, 501, 502}, 2, 11)) == Tokens{503, 504});
  SuffixDrafter other(1 << 20, 4);
  other.learn(1, made, 0);
  CHECK(tokens_of(draft(other, {150, 151}, 1, 2)) == Tokens{152});
  other.unlearn();
  CHECK(draft(other, {150, 151}, 1, 2).empty());
  CHECK(draft(other, {150, 151, 152}, 1, 3).empty());
  // Where the longest match ended its text, a shorter one goes on.
  drafter.learn(13, Tokens{600, 601, 602, 603}, 0);
  drafter.learn(14, Tokens{605, 602, 603, 604}, 0);
  CHECK(tokens_of(draft(drafter, {600, 601, 602, 603}, 2, 15)) == Tokens{604});
}

TEST_CASE("several sequences in one call") {
  SuffixDrafter drafter(1 << 20, 4);
  const Tokens a = {1, 2, 3, 1, 2};
  const Tokens b = {1, 2, 4, 1, 2};
  DraftRequest first;
  first.id = 1;
  first.history = a;
  first.most = 1;
  DraftRequest second;
  second.id = 2;
  second.history = b;
  second.most = 1;
  DraftRequest* const requests[] = {&first, &second};
  REQUIRE(drafter.propose(requests).ok());
  CHECK(tokens_of(first.tokens) == Tokens{3});
  CHECK(tokens_of(second.tokens) == Tokens{4});
}

TEST_CASE("memory: sequences until they are forgotten, two generations of what was learnt") {
  SuffixDrafter drafter(1 << 20, 4);
  const int64_t empty = drafter.bytes();
  std::mt19937 random(3);
  const Tokens history = random_tokens(random, 20000, 50000);
  draft(drafter, history, 1, 1);
  const int64_t one = drafter.bytes();
  CHECK(one > empty + 20000 * 28);
  draft(drafter, history, 1, 2);
  CHECK(drafter.bytes() > 2 * one - empty - 1);
  drafter.forget(1);
  drafter.forget(3);
  CHECK(drafter.bytes() == one);
  drafter.forget(2);
  CHECK(drafter.bytes() == empty);

  constexpr int64_t kEarlier = SuffixDrafter::kEarlierTokens;
  constexpr int64_t kBound = 2 * 101 * kEarlier;
  const Tokens question = {100001, 100002};
  drafter.learn(1, question + Tokens{100003}, 0);
  CHECK(draft(drafter, question, 1, 1).size() == 1);
  // The first fits in beside that, the second makes it the older generation, the third drops it.
  const Tokens filling = random_tokens(random, static_cast<size_t>(kEarlier) - 10, 50000);
  for (int i = 0; i < 2; ++i) {
    drafter.learn(1, filling, 0);
    CHECK(draft(drafter, question, 1, 1).size() == 1);
    CHECK(drafter.bytes() < kBound);
  }
  drafter.learn(1, filling, 0);
  CHECK(draft(drafter, question, 1, 1).empty());
  CHECK(draft(drafter, {filling[10], filling[11], filling[12]}, 1, 1).size() == 1);
  CHECK(drafter.bytes() < kBound);
  // More than fits: its end.
  const Tokens more = random_tokens(random, static_cast<size_t>(kEarlier) + 100, 2);
  drafter.learn(1, question + Tokens{100003} + more, 0);
  CHECK(draft(drafter, question, 1, 1).empty());
  CHECK(drafter.bytes() < kBound);
}

TEST_CASE("memory: however many sequences there are, what was planned is not exceeded") {
  constexpr int64_t kLength = 3000;
  SuffixDrafter drafter(kLength, 2);
  constexpr int64_t kOwn = SuffixDrafter::most_bytes(kLength, 2) - SuffixDrafter::most_bytes(0, 0);
  std::mt19937 random(8);
  const Tokens half = random_tokens(random, kLength / 2, 50000);
  const Tokens history = half + half;  // ends as it did before
  for (int64_t id = 0; id < 20; ++id) {
    // The first two have room; the others are still given something to copy once those are idle.
    const size_t found = draft(drafter, history, 4, id).size();
    CHECK(found == (id < 2 ? 4 : 0));
    CHECK(drafter.bytes() <= kOwn);
  }
  size_t later = 0;
  for (int i = 0; i < 200; ++i) {
    later = draft(drafter, history, 4, 7).size();
    CHECK(drafter.bytes() <= kOwn);
  }
  CHECK(later == 4);
  // Whoever lost its automaton is read again.
  for (int i = 0; i < 200; ++i) draft(drafter, history, 4, 7);
  CHECK(draft(drafter, history, 4, 0).size() == 4);
  for (int64_t id = 0; id < 20; ++id) drafter.forget(id);
  CHECK(draft(drafter, history, 4, 30).size() == 4);
  CHECK(draft(drafter, history, 4, 31).size() == 4);
  CHECK(drafter.bytes() <= kOwn);
}

TEST_CASE("a long generation that copies, its proposals taken") {
  constexpr size_t kTokens = 100000;
  std::mt19937 random(4);
  Tokens truth = random_tokens(random, kTokens, 50000);
  for (size_t i = 2000; i < kTokens; ++i) {
    if (random() % 200 != 0) truth[i] = truth[i - 2000];
  }
  SuffixDrafter drafter(1 << 20, 4);
  size_t known = 2000;
  int64_t steps = 0;
  for (; known < kTokens; ++steps) {
    const Tokens history(truth.begin(), truth.begin() + static_cast<ptrdiff_t>(known));
    for (const DraftToken& token : draft(drafter, history, 50)) {
      if (known == kTokens || token.token != truth[known]) break;
      ++known;
    }
    ++known;
  }
  CHECK(steps < static_cast<int64_t>(kTokens) / 20);
  CHECK(drafter.bytes() < 101 * static_cast<int64_t>(kTokens) + 10000);
}
