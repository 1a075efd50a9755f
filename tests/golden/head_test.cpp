// Layers of a file that predict further tokens, as a drafter: their logits are those of the
// reference, no token changes, and the memory is the planned one.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/core/file.h"
#include "engine/spec/draft_sampler.h"
#include "engine/spec/head_drafter.h"
#include "tests/golden/drafting.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

/// GLM has two such layers and the last one three, which form chains.
const std::vector<std::string> kHeads = {
    "qwen35-f32",  "glm4moe-f32",     "deepseek2-flash-f32", "nemotron_h_moe-f32",
    "mimo-f32",    "mimo2-f32",       "hy_v3-f32",           "deepseek32-f32",
    "glm-dsa-f32", "bailingmoe3-f32", "cohere2moe-f32"};

LoadOptions usual(const char* drafter) {
  LoadOptions options;
  options.threads = 1;
  options.context = 384;
  if (drafter != nullptr) options.drafters = {drafter};
  return options;
}

std::vector<ModelAndHead::Further> heads_of(ModelAndHead& parts) {
  std::vector<ModelAndHead::Further> heads;
  heads.push_back({std::move(parts.head), std::move(parts.head_cache)});
  for (ModelAndHead::Further& head : parts.further) heads.push_back(std::move(head));
  return heads;
}

/// What heads draft by themselves after the first `length` tokens: each one token from the states
/// of the model or of the head before it, the last one further tokens from its own. `states`: those
/// of the model.
std::vector<int32_t> drafted_by_hand(std::span<ModelAndHead::Further> heads,
                                     std::span<const int32_t> tokens, std::span<const float> states,
                                     size_t width, size_t length, size_t most) {
  std::vector<int32_t> history(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(length));
  std::vector<float> given(width, 0.0f);
  given.insert(given.end(), states.begin(),
               states.begin() + static_cast<ptrdiff_t>((length - 1) * width));
  std::vector<int32_t> drafted;
  for (ModelAndHead::Further& head : heads) {
    const bool last = &head == &heads.back();
    const auto id = head.cache->add_sequence();
    std::vector<float> made(width, 0.0f);
    size_t done = 0;
    const size_t enough = last ? most : drafted.size() + 1;
    while (drafted.size() < enough) {
      const size_t end = std::min(history.size(), done + 16);
      const std::vector<float> logits =
          run_rows(*head.head, *head.cache, id, history, done, end,
                   {std::span(given).subspan(done * width, (end - done) * width), {}}, &made);
      const size_t rows = end - done;
      done = end;
      if (done < history.size()) continue;
      const auto row = std::span(logits).last(logits.size() / rows);
      drafted.push_back(static_cast<int32_t>(std::ranges::max_element(row) - row.begin()));
      history.push_back(drafted.back());
      if (last) given.insert(given.end(), made.end() - static_cast<ptrdiff_t>(width), made.end());
    }
    head.cache->remove_sequence(id);
    given = std::move(made);
  }
  return drafted;
}

std::unique_ptr<HeadDrafter> drafter_of(std::vector<ModelAndHead::Further> heads) {
  std::unique_ptr<HeadDrafter> drafter;
  for (; !heads.empty(); heads.pop_back()) {
    drafter = std::make_unique<HeadDrafter>("mtp", std::move(heads.back().head),
                                            std::move(heads.back().cache), 16, 4, 4,
                                            StepCosts(1e-3, 1e-4), 72, std::move(drafter));
  }
  return drafter;
}

}  // namespace

