// Gemma 4's assistants: their logits and what they draft are those of the reference, and files that
// do not fit the model are refused. draft_heads_test.cpp has what holds for all heads.
#include <doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "engine/core/file.h"
#include "engine/spec/draft_sampler.h"
#include "engine/spec/shared_cache_drafter.h"
#include "tests/golden/drafting.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

TEST_CASE("the logits and drafts of Gemma 4's assistants are those of the reference") {
  for (const std::string name : {"gemma4-f32", "gemma4-moe-f32"}) {
    CAPTURE(name);
    const GoldenModel model = golden_model(name);
    const std::string stem = data_path("heads/gemma4-assistant-" + name);
    const std::vector<float> exact = read_f32(stem + ".f32");
    const auto drafts = nlohmann::json::parse(read_text(stem + ".json")).at("drafts");
    std::vector<size_t> lengths;
    for (const auto& [length, drafted] : drafts.items()) lengths.push_back(std::stoul(length));
    std::ranges::sort(lengths);
    REQUIRE(lengths.size() > 5);
    // By hand: the first token drafted.
    ModelAndHead parts(model.path, stem + ".gguf");
    const auto id = parts.cache->add_sequence();
    const size_t width = static_cast<size_t>(parts.head->info().takes_hidden);
    std::vector<float> states, logits;
    for (const size_t length : lengths) {
      const size_t known = states.size() / width;
      run_rows(*parts.executor, *parts.cache, id, model.tokens, known, length - 1, {}, &states);
      StepBatch batch;
      batch.tokens = {model.tokens[length - 1]};
      batch.positions = {static_cast<int32_t>(length) - 1};
      batch.slots = {static_cast<int32_t>(length) - 2};
      batch.sequences = batch.output_rows = {0};
      batch.hidden.assign(states.end() - static_cast<ptrdiff_t>(width), states.end());
      batch.pages = parts.cache->pages({&id, 1});
      const auto made = parts.head->run(batch);
      REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message()));
      logits.insert(logits.end(), made->begin(), made->end());
    }
    CHECK(nmse(logits, exact) < 1e-10);
    // Hidden states beside the rows whose logits are wanted: the same numbers.
    ModelAndHead beside(model.path, stem + ".gguf", true);
    std::vector<float> same;
    run_rows(*beside.executor, *beside.cache, beside.cache->add_sequence(), model.tokens, 0,
             lengths.back() - 1, {}, &same);
    CHECK(same == states);
    parts.cache->remove_sequence(id);

    // By the drafter, two sequences at once.
    SharedCacheDrafter drafter("model", std::move(parts.head), *parts.cache, 4,
                               StepCosts(1e-3, 1e-4));
    SamplingParams greedy;
    greedy.temperature = 0;
    DraftSampler samplers[] = {DraftSampler(greedy), DraftSampler(greedy)};
    const int64_t ids[] = {parts.cache->add_sequence(), parts.cache->add_sequence()};
    const std::span<const int32_t> tokens(model.tokens);
    const auto propose = [&](std::span<const int32_t> history, int64_t most) {
      DraftRequest requests[2];
      std::vector<DraftRequest*> all;
      for (size_t s = 0; s < 2; ++s) {
        requests[s].id = ids[s];
        requests[s].history = history;
        requests[s].most = most;
        requests[s].sampler = &samplers[s];
        samplers[s].begin(history, 0, nullptr);
        all.push_back(&requests[s]);
      }
      REQUIRE(drafter.propose(all).ok());
      std::vector<std::vector<int32_t>> drafted(2);
      for (size_t s = 0; s < 2; ++s) {
        for (const DraftToken& token : requests[s].tokens) drafted[s].push_back(token.token);
      }
      return drafted;
    };
    CHECK(propose(tokens.first(2), 4)[0].empty());  // nothing was seen yet
    size_t known = 0;
    for (const size_t length : lengths) {
      CAPTURE(length);
      for (const int64_t s : ids) {
        std::vector<float> made;
        run_rows(*parts.executor, *parts.cache, s, tokens, known, length - 1, {}, &made);
        drafter.observe(s, tokens.first(length - 1), made);
      }
      known = length - 1;
      const auto expected = drafts.at(std::to_string(length)).get<std::vector<int32_t>>();
      CHECK(propose(tokens.first(length), 4) == std::vector{expected, expected});
      const std::vector<int32_t> two(expected.begin(), expected.begin() + 2);
      CHECK(propose(tokens.first(length), 2) == std::vector{two, two});
      // Of a text that goes on otherwise, or where the cache ends before, nothing is drafted.
      CHECK(propose(tokens.first(length - 1), 4)[0].empty());
    }
    parts.cache->rollback(ids[0], static_cast<int64_t>(known) - 1);
    const auto drafted = propose(tokens.first(known + 1), 1);
    CHECK(drafted[0].empty());
    CHECK(drafted[1].size() == 1);
  }
}

TEST_CASE("assistants that do not fit the model are refused, with the field") {
  struct Case {
    const char* what;
    std::function<void(std::string&)> damage;
    const char* said;
  };
  const std::string arch = "gemma4-assistant.";
  const Case cases[] = {
      {"width", [&](std::string& b) { change_key(b, arch + "embedding_length_out", 4, 64); },
       "embedding_length_out"},
      {"heads", [&](std::string& b) { change_key(b, arch + "attention.head_count", 4, 5); },
       "5 heads"},
      {"keys", [&](std::string& b) { change_key(b, arch + "attention.key_length", 4, 18); },
       "without a sliding window"},
      {"no output", [](std::string& b) { rename_in(b, "token_embd.weight", "xoken_embd.weight"); },
       "token_embd.weight"},
      {"no projection", [](std::string& b) { rename_in(b, "nextn.pre_", "nextn.xre_"); },
       "nextn.pre_projection"},
      {"no norm", [](std::string& b) { rename_in(b, "blk.1.attn_q_norm", "blk.1.attn_x_norm"); },
       "attn_q_norm"},
  };
  const std::string main = golden_model("gemma4-moe-f32").path;
  const std::string head = data_path("heads/gemma4-assistant-gemma4-moe-f32.gguf");
  const std::string whole = read_text(head);
  CHECK(refusal_of_head(main, head).ok());
  for (const Case& c : cases) {
    CAPTURE(c.what);
    std::string bytes = whole;
    c.damage(bytes);
    const Status status = refusal_of_head(main, memory_model("damaged-head", bytes_of(bytes)));
    CHECK(status.code() == StatusCode::bad_file);
    CHECK(status.message().find("damaged-head") != std::string::npos);
    CHECK(status.message().find(c.said) != std::string::npos);
  }
  constexpr size_t kPadding = 32;  // without it the file is whole
  for (size_t length = 0; length + kPadding <= whole.size(); length += 997) {
    const std::string part = whole.substr(0, length);
    CHECK(!refusal_of_head(main, memory_model("damaged-head", bytes_of(part))).ok());
  }
  for (const char* const other : {"gemma3n-f32", "llama-f32"}) {
    CAPTURE(other);
    const Status status = refusal_of_head(golden_model(other).path, head);
    CHECK(status.code() == StatusCode::bad_file);
    CHECK(status.message().find("gemma4") != std::string::npos);
  }
}
