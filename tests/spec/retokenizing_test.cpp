// Drafts of a model with another vocabulary: what they take besides the model's steps.
#include "engine/spec/retokenizing_drafter.h"

#include <doctest.h>

#include <chrono>
#include <random>

#include "engine/spec/speculator.h"
#include "tests/steps.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

/// A golden model that drafts for the built-in one.
struct OtherVocabulary {
  StepModel opened{"llama-q4_0"};
  std::unique_ptr<WeightSource> main = open_weights(test::kDemo).value();
  std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::create(main->tokenizer()).value();
  std::unique_ptr<Device> device = open_device("cpu", {1}).value();
  std::unique_ptr<RetokenizingDrafter> drafter;

  explicit OtherVocabulary(int64_t context) {
    PlanRequest request;
    request.context = context;
    request.max_rows = 64;
    Device* const devices[] = {device.get()};
    const MemoryPlan plan = opened.plan(devices, request).value();
    auto executor =
        Executor::create(*opened.model, *opened.weights, devices, request, plan, {}).value();
    auto cache = KvCache::create(devices, plan.kv_layout, plan.kv_pages, {context}).value();
    auto model = std::make_shared<DraftModel>(std::move(executor), std::move(cache),
                                              opened.model->info().vocabulary, request.max_rows,
                                              request.max_outputs, StepCosts(1e-6, 1e-7));
    drafter = std::make_unique<RetokenizingDrafter>(
        std::move(model), Tokenizer::create(opened.source->tokenizer()).value(), tokenizer);
  }

  /// The tokens of a text, which is then gone through from `first` on, token by token.
  template <typename Each>
  void propose(const std::string& text, size_t count, Each each) const {
    const std::vector<int32_t> tokens = tokenizer->encode(text).value();
    REQUIRE(tokens.size() > count);
    for (size_t n = tokens.size() - count; n <= tokens.size(); ++n) {
      DraftRequest request;
      request.id = 1;
      request.history = std::span(tokens).first(n);
      request.most = 4;
      DraftRequest* const requests[] = {&request};
      const int64_t before = drafter->encoded_bytes();
      const double reckoned = drafter->seconds(1, request.history, 4);
      const auto start = std::chrono::steady_clock::now();
      REQUIRE(drafter->propose(requests).ok());
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      each(n - (tokens.size() - count), drafter->encoded_bytes() - before, reckoned, taken.count());
    }
  }
};

std::string letters(size_t length, const char* alphabet, size_t size) {
  std::mt19937 random(5);
  std::string text;
  for (size_t i = 0; i < length; ++i) text += alphabet[random() % size];
  return text;
}

}  // namespace

TEST_CASE("a long text without spaces is not tokenised as a whole for every token") {
  const OtherVocabulary models(20000);
  std::string wide;  // characters of three bytes
  for (int i = 0; i < 4000; ++i) wide += i % 3 == 0 ? "\u6f22" : "\u5b57";
  for (const std::string& text : {letters(12000, "abcdefghij", 10), wide}) {
    models.propose(text, 6, [&](size_t step, int64_t bytes, double, double) {
      if (step == 0) {
        CHECK(bytes >= std::ssize(text) / 2);  // read for the first time
      } else {
        CHECK(bytes > 0);
        CHECK(bytes < 6000);
      }
    });
    models.drafter->forget(1);
  }
}

TEST_CASE("the time that drafting is said to take is near what it takes") {
  const OtherVocabulary models(20000);
  double reckoned = 0;
  double taken = 0;
  models.propose(letters(12000, "abcdefghij", 10), 40,
                 [&](size_t step, int64_t, double said, double took) {
                   if (step < 15) return;
                   reckoned += said;
                   taken += took;
                 });
  CHECK(reckoned > 0.25 * taken);
  CHECK(reckoned < 20 * taken);
}

TEST_CASE("useless drafts in another vocabulary cost half a per cent at most once that is known") {
  OtherVocabulary models(20000);
  const std::vector<int32_t> tokens =
      models.tokenizer->encode(letters(16000, "abcdefghij", 10)).value();
  constexpr size_t kFirst = 1000;
  constexpr size_t kKnown = 4000;
  REQUIRE(tokens.size() > 8000);
  std::vector<std::unique_ptr<Drafter>> drafters;
  drafters.push_back(std::move(models.drafter));
  // Steps take as long as those of a small model; the drafter takes its real time.
  constexpr double kStep = 10e-3;
  constexpr double kRow = kStep / 10;
  Speculator speculator(std::move(drafters), StepCosts(kStep, kRow));
  Drafting drafting{SamplingParams{}};
  drafting.wanted = 1 << 30;
  double plain = 0;
  double lost = 0;
  int64_t drafted = 0;
  for (size_t n = kFirst; n < tokens.size(); ++n) {
    const Speculator::Item item{&drafting, std::span(tokens).first(n), 1000};
    const double start = thread_seconds();
    speculator.propose({&item, 1}, 0, 33);
    const double taken = thread_seconds() - start;
    const auto count = static_cast<double>(drafting.proposal.size());
    speculator.ran(1 + static_cast<int64_t>(count), kStep + kRow * count);
    speculator.verified(drafting, 0);
    drafted += static_cast<int64_t>(count);
    if (n < kKnown) continue;
    plain += kStep;
    lost += taken + kRow * count;
  }
  CHECK(drafted > 0);
  CHECK(lost <= 0.006 * plain);
}
