// The automaton against searching the text.
#include "engine/spec/suffix_automaton.h"

#include <doctest.h>

#include <algorithm>
#include <random>

using namespace infer;

namespace {

using Tokens = std::vector<int32_t>;
using Match = SuffixAutomaton::Match;

Tokens random_tokens(std::mt19937& random, size_t count, uint32_t alphabet) {
  Tokens tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % alphabet);
  return tokens;
}

SuffixAutomaton automaton_of(std::span<const int32_t> tokens) {
  SuffixAutomaton automaton;
  for (const int32_t token : tokens) automaton.extend(token);
  return automaton;
}

/// How many of the last tokens before `a` and before `b` are the same.
int64_t common_suffix(std::span<const int32_t> a, std::span<const int32_t> b) {
  const auto differ = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend());
  return differ.first - a.rbegin();
}

/// The longest suffix of `other` in `text`, the latest occurrence that ends by `last`.
Match longest_match(std::span<const int32_t> text, std::span<const int32_t> other, size_t last) {
  Match best;
  for (size_t end = last; end > 0; --end) {
    const int64_t length = common_suffix(text.first(end), other);
    if (length > best.length) best = {length, static_cast<int64_t>(end)};
  }
  return best;
}

bool occurs(std::span<const int32_t> text, std::span<const int32_t> other, const Match& match) {
  return match.length <= match.end && match.end <= std::ssize(text) &&
         common_suffix(text.first(static_cast<size_t>(match.end)), other) >= match.length;
}

/// How many tokens at the end of a text it recognises.
int64_t recognised(const SuffixAutomaton& automaton, std::span<const int32_t> tokens) {
  SuffixAutomaton::Cursor cursor;
  for (const int32_t token : tokens) automaton.advance(cursor, token);
  return cursor.length;
}

}  // namespace

TEST_CASE("the longest repeated suffix, after every token") {
  std::mt19937 random(1);
  for (const uint32_t alphabet : {2u, 3u, 50u}) {
    CAPTURE(alphabet);
    for (int round = 0; round < 20; ++round) {
      const Tokens tokens = random_tokens(random, 300, alphabet);
      SuffixAutomaton automaton;
      int64_t wrong = 0;
      int64_t not_latest = 0;
      for (size_t n = 1; n <= tokens.size(); ++n) {
        automaton.extend(tokens[n - 1]);
        const std::span<const int32_t> text = std::span(tokens).first(n);
        const Match expected = longest_match(text, text, n - 1);
        const Match found = automaton.repeated();
        wrong += found.length != expected.length || !occurs(text.first(n - 1), text, found);
        not_latest += found.length > 0 && found.end != expected.end;
        wrong += automaton.states() > 2 * static_cast<int64_t>(n);
      }
      CHECK(wrong == 0);
      CHECK(not_latest == 0);
      CHECK(std::ranges::equal(automaton.text(), tokens));
    }
  }
}