TEST_CASE("the logits of next-token layers are those of the reference, in pieces of any size") {
  for (const std::string& name : kHeads) {
    CAPTURE(name);
    const GoldenModel model = golden_model(name);
    const std::vector<float> exact = read_f32(data_path("golden/" + name + ".head.f32"));
    std::vector<float> whole, states_whole;
    for (const size_t piece : {size_t{16}, size_t{1}, size_t{3}}) {
      CAPTURE(piece);
      ModelAndHead parts(model.path);
      std::vector<ModelAndHead::Further> heads = heads_of(parts);
      CHECK(heads.size() == (name == "mimo2-f32" ? 3 : name == "glm4moe-f32" ? 2 : 1));
      const auto id = parts.cache->add_sequence();
      const auto width = static_cast<size_t>(heads[0].head->info().takes_hidden);
      std::vector<float> states(width, 0.0f), logits;
      for (size_t at = 0; at < model.tokens.size(); at += piece) {
        const size_t end = std::min(at + piece, model.tokens.size());
        run_rows(*parts.executor, *parts.cache, id, model.tokens, at, end, {}, &states);
      }
      std::vector<float> given = states;
      for (ModelAndHead::Further& head : heads) {
        const auto head_id = head.cache->add_sequence();
        std::vector<float> made(width, 0.0f);
        for (size_t at = 0; at < model.tokens.size(); at += piece) {
          const size_t end = std::min(at + piece, model.tokens.size());
          const std::vector<float> some =
              run_rows(*head.head, *head.cache, head_id, model.tokens, at, end,
                       {std::span(given).subspan(at * width, (end - at) * width), {}}, &made);
          logits.insert(logits.end(), some.begin(), some.end());
        }
        given = std::move(made);
      }
      REQUIRE(logits.size() == exact.size());
      if (whole.empty()) {
        whole = logits;
        states_whole = states;
        double off = 0, all = 0;
        for (size_t i = 0; i < exact.size(); ++i) {
          off += std::pow(double{logits[i]} - double{exact[i]}, 2);
          all += std::pow(double{exact[i]}, 2);
        }
        CHECK(off / all < 1e-10);
      }
      CHECK(logits == whole);
      CHECK(states == states_whole);
    }
    // Beside the rows whose logits are wanted: the same numbers.
    std::vector<float> logits[2], states[2];
    for (const bool apart : {false, true}) {
      ModelAndHead parts(model.path, "", apart);
      const auto id = parts.cache->add_sequence();
      logits[apart] =
          run_rows(*parts.executor, *parts.cache, id, model.tokens, 0, 20, {}, &states[apart]);
    }
    CHECK(logits[0] == logits[1]);
    CHECK(states[0] == states[1]);
  }
}

