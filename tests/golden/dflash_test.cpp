// DFlash heads: the logits of their blocks and what they draft are those of the reference, and
// files that do not fit the model are refused. draft_heads_test.cpp has what holds for all heads.
#include <doctest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "engine/core/file.h"
#include "engine/spec/block_drafter.h"
#include "engine/spec/draft_sampler.h"
#include "tests/golden/drafting.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

const std::vector<std::string> kMains = {"llama-f32", "qwen35-f32", "gemma4-f32",
                                         "muse-glimmer-f32"};
constexpr size_t kLengths[] = {2, 3, 20, 21, 23, 31, 40};

std::string head_path(const std::string& main, const char* ending = ".gguf") {
  return data_path("heads/dflash-" + main + ending);
}

/// The main model's hidden states of these tokens.
std::vector<float> states_of(ModelAndHead& parts, std::span<const int32_t> tokens) {
  const auto id = parts.cache->add_sequence();
  std::vector<float> states;
  for (size_t at = 0; at < tokens.size(); at += 10) {
    run_rows(*parts.executor, *parts.cache, id, tokens, at, std::min(at + 10, tokens.size()), {},
             &states);
  }
  parts.cache->remove_sequence(id);
  return states;
}

/// The logits of a block behind these tokens. `piece`: how many tokens a step takes.
std::vector<float> block_logits(ModelAndHead& parts, std::span<const int32_t> tokens,
                                std::span<const float> states, size_t piece) {
  const DraftBlock block = *parts.head->info().block;
  const auto width = static_cast<size_t>(parts.head->info().takes_hidden);
  const auto id = parts.head_cache->add_sequence();
  StepBatch batch;
  const auto add = [&](int32_t token, size_t slot, size_t last) {
    batch.tokens.push_back(token);
    batch.positions.push_back(static_cast<int32_t>(slot));
    batch.slots.push_back(static_cast<int32_t>(slot));
    batch.last_seen.push_back(static_cast<int32_t>(last));
    batch.sequences.push_back(0);
  };
  std::vector<float> logits;
  const auto run = [&](int64_t kept) {
    REQUIRE(parts.head_cache->reserve(id, batch.rows()).ok());
    batch.pages = parts.head_cache->pages({&id, 1});
    const auto made = parts.head->run(batch);
    REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message()));
    logits.assign(made->begin(), made->end());
    if (kept > 0) parts.head_cache->commit(id, PageKeys(tokens), kept);
    batch.clear();
  };
  const size_t before = tokens.size() - 1;
  for (size_t at = 0; at < before; at += piece) {
    const size_t end = std::min(at + piece, before);
    for (size_t t = at; t < end; ++t) add(tokens[t], t, t);
    const std::span<const float> some = states.subspan(at * width, (end - at) * width);
    batch.hidden.assign(some.begin(), some.end());
    batch.own_hidden.assign(end - at, 0.0f);
    run(static_cast<int64_t>(end - at));
  }
  const auto rows = static_cast<size_t>(block.rows);
  for (size_t i = 0; i < rows; ++i) {
    batch.output_rows.push_back(static_cast<int32_t>(i));
    add(i == 0 ? tokens.back() : block.mask, before + i, before + (block.causal ? i : rows - 1));
  }
  batch.hidden.assign(rows * width, 0.0f);
  batch.own_hidden.assign(rows, 1.0f);
  run(0);
  parts.head_cache->remove_sequence(id);
  return logits;
}

}  // namespace

