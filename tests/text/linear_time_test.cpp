// No text of one length takes much longer than another, whatever it repeats: work that grows with
// the square of a run would take thousands of times as long as prose does.
#include <doctest.h>

#include <algorithm>

#include "engine/text/pretokenizer.h"
#include "tests/support.h"
#include "tests/text/tiny_vocab.h"

using namespace infer;
using namespace infer::test;

namespace {

std::string repeat(std::string_view unit, size_t bytes) {
  std::string text;
  text.reserve(bytes + unit.size());
  while (text.size() < bytes) text += unit;
  return text;
}

constexpr size_t kBytes = 1 << 17;

template <typename Work>
double seconds(Work&& work) {
  const double start = thread_seconds();
  work();
  return thread_seconds() - start;
}

constexpr std::string_view kUnits[] = {" ",   "a",  "1",  "é",      "😀",       "\n",  "!",  "中",
                                       "\t ", "a ", "'s", "\xff",   "e\u0301", "A",   "aA", " \n",
                                       "<",   "<|", "ab", "\u3000", "\r\n",    "...a"};

/// Calls work(text) for each repeated unit and compares with prose of the same length.
template <typename Work>
void check_linear(std::string_view what, Work&& work) {
  const std::string prose = repeat("Those 27 cats, I'd say,\nslept: on the mat. ", kBytes);
  for (const std::string_view unit : kUnits) {
    const std::string text = repeat(unit, kBytes) + "x";
    double ratio = 0;
    // A busy machine can spoil one measurement, hardly all of them.
    for (int attempt = 0; attempt < 4; ++attempt) {
      const double usual = seconds([&] { work(prose); });
      ratio = seconds([&] { work(text); }) / usual;
      if (ratio < 50) break;
    }
    CAPTURE(what);
    CAPTURE(std::string(unit));
    CHECK(ratio < 50);
  }
}

void check_linear_tokenizer(std::string_view what, TokenizerSpec spec) {
  const auto tokenizer = make_tokenizer(std::move(spec));
  check_linear(what, [&](const std::string& text) {
    const auto ids = tokenizer->encode(text, {false, true});
    REQUIRE(ids);
    tokenizer->decode(*ids, {true});
  });
}

/// Powers of two of each unit.
std::vector<std::pair<std::string, std::string>> doubling_merges() {
  std::vector<std::pair<std::string, std::string>> merges;
  for (const std::string_view unit : {" ", "a", "1", "\n", "!", "\xff", "A"}) {
    for (size_t n = 1; n <= 16; n *= 2) {
      merges.emplace_back(repeat(unit, n), repeat(unit, n));
    }
  }
  return merges;
}

}  // namespace

TEST_CASE("every kind is linear on repeated characters") {
  check_linear_tokenizer("byte BPE", byte_bpe_spec(doubling_merges()));
  TokenizerSpec one_word = byte_bpe_spec(doubling_merges(), "superbpe");
  add_token(one_word, "<|<|<|<|<|<|end|>", TokenType::control);
  one_word.scores.clear();
  check_linear_tokenizer("byte BPE in one word", std::move(one_word));

  TokenizerSpec spm = sentencepiece_spec();
  TokenizerSpec unigram = unigram_spec();
  TokenizerSpec bert;
  bert.model = "bert";
  add_token(bert, "[UNK]", TokenType::unknown);
  add_token(bert, "▁");
  for (const std::string_view unit : {"▁", "a", "1", "é", "\n", "!", "中", "😀"}) {
    for (size_t n = 1; n <= 16; n *= 2) {
      std::string token;
      for (size_t i = 0; i < n; ++i) token += unit;
      const float score = -100.0f + static_cast<float>(n);
      if (token != "▁") add_token(bert, token);
      add_token(spm, token, TokenType::normal, score);
      add_token(unigram, token, TokenType::normal, score);
    }
  }
  bert.scores.clear();
  check_linear_tokenizer("SentencePiece BPE", std::move(spm));
  check_linear_tokenizer("Unigram", std::move(unigram));
  check_linear_tokenizer("WordPiece", std::move(bert));
}

TEST_CASE("every pre-tokenizer is linear on repeated characters") {
  std::vector<const PreTokenizer*> seen;
  for (const NamedPreTokenizer& named : all_pretokenizers()) {
    if (std::find(seen.begin(), seen.end(), named.rules) != seen.end()) continue;
    seen.push_back(named.rules);
    check_linear(named.name, [&](const std::string& text) {
      REQUIRE(split_words(*named.rules, text).back() == text.size());
    });
  }
}
