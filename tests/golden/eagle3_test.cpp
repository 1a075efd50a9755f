// EAGLE-3 heads: their logits and what they draft are those of the reference, and files that do not
// fit the model are refused. draft_heads_test.cpp has what holds for all heads.
#include <doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/file.h"
#include "engine/spec/draft_sampler.h"
#include "engine/spec/head_drafter.h"
#include "tests/golden/drafting.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

const std::vector<std::string> kMains = {"llama-f32", "qwen35-f32", "gemma4-f32",
                                         "nemotron_h_moe-f32"};

std::string head_path(const std::string& main, const char* ending = ".gguf") {
  return data_path("heads/eagle3-" + main + ending);
}

}  // namespace

TEST_CASE("the logits of EAGLE-3 heads are those of the reference, in pieces of any size") {
  for (const std::string& name : kMains) {
    CAPTURE(name);
    const GoldenModel model = golden_model(name);
    const std::vector<float> exact = read_f32(head_path(name, ".f32"));
    const size_t tokens = model.tokens.size();
    std::vector<float> whole, states_whole;
    for (const size_t piece : {size_t{16}, size_t{1}, size_t{3}}) {
      for (const bool apart : {false, true}) {
        CAPTURE(piece);
        CAPTURE(apart);
        ModelAndHead parts(model.path, head_path(name), apart);
        const auto id = parts.cache->add_sequence();
        const auto head_id = parts.head_cache->add_sequence();
        const auto width = static_cast<size_t>(parts.head->info().takes_hidden);
        std::vector<float> states, logits, own_states;
        for (size_t at = 0; at < tokens; at += piece) {
          run_rows(*parts.executor, *parts.cache, id, model.tokens, at,
                   std::min(at + piece, tokens), {}, &states);
        }
        REQUIRE(states.size() == tokens * width);
        for (size_t at = 1; at < tokens; at += piece) {
          const size_t end = std::min(at + piece, tokens);
          const std::vector<float> zeros(
              (end - at) * static_cast<size_t>(parts.head->info().takes_own), 0.0f);
          const std::vector<float> made =
              run_rows(*parts.head, *parts.head_cache, head_id, model.tokens, at, end,
                       {std::span(states).subspan((at - 1) * width, (end - at) * width), zeros},
                       &own_states, 1);
          logits.insert(logits.end(), made.begin(), made.end());
        }
        REQUIRE(logits.size() == exact.size());
        if (whole.empty()) {
          whole = logits;
          states_whole = states;
          CHECK(nmse(logits, exact) < 1e-10);
        }
        CHECK(logits == whole);
        CHECK(states == states_whole);
      }
    }
  }
}