TEST_CASE("what is drafted follows from the pairs of tokens and the states before them") {
  for (const std::string& name : kHeads) {
    CAPTURE(name);
    const GoldenModel model = golden_model(name);
    const std::span<const int32_t> tokens = std::span(model.tokens).first(45);
    ModelAndHead parts(model.path);
    std::vector<ModelAndHead::Further> heads = heads_of(parts);
    const auto id = parts.cache->add_sequence();
    const auto width = static_cast<size_t>(heads[0].head->info().takes_hidden);
    std::vector<float> states;
    for (size_t at = 0; at < tokens.size(); at += 15) {
      run_rows(*parts.executor, *parts.cache, id, tokens, at, at + 15, {}, &states);
    }
    constexpr int64_t kMost = 5;
    std::vector<std::vector<int32_t>> by_hand;
    std::vector<size_t> lengths = {20, 21, 23, 31, 40, 30};
    for (size_t length = 31; length < 45; ++length) lengths.push_back(length);
    for (const size_t length : lengths) {
      by_hand.push_back(drafted_by_hand(heads, tokens, states, width, length, kMost));
    }

    const std::unique_ptr<HeadDrafter> drafter = drafter_of(std::move(heads));
    SamplingParams greedy;
    greedy.temperature = 0;
    DraftSampler sampler(greedy);
    size_t next = 0;
    const auto check = [&](size_t length) {
      CAPTURE(length);
      const auto history = tokens.first(length);
      DraftRequest request{.id = 7, .history = history, .most = kMost, .sampler = &sampler};
      sampler.begin(history, 0, nullptr);
      DraftRequest* const requests[] = {&request};
      REQUIRE(drafter->propose(requests).ok());
      std::vector<int32_t> drafted;
      for (const DraftToken& token : request.tokens) drafted.push_back(token.token);
      CHECK(drafted == by_hand[next++]);
    };
    const auto observe = [&](size_t first, size_t end) {
      drafter->observe(7, tokens.first(end),
                       std::span(states).subspan(first * width, (end - first) * width));
    };
    observe(0, 15);
    observe(15, 19);
    check(20);
    observe(19, 20);
    check(21);
    observe(20, 22);  // a draft was accepted
    check(23);
    observe(20, 30);  // some are told again
    check(31);
    observe(30, 31);
    observe(31, 39);
    check(40);
    // Another text after 29 tokens, which then becomes the first one again.
    std::vector<int32_t> other(tokens.begin(), tokens.begin() + 33);
    for (size_t t = 29; t < 33; ++t) other[t] = (other[t] + 1) % 70;
    drafter->observe(7, other, std::span(states).subspan(25 * width, 8 * width));
    observe(25, 29);
    observe(28, 29);
    DraftRequest request{.id = 7, .history = other, .most = 1, .sampler = &sampler};
    DraftRequest* const requests[] = {&request};
    REQUIRE(drafter->propose(requests).ok());
    CHECK(request.tokens.empty());  // the state before its last token is not known
    check(30);
    for (size_t length = 31; length < 45; ++length) {  // what was drafted is refused each time
      observe(length - 2, length - 1);
      check(length);
    }
    // Others come, as many as it keeps states of: those of this one are lost, but not what is known
    // of the others. It goes on with what it sees from then on.
    for (const int64_t id : {8, 9, 10, 11}) {
      drafter->observe(id, tokens.first(19), std::span(states).first(19 * width));
    }
    const auto drafted = [&](int64_t id, size_t length) {
      const auto history = tokens.first(length);
      DraftRequest asked{.id = id, .history = history, .most = kMost, .sampler = &sampler};
      sampler.begin(history, 0, nullptr);
      DraftRequest* const all[] = {&asked};
      REQUIRE(drafter->propose(all).ok());
      std::vector<int32_t> made;
      for (const DraftToken& token : asked.tokens) made.push_back(token.token);
      return made;
    };
    for (const int64_t id : {8, 9, 10, 11}) CHECK(drafted(id, 20) == by_hand[0]);
    observe(40, 44);
    CHECK_FALSE(drafted(7, 45).empty());
    CHECK(drafted(11, 20) == by_hand[0]);
  }
}

TEST_CASE("with next-token layers every token is that without, however it is computed") {
  DraftedText all;
  for (const std::string& name : kHeads) {
    CAPTURE(name);
    expect_same_texts(golden_model(name), usual(nullptr), usual("mtp"), 90, all);
  }
  std::printf("drafted %lld, accepted %lld\n", static_cast<long long>(all.drafted),
              static_cast<long long>(all.accepted));
  CHECK(all.drafted > 2000);
  CHECK(all.accepted > 20);  // random layers are right by chance
}

TEST_CASE("turns, truncation, saved sessions, shared prefixes and preemption keep the tokens") {
  for (const char* const name : {"qwen35-f32", "glm4moe-f32", "mimo2-f32"}) {
    CAPTURE(name);
    const GoldenModel model = golden_model(name);
    const TempDir folder;
    std::vector<int32_t> prompt;
    for (int i = 0; i < 3; ++i) {
      prompt.insert(prompt.end(), model.tokens.begin(), model.tokens.begin() + 25);
    }
    const auto plain = load_engine(model.path, usual(nullptr));
    const auto engine = load_engine(model.path, usual("mtp"));
    CHECK(texts_of_turns(*engine, prompt, folder.path("state"), 3) ==
          texts_of_turns(*plain, prompt, folder.path("state"), 0));

    // A cache that does not hold all of them at once.
    LoadOptions options = usual("mtp");
    options.context = 192;
    options.batch_rows = 16;
    options.fewer_rows = false;
    const auto narrow = load_engine(model.path, options);
    CHECK(texts_at_once(*narrow, prompt) == texts_in_turn(*plain, prompt));
  }
}

