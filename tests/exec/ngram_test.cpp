// The rows of n-grams: which ones a token has, and what a step reads.
#include <doctest.h>

#include <vector>

#include "engine/core/thread_pool.h"
#include "engine/exec/ngram_reader.h"
#include "tests/steps.h"

using namespace infer;
using namespace infer::test;

namespace {

constexpr uint64_t kBig = (uint64_t{1} << 60) + 12345;

/// Pairs and triples of tokens, two heads each.
NgramSpec small_spec() {
  NgramSpec spec;
  spec.width = 4;
  spec.multipliers = {3, 100, kBig};
  spec.heads = {{0, 11}, {11, 13}, {24, 17}, {41, 1}};
  spec.end = 2;
  spec.image = 9;
  return spec;
}

std::vector<uint64_t> rows_of(std::vector<int32_t> tokens) {
  const NgramSpec spec = small_spec();
  std::vector<uint64_t> rows(spec.heads.size());
  find_ngram_rows(spec, tokens, rows);
  return rows;
}

std::vector<uint64_t> expected(uint64_t now, uint64_t before, uint64_t earlier) {
  const uint64_t pair = now * 3 ^ before * 100;
  const uint64_t triple = pair ^ earlier * kBig;
  return {pair % 11, 11 + pair % 13, 24 + triple % 17, 41};
}

}  // namespace

TEST_CASE("n-grams: the rows of a token follow from it and those before it") {
  CHECK(rows_of({5, 7, 30}) == expected(5, 7, 30));
  CHECK(rows_of({5, 7, 130}) == expected(5, 7, 130));  // a product beyond 64 bits
  // Before the first token lie ends of texts.
  CHECK(rows_of({5}) == expected(5, 2, 2));
  CHECK(rows_of({5, 7}) == expected(5, 7, 2));
  // What ends a text hides what is before it, but not from itself.
  CHECK(rows_of({5, 2, 30}) == expected(5, 2, 2));
  CHECK(rows_of({2, 7, 30}) == expected(2, 7, 30));
  CHECK(rows_of({5, -77, -3}) == expected(5, 9, 9));
}

TEST_CASE("n-grams: a step reads the same rows, however a text is cut and shared out") {
  const StepModel opened("qwen4exp-f32");
  const NgramSpec& spec = *opened.model->info().ngrams;
  const auto elements = static_cast<size_t>(spec.elements());
  const std::vector<int32_t> first{1, 5, 31, 7, 8, 9, 40};
  const std::vector<int32_t> second{6, 31, 31, 12};
  const auto add = [](StepBatch& batch, const std::vector<int32_t>& text, size_t begin,
                      size_t end) {
    const auto number = static_cast<int32_t>(batch.before.size() / kTokensBefore);
    batch.begin_sequence(std::span(text).first(begin));
    for (size_t t = begin; t < end; ++t) {
      batch.tokens.push_back(text[t]);
      batch.slots.push_back(static_cast<int32_t>(t));
      batch.sequences.push_back(number);
    }
  };
  StepBatch whole;
  add(whole, first, 0, first.size());
  add(whole, second, 0, second.size());
  NgramReader reader(spec, *opened.source);
  REQUIRE(reader.read(whole, nullptr).ok());
  const std::vector<float> all(reader.values().begin(), reader.values().end());
  REQUIRE(all.size() == (first.size() + second.size()) * elements);
  ThreadPool threads(3);
  REQUIRE(reader.read(whole, &threads).ok());
  CHECK(std::ranges::equal(reader.values(), all));
  for (size_t cut = 1; cut < second.size(); ++cut) {
    StepBatch part;
    add(part, second, cut, second.size());
    add(part, first, cut + 1, first.size());
    REQUIRE(reader.read(part, nullptr).ok());
    const auto expected = [&](size_t row, size_t count) {
      return std::span(all).subspan(row * elements, count * elements);
    };
    const size_t rows = second.size() - cut;
    const std::span<const float> found = reader.values();
    CHECK(std::ranges::equal(found.first(rows * elements), expected(first.size() + cut, rows)));
    CHECK(std::ranges::equal(found.subspan(rows * elements),
                             expected(cut + 1, first.size() - cut - 1)));
  }
  whole.before.clear();
  CHECK(reader.read(whole, nullptr).code() == StatusCode::internal);
}