TEST_CASE("the logits of DFlash's blocks are those of the reference, however the text is cut") {
  for (const std::string& name : kMains) {
    CAPTURE(name);
    const GoldenModel model = golden_model(name);
    const std::vector<float> exact = read_f32(head_path(name, ".f32"));
    ModelAndHead parts(model.path, head_path(name));
    const std::vector<float> states = states_of(parts, std::span(model.tokens).first(40));
    const auto width = static_cast<size_t>(parts.head->info().takes_hidden);
    std::vector<float> whole;
    for (const size_t piece : {size_t{16}, size_t{1}, size_t{7}}) {
      CAPTURE(piece);
      std::vector<float> all;
      for (const size_t length : kLengths) {
        const std::vector<float> logits =
            block_logits(parts, std::span(model.tokens).first(length),
                         std::span(states).first((length - 1) * width), piece);
        all.insert(all.end(), logits.begin(), logits.end());
      }
      REQUIRE(all.size() == exact.size());
      CHECK(nmse(all, exact) < 1e-10);
      if (whole.empty()) whole = all;
      CHECK(all == whole);
    }
  }
}

TEST_CASE("what DFlash heads draft is what the reference drafts") {
  for (const std::string& name : kMains) {
    CAPTURE(name);
    const GoldenModel model = golden_model(name);
    const auto drafts = nlohmann::json::parse(read_text(head_path(name, ".json"))).at("drafts");
    const std::span<const int32_t> tokens = std::span(model.tokens).first(40);
    ModelAndHead parts(model.path, head_path(name));
    const std::vector<float> states = states_of(parts, tokens);
    const auto width = static_cast<size_t>(parts.head->info().takes_hidden);
    const PlanRequest request = parts.models.main.heads.front().request;
    BlockDrafter drafter("model", std::move(parts.head), std::move(parts.head_cache),
                         request.max_rows, request.max_outputs, 2, StepCosts(1e-3, 1e-4),
                         parts.models.main.model->info().vocabulary,
                         parts.further.empty() ? nullptr : std::move(parts.further.front().head));
    SamplingParams greedy;
    greedy.temperature = 0;
    DraftSampler samplers[] = {DraftSampler(greedy), DraftSampler(greedy)};
    const auto propose = [&](std::vector<std::pair<int64_t, size_t>> texts, int64_t most) {
      std::vector<DraftRequest> requests;
      for (const auto& [id, length] : texts) {
        DraftSampler& sampler = samplers[requests.size()];
        requests.push_back(
            {.id = id, .history = tokens.first(length), .most = most, .sampler = &sampler});
        sampler.begin(tokens.first(length), 0, nullptr);
      }
      std::vector<DraftRequest*> pointers;
      for (DraftRequest& r : requests) pointers.push_back(&r);
      REQUIRE(drafter.propose(pointers).ok());
      std::vector<std::vector<int32_t>> drafted;
      for (const DraftRequest& r : requests) {
        drafted.emplace_back();
        for (const DraftToken& token : r.tokens) drafted.back().push_back(token.token);
      }
      return drafted;
    };
    const auto check = [&](int64_t id, size_t length) {
      CAPTURE(length);
      const auto expected = drafts.at(std::to_string(length)).get<std::vector<int32_t>>();
      CHECK(propose({{id, length}}, 32).front() == expected);
      CHECK(propose({{id, length}}, 2).front() ==
            std::vector<int32_t>(expected.begin(), expected.begin() + 2));
    };
    const auto observe = [&](int64_t id, size_t first, size_t end) {
      drafter.observe(id, tokens.first(end),
                      std::span(states).subspan(first * width, (end - first) * width));
    };
    CHECK(propose({{7, 1}}, 4).front().empty());  // nothing was seen yet
    observe(7, 0, 1);
    check(7, 2);
    observe(7, 1, 2);
    check(7, 3);
    observe(9, 0, 19);  // another sequence
    observe(7, 2, 19);
    check(7, 20);
    const auto both = propose({{9, 20}, {7, 20}}, 32);
    CHECK(both[0] == both[1]);
    CHECK(both[0] == drafts.at("20").get<std::vector<int32_t>>());
    observe(7, 19, 20);
    check(7, 21);
    observe(7, 20, 22);  // a draft was accepted
    check(7, 23);
    observe(7, 20, 30);  // some are told again
    check(7, 31);
    CHECK(propose({{7, 30}}, 4).front().empty());  // less than was seen
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
    CHECK(propose({{7, 20}}, 2).front().size() == 2);
    observe(7, 19, 20);
    CHECK(propose({{7, 21}}, 2).front().size() == 2);
    // A third sequence takes the states of the one that was observed longest ago.
    observe(11, 0, 30);
    check(11, 31);
  }
}