TEST_CASE("after refused drafts of recurrent models no token is computed again") {
  for (const char* const name : {"qwen35-f32", "nemotron_h_moe-f32"}) {
    for (const int32_t drafts : {1, 3, 4}) {
      CAPTURE(name);
      CAPTURE(drafts);
      const GoldenModel model = golden_model(name);
      const std::vector<int32_t> prompt(model.tokens.begin(), model.tokens.begin() + 40);
      const auto engine = load_engine(model.path, usual("mtp"));
      const auto session = engine->open_session().value();
      const DraftedText text = generated_text(*session, prompt, generating(100, 1, drafts));
      CHECK(text.drafted > text.accepted + 80);
      CHECK(engine->statistics().recomputed_tokens == 0);
    }
  }
}

TEST_CASE("next-token layers take the planned memory, and none if they do not draft") {
  for (const std::string& name : kHeads) {
    CAPTURE(name);
    const std::string path = golden_model(name).path;
    const MemoryReport plain = plan_model(path, usual(nullptr)).value();
    LoadOptions options = usual("mtp");
    const MemoryReport planned = plan_model(path, options).value();
    CHECK(planned.weights > plain.weights);
    CHECK(planned.kv > plain.kv);
    // What they share with the model is there once.
    const int64_t width = load_engine(path, usual(nullptr))->model().embedding;
    const int64_t table = width * 72 * int64_t{sizeof(float)};
    CHECK(planned.weights - plain.weights < plain.weights);
    if (name == "qwen35-f32") CHECK(planned.weights - plain.weights < 10 * table);
    const auto engine = load_engine(path, options);
    const MemoryReport taken = engine->memory();
    CHECK(taken.weights == planned.weights);
    CHECK(taken.kv == planned.kv);
    CHECK(taken.activations == planned.activations);
    CHECK(taken.scratch == planned.scratch);
    options.drafters = {"auto"};
    CHECK(plan_model(path, options).value().weights == planned.weights);
  }
  LoadOptions options = usual("auto");
  const std::string other = data_path("golden/llama-f32.gguf");
  CHECK(plan_model(other, options).value().total ==
        plan_model(other, usual(nullptr)).value().total);
  options.drafters = {"mtp"};
  const auto none = plan_model(other, options);
  REQUIRE(!none.has_value());
  CHECK(none.error().code() == StatusCode::unsupported);
  CHECK(none.error().message().find("nextn_predict_layers") != std::string::npos);
}

TEST_CASE("a damaged next-token layer is named, and the model runs without it") {
  const auto swapped = [&](const std::string& one, const std::string& other) {
    const char* const model = one.find("blk.4.") == 0 ? "qwen35-f32" : "mimo2-f32";
    std::string bytes = read_text(golden_model(model).path);
    const size_t a = bytes.find(one), b = bytes.find(other);
    REQUIRE(a != std::string::npos);
    bytes.replace(a, one.size(), other);
    if (b != std::string::npos) bytes.replace(b, other.size(), one);
    return bytes;
  };
  const std::pair<std::string, std::string> cases[] = {
      {"blk.4.nextn.hnorm.weight", "blk.4.nextn.xnorm.weight"},
      {"blk.4.nextn.eh_proj.weight", "blk.4.nextn.xx_proj.weight"},
      {"blk.4.ffn_down.weight", "blk.4.ffn_xown.weight"},
      {"blk.4.attn_q.weight", "blk.4.attn_k.weight"},
      {"blk.6.nextn.eh_proj.weight", "blk.6.nextn.xx_proj.weight"},  // the last one of a chain
  };
  for (const auto& [name, other] : cases) {
    CAPTURE(name);
    const std::string bytes = swapped(name, other);
    const std::string path = memory_model("damaged-head", bytes_of(bytes));
    const auto failed = plan_model(path, usual("mtp"));
    REQUIRE(!failed.has_value());
    CHECK(failed.error().code() == StatusCode::bad_file);
    CHECK(failed.error().message().find(name) != std::string::npos);
    CHECK(plan_model(path, usual("auto")).has_value());
    CHECK(plan_model(path, usual(nullptr)).has_value());
  }
}