TEST_CASE("what EAGLE-3 heads draft is what the reference drafts") {
  for (const std::string& name : kMains) {
    CAPTURE(name);
    const GoldenModel model = golden_model(name);
    const auto drafts = nlohmann::json::parse(read_text(head_path(name, ".json"))).at("drafts");
    const std::span<const int32_t> tokens = std::span(model.tokens).first(40);
    ModelAndHead parts(model.path, head_path(name));
    const auto id = parts.cache->add_sequence();
    const auto width = static_cast<size_t>(parts.head->info().takes_hidden);
    std::vector<float> states;
    for (size_t at = 0; at < tokens.size(); at += 10) {
      run_rows(*parts.executor, *parts.cache, id, tokens, at, at + 10, {}, &states);
    }
    HeadDrafter drafter("model", std::move(parts.head), std::move(parts.head_cache), 16, 4, 2,
                        StepCosts(1e-3, 1e-4), parts.models.main.model->info().vocabulary);
    SamplingParams greedy;
    greedy.temperature = 0;
    DraftSampler sampler(greedy);
    const auto propose = [&](int64_t id, std::span<const int32_t> history, int64_t most) {
      DraftRequest request{.id = id, .history = history, .most = most, .sampler = &sampler};
      sampler.begin(history, 0, nullptr);
      DraftRequest* const requests[] = {&request};
      REQUIRE(drafter.propose(requests).ok());
      std::vector<int32_t> drafted;
      for (const DraftToken& token : request.tokens) drafted.push_back(token.token);
      return drafted;
    };
    const auto check = [&](int64_t id, size_t length) {
      CAPTURE(length);
      const auto expected = drafts.at(std::to_string(length)).get<std::vector<int32_t>>();
      CHECK(propose(id, tokens.first(length), 4) == expected);
      CHECK(propose(id, tokens.first(length), 2) ==
            std::vector<int32_t>(expected.begin(), expected.begin() + 2));
    };
    const auto observe = [&](int64_t id, size_t first, size_t end) {
      drafter.observe(id, tokens.first(end),
                      std::span(states).subspan(first * width, (end - first) * width));
    };
    CHECK(propose(7, tokens.first(1), 4).empty());  // nothing was seen yet
    observe(7, 0, 1);
    check(7, 2);
    observe(7, 1, 2);
    check(7, 3);
    observe(9, 0, 19);  // another sequence
    observe(7, 2, 19);
    check(7, 20);
    check(9, 20);
    observe(7, 19, 20);
    check(7, 21);
    observe(7, 20, 22);  // a draft was accepted
    check(7, 23);
    observe(7, 20, 30);  // some are told again
    check(7, 31);
    observe(9, 19, 39);
    check(9, 40);
    // Another text after 15 tokens, which then becomes the first one again.
    std::vector<int32_t> other(tokens.begin(), tokens.begin() + 20);
    for (size_t t = 15; t < 20; ++t) other[t] = (other[t] + 1) % 70;
    drafter.observe(7, other, std::span(states).subspan(10 * width, 10 * width));
    observe(7, 12, 20);
    check(7, 21);
    drafter.forget(7);
    // A text whose first tokens the main model did not compute: less is known, and it can draft.
    observe(7, 10, 19);
    CHECK(propose(7, tokens.first(20), 2).size() == 2);
    observe(7, 19, 20);
    CHECK(propose(7, tokens.first(21), 2).size() == 2);
  }
}

namespace {

void set_last_id(std::string& bytes, int64_t id) {
  std::memcpy(bytes.data() + bytes.size() - sizeof(id), &id, sizeof(id));
}

}  // namespace

TEST_CASE("EAGLE-3 heads that do not fit the model are refused, with the field") {
  struct Case {
    const char* what;
    std::function<void(std::string&)> damage;
    const char* said;
  };
  // Scalars begin 4 bytes behind their key, the elements of arrays 16 bytes.
  const Case cases[] = {
      {"width", [](std::string& b) { change_key(b, "eagle3.target_hidden_size", 4, 64); },
       "target_hidden_size"},
      {"blocks", [](std::string& b) { change_key(b, "eagle3.block_count", 4, 2); }, "block_count"},
      {"layer", [](std::string& b) { change_key(b, "eagle3.target_layers", 16 + 4, 3); },
       "target_layers"},
      {"negative layer", [](std::string& b) { change_key(b, "eagle3.target_layers", 16, -1); },
       "target_layers"},
      {"id", [](std::string& b) { set_last_id(b, 72); }, "'d2t'"},
      {"negative id", [](std::string& b) { set_last_id(b, -1); }, "'d2t'"},
      {"large id", [](std::string& b) { set_last_id(b, std::numeric_limits<int64_t>::max()); },
       "'d2t'"},
      {"no ids", [](std::string& b) { rename_in(b, "d2t", "x2t"); }, "output.weight"},
      {"no output", [](std::string& b) { rename_in(b, "output.weight", "xutput.weight"); },
       "output.weight"},
      {"no fc", [](std::string& b) { rename_in(b, "fc.weight", "xc.weight"); }, "fc.weight"},
      {"no norm", [](std::string& b) { rename_in(b, "attn_norm_2", "attn_norm_3"); },
       "attn_norm_2"},
      {"swapped", [](std::string& b) { rename_in(b, "blk.0.attn_q.", "blk.0.attn_x."); }, "attn_q"},
      {"own width", [](std::string& b) { change_key(b, "eagle3.embedding_length", 4, 36); },
       "token_embd.weight"},
      {"heads", [](std::string& b) { change_key(b, "eagle3.attention.head_count", 4, 3); },
       "heads"},
  };
  const std::string main = golden_model("llama-f32").path;
  const std::string whole = read_text(head_path("llama-f32"));
  CHECK(refusal_of_head(main, head_path("llama-f32")).ok());
  for (const Case& c : cases) {
    CAPTURE(c.what);
    std::string bytes = whole;
    c.damage(bytes);
    const Status status = refusal_of_head(main, memory_model("damaged-eagle3", bytes_of(bytes)));
    CHECK(status.code() == StatusCode::bad_file);
    CHECK(status.message().find(c.said) != std::string::npos);
    CHECK(status.message().find("damaged-eagle3") != std::string::npos);
  }
  // Cut short at any place.
  for (size_t length = 0; length < whole.size(); length += 997) {
    const std::string part = whole.substr(0, length);
    CHECK(!refusal_of_head(main, memory_model("damaged-eagle3", bytes_of(part))).ok());
  }
}