TEST_CASE("every substring is recognised, and nothing else") {
  std::mt19937 random(2);
  for (const uint32_t alphabet : {2u, 3u, 50u}) {
    CAPTURE(alphabet);
    for (int round = 0; round < 10; ++round) {
      const Tokens tokens = random_tokens(random, 100, alphabet);
      const std::span<const int32_t> text = tokens;
      const SuffixAutomaton automaton = automaton_of(tokens);
      int64_t wrong = 0;
      for (size_t begin = 0; begin < text.size(); ++begin) {
        for (size_t length = 1; begin + length <= text.size(); ++length) {
          const auto part = text.subspan(begin, length);
          wrong += recognised(automaton, part) != std::ssize(part);
        }
      }
      for (int other = 0; other < 3000; ++other) {
        const Tokens part = random_tokens(random, 1 + random() % 9, alphabet + 1);
        const bool there =
            std::search(text.begin(), text.end(), part.begin(), part.end()) != text.end();
        wrong += (recognised(automaton, part) == std::ssize(part)) != there;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a cursor knows the longest suffix of another text") {
  std::mt19937 random(3);
  for (const uint32_t alphabet : {2u, 3u, 50u}) {
    CAPTURE(alphabet);
    for (int round = 0; round < 20; ++round) {
      const Tokens tokens = random_tokens(random, 200, alphabet);
      const SuffixAutomaton automaton = automaton_of(tokens);
      // Of pieces of the text, so that there are long matches as well.
      Tokens other;
      while (other.size() < 200) {
        const auto begin = static_cast<ptrdiff_t>(random() % 180);
        other.insert(other.end(), tokens.begin() + begin, tokens.begin() + begin + random() % 20);
        other.push_back(static_cast<int32_t>(random() % (alphabet + 1)));
      }
      SuffixAutomaton::Cursor cursor;
      int64_t wrong = 0;
      for (size_t n = 1; n <= other.size(); ++n) {
        automaton.advance(cursor, other[n - 1]);
        const std::span<const int32_t> read = std::span(other).first(n);
        const Match found = automaton.match(cursor);
        wrong += found.length != longest_match(tokens, read, tokens.size()).length;
        wrong += !occurs(tokens, read, found);
        if (found.length > 0) {
          SuffixAutomaton::Cursor shorter = cursor;
          automaton.shorten(shorter);
          const Match less = automaton.match(shorter);
          wrong += less.length >= found.length || !occurs(tokens, read, less);
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("cursors stay valid while the automaton grows") {
  std::mt19937 random(4);
  for (const uint32_t alphabet : {2u, 3u, 50u}) {
    CAPTURE(alphabet);
    for (int round = 0; round < 20; ++round) {
      SuffixAutomaton automaton;
      SuffixAutomaton::Cursor cursor;
      Tokens tokens;
      Tokens other;
      int64_t wrong = 0;
      for (int step = 0; step < 300; ++step) {
        if (random() % 2 == 0) {
          tokens.push_back(static_cast<int32_t>(random() % alphabet));
          automaton.extend(tokens.back());
        } else {
          other.push_back(static_cast<int32_t>(random() % alphabet));
          automaton.advance(cursor, other.back());
        }
        const Match found = automaton.match(cursor);
        wrong += found.length > longest_match(tokens, other, tokens.size()).length;
        wrong += !occurs(tokens, other, found);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the latest of several occurrences") {
  // The same ten tokens again and again, something else after each.
  SuffixAutomaton automaton;
  for (int32_t round = 0; round < 50; ++round) {
    for (int32_t token = 0; token < 10; ++token) automaton.extend(token);
    if (round > 0) {
      const Match found = automaton.repeated();
      CHECK(found.length == 10);
      CHECK(found.end == 11 * (round - 1) + 10);
    }
    automaton.extend(100 + round);
  }
  SuffixAutomaton::Cursor cursor;
  for (int32_t token = 3; token < 10; ++token) automaton.advance(cursor, token);
  CHECK(automaton.match(cursor).length == 7);
  CHECK(automaton.match(cursor).end == 11 * 49 + 10);

  // Without anything between: all but one period, one period ago.
  SuffixAutomaton periodic;
  for (int32_t n = 1; n <= 200; ++n) {
    periodic.extend(n % 7);
    if (n > 7) {
      CHECK(periodic.repeated().length == n - 7);
      CHECK(periodic.repeated().end == n - 7);
    }
  }
}

TEST_CASE("borders: what goes on is preferred to what ends there") {
  constexpr int32_t kBorder = SuffixAutomaton::kBorder;
  for (const Tokens& tokens : {Tokens{1, 2, 3, 9, kBorder, 5, 1, 2, 3, kBorder},
                               Tokens{1, 2, 3, kBorder, 5, 1, 2, 3, 9, kBorder}}) {
    const SuffixAutomaton automaton = automaton_of(tokens);
    SuffixAutomaton::Cursor cursor;
    for (const int32_t token : {1, 2, 3}) automaton.advance(cursor, token);
    const Match found = automaton.match(cursor);
    CHECK(found.length == 3);
    CHECK(tokens[static_cast<size_t>(found.end)] == 9);
    automaton.advance(cursor, kBorder);
    CHECK(cursor.length == 0);
  }
}

TEST_CASE("time and memory grow with the text alone") {
  constexpr size_t kTokens = 100000;
  std::mt19937 random(5);
  std::vector<Tokens> texts;
  for (const uint32_t alphabet : {1u, 2u, 50u, 3000u, 256000u}) {
    texts.push_back(random_tokens(random, kTokens, alphabet));
  }
  // As many states as there can be: a b b b …
  texts.emplace_back(kTokens, 1)[0] = 0;
  // As many transitions: a b b … b c.
  texts.push_back(texts.back());
  texts.back().back() = 2;
  // Copies with edits.
  texts.push_back(random_tokens(random, kTokens, 256000));
  for (size_t i = 1000; i < kTokens; ++i) {
    if (random() % 100 != 0) texts.back()[i] = texts.back()[i - 1000];
  }
  for (const Tokens& tokens : texts) {
    SuffixAutomaton automaton;
    int64_t half = 0;
    for (size_t n = 1; n <= kTokens; ++n) {
      automaton.extend(tokens[n - 1]);
      if (n == kTokens / 2) half = automaton.steps();
    }
    constexpr auto kCount = static_cast<int64_t>(kTokens);
    CHECK(automaton.steps() < 2.5 * static_cast<double>(half));
    CHECK(automaton.steps() < 32 * kCount);
    CHECK(automaton.states() <= 2 * kCount);
    CHECK(automaton.bytes() < 101 * kCount);
    CHECK(automaton.bytes() >= 28 * kCount);
    automaton.clear();
    CHECK(automaton.bytes() < 4096);
    CHECK(automaton.repeated().length == 0);
    automaton.extend(1);
    automaton.extend(1);
    CHECK(automaton.repeated().length == 1);
  }
}