TEST_CASE("DFlash heads that do not fit the model are refused, with the field") {
  struct Case {
    const char* what;
    std::function<void(std::string&)> damage;
    const char* said;
    StatusCode code = StatusCode::bad_file;
  };
  // Scalars begin 4 bytes behind their key, the elements of arrays 16 bytes.
  const Case cases[] = {
      {"layer", [](std::string& b) { change_key(b, "dflash.target_layers", 16 + 4, 99); },
       "target_layers"},
      {"negative layer", [](std::string& b) { change_key(b, "dflash.target_layers", 16, -1); },
       "target_layers"},
      {"no layers",
       [](std::string& b) { rename_in(b, "dflash.target_layers", "dflash.target_layerx"); },
       "target_layers"},
      {"mask", [](std::string& b) { change_key(b, "mask_token_id", 4, 72); }, "mask_token_id"},
      {"no mask", [](std::string& b) { rename_in(b, "mask_token_id", "mask_token_ix"); },
       "mask_token_id"},
      {"block", [](std::string& b) { change_key(b, "dflash.block_size", 4, 1); }, "block_size"},
      {"blocks", [](std::string& b) { change_key(b, "dflash.block_size", 4, 1 << 20); },
       "block_size"},
      {"no fc", [](std::string& b) { rename_in(b, "fc.weight", "xc.weight"); }, "fc.weight"},
      {"no norm", [](std::string& b) { rename_in(b, "enc.output_norm", "enc.output_nors"); },
       "enc.output_norm"},
      {"no query norm",
       [](std::string& b) { rename_in(b, "blk.1.attn_q_norm", "blk.1.attn_x_norm"); },
       "attn_q_norm"},
      {"no query", [](std::string& b) { rename_in(b, "blk.0.attn_q.", "blk.0.attn_x."); },
       "attn_q"},
      {"own width", [](std::string& b) { change_key(b, "dflash.embedding_length", 4, 26); },
       "token_embd.weight"},
      {"heads", [](std::string& b) { change_key(b, "dflash.attention.head_count", 4, 3); },
       "heads"},
      {"DFlash 2",
       [](std::string& b) { rename_in(b, "blk.0.attn_norm.weight", "selector_hidden.weight"); },
       "DFlash 2", StatusCode::unsupported},
  };
  const std::string main = golden_model("llama-f32").path;
  const std::string whole = read_text(head_path("llama-f32"));
  CHECK(refusal_of_head(main, head_path("llama-f32")).ok());
  for (const Case& c : cases) {
    CAPTURE(c.what);
    std::string bytes = whole;
    c.damage(bytes);
    const Status status = refusal_of_head(main, memory_model("damaged-dflash", bytes_of(bytes)));
    CHECK(status.code() == c.code);
    CHECK(status.message().find(c.said) != std::string::npos);
    CHECK(status.message().find("damaged-dflash") != std::string::npos);
  }
  std::string spark = read_text(head_path("gemma4-f32"));
  rename_in(spark, "markov_w2.weight", "markov_x2.weight");
  const Status status = refusal_of_head(golden_model("gemma4-f32").path,
                                        memory_model("damaged-dflash", bytes_of(spark)));
  CHECK(status.code() == StatusCode::bad_file);
  CHECK(status.message().find("markov_w2.weight") != std::string::npos);
  // Cut short at any place.
  for (size_t length = 0; length < whole.size(); length += 997) {
    const std::string part = whole.substr(0, length);
    CHECK(!refusal_of_head(main, memory_model("damaged-dflash", bytes_of(part))).ok());
  }
}