TEST_CASE("EAGLE-3 heads of other models, alone, or beside other heads are refused") {
  const std::string head = head_path("llama-f32");
  // Another width, then another vocabulary as well.
  const std::string bigram = data_path("bigram.gguf");
  const Status width = refusal_of_head(bigram, head);
  CHECK(width.code() == StatusCode::bad_file);
  CHECK(width.message().find("target_hidden_size") != std::string::npos);
  std::string bytes = read_text(head_path("qwen35-f32"));
  change_key(bytes, "eagle3.target_hidden_size", 4,
             static_cast<int32_t>(load_engine(bigram, without_head())->model().embedding));
  change_key(bytes, "eagle3.target_layers", 16, 0);
  change_key(bytes, "eagle3.target_layers", 20, 0);
  change_key(bytes, "eagle3.target_layers", 24, 0);
  const Status vocabulary = refusal_of_head(bigram, memory_model("other-eagle3", bytes_of(bytes)));
  CHECK(vocabulary.code() == StatusCode::bad_file);
  CHECK(vocabulary.message().find("token_embd.weight") != std::string::npos);
  // A model that does not show what enters its layers: of the width that the head wants.
  bytes = read_text(head);
  const auto source = load_engine(golden_model("gemma3n-f32").path, without_head());
  change_key(bytes, "eagle3.target_hidden_size", 4,
             static_cast<int32_t>(source->model().embedding));
  const Status hidden = refusal_of_head(golden_model("gemma3n-f32").path,
                                        memory_model("other-eagle3", bytes_of(bytes)));
  CHECK(hidden.code() == StatusCode::unsupported);
  CHECK(hidden.message().find("gemma3n") != std::string::npos);
  // As a model.
  const auto alone = plan_model(head, without_head());
  REQUIRE(!alone.has_value());
  CHECK(alone.error().code() == StatusCode::unsupported);
  CHECK(alone.error().message().find("draft") != std::string::npos);
  CHECK(describe_model(head).has_value());
  // With next-token layers.
  LoadOptions options = with_head(head_path("qwen35-f32"));
  options.drafters = {"mtp", "model"};
  const auto both = plan_model(golden_model("qwen35-f32").path, options);
  REQUIRE(!both.has_value());
  CHECK(both.error().code() == StatusCode::invalid_argument);
  // The default drafters take it.
  options.drafters.clear();
  CHECK(plan_model(golden_model("qwen35-f32").path, options).has_value());
}
