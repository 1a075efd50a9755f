// Heads in files of their own that draft for a model: no token changes, the memory is the planned
// one. eagle3_test.cpp, assistant_test.cpp and dflash_test.cpp have what they compute.
#include <doctest.h>

#include <cstdio>
#include <utility>

#include "tests/devices.h"
#include "tests/golden/drafting.h"
#include "tests/kept_devices.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

/// Models, each with the file of a head.
const std::vector<std::pair<std::string, std::string>> kDraftHeads = [] {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& [kind, models] :
       {std::pair<std::string, std::vector<std::string>>{
            "eagle3", {"llama-f32", "qwen35-f32", "gemma4-f32", "nemotron_h_moe-f32"}},
        {"gemma4-assistant", {"gemma4-f32", "gemma4-moe-f32"}},
        {"dflash", {"llama-f32", "qwen35-f32", "gemma4-f32", "muse-glimmer-f32"}}}) {
    for (const std::string& model : models) {
      all.emplace_back(model, data_path("heads/" + kind + "-" + model + ".gguf"));
    }
  }
  return all;
}();

}  // namespace

TEST_CASE("with draft heads every token is that without, however it is computed") {
  DraftedText all;
  for (const auto& [name, head] : kDraftHeads) {
    CAPTURE(head);
    expect_same_texts(golden_model(name), without_head(), with_head(head), 60, all);
  }
  std::printf("drafted %lld, accepted %lld\n", static_cast<long long>(all.drafted),
              static_cast<long long>(all.accepted));
  CHECK(all.drafted > 1000);
  CHECK(all.accepted > 10);  // random heads are right by chance
}

TEST_CASE("with draft heads turns, saved sessions, shared prefixes and preemption keep tokens") {
  for (const auto& [name, head] : kDraftHeads) {
    CAPTURE(head);
    const GoldenModel model = golden_model(name);
    const TempDir folder;
    std::vector<int32_t> prompt;
    for (int i = 0; i < 3; ++i) {
      prompt.insert(prompt.end(), model.tokens.begin(), model.tokens.begin() + 25);
    }
    const auto plain = load_engine(model.path, without_head());
    const auto engine = load_engine(model.path, with_head(head));
    CHECK(texts_of_turns(*engine, prompt, folder.path("state"), 3) ==
          texts_of_turns(*plain, prompt, folder.path("state"), 0));
    LoadOptions options = with_head(head);  // a cache that does not hold all of them at once
    options.context = 192;
    options.batch_rows = 16;
    options.fewer_rows = false;
    options.drafters.insert(options.drafters.begin(), "suffix");
    const auto narrow = load_engine(model.path, options);
    CHECK(texts_at_once(*narrow, prompt) == texts_in_turn(*plain, prompt));
  }
}

TEST_CASE("draft heads take the planned memory, and what they share is there once") {
  for (const auto& [name, head] : kDraftHeads) {
    CAPTURE(head);
    const std::string path = golden_model(name).path;
    const MemoryReport plain = plan_model(path, without_head()).value();
    const MemoryReport planned = plan_model(path, with_head(head)).value();
    const auto file = static_cast<int64_t>(read_text(head).size());
    CHECK(planned.weights > plain.weights);
    CHECK(planned.weights - plain.weights < 2 * file);
    const bool shares = head.find("gemma4-assistant") != std::string::npos;
    CHECK((planned.kv > plain.kv) == !shares);
    if (shares) CHECK(planned.kv == plain.kv);
    CHECK(planned.drafters > 0);
    const MemoryReport taken = load_engine(path, with_head(head))->memory();
    CHECK(taken.weights == planned.weights);
    CHECK(taken.kv == planned.kv);
    CHECK(taken.activations == planned.activations);
    CHECK(taken.scratch == planned.scratch);
    LoadOptions mapped = with_head(head);
    mapped.mmap = true;
    CHECK(load_engine(path, mapped) != nullptr);
    // It is not loaded if others draft.
    LoadOptions others = with_head(head);
    others.drafters = {"ngram"};
    LoadOptions ngram = without_head();
    ngram.drafters = {"ngram"};
    CHECK(plan_model(path, others).value().total == plan_model(path, ngram).value().total);
  }
}

TEST_CASE("devices: draft heads change no token, and take the planned memory") {
  const KeptDevices kept;
  for (const std::string& device : other_devices()) {
    for (const auto& [name, head] : kDraftHeads) {
      INFO(device << " " << head);
      const GoldenModel model = golden_model(name);
      const std::vector<int32_t> prompt(model.tokens.begin(), model.tokens.begin() + 20);
      LoadOptions plain = without_head();
      LoadOptions drafting = with_head(head);
      plain.device = drafting.device = device;
      const MemoryReport planned = plan_model(model.path, drafting).value();
      const auto engine = load_engine(model.path, drafting);
      const MemoryReport taken = engine->memory();
      CHECK(taken.weights == planned.weights);
      CHECK(taken.kv == planned.kv);
      CHECK(taken.activations == planned.activations);
      CHECK(taken.scratch == planned.scratch);
      const auto session = engine->open_session().value();
      const DraftedText text = generated_text(*session, prompt, generating(20, 1, 2));
      CHECK(text.drafted > 10);
      const auto other = load_engine(model.path, plain);
      CHECK(text.tokens ==
            generated_text(*other->open_session().value(), prompt, generating(20, 1, 0)).tokens);
    }
  }
}
