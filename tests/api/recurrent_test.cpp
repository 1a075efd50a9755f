// Models with recurrent layers: how a text is cut, given up, taken back or gone on with changes no
// token, and what is computed again for it.
#include <algorithm>
#include <thread>

#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;

namespace {

const std::vector<std::string> kModels = {
    data_path("golden/lfm2-f32.gguf"),          data_path("golden/lfm2moe-f32.gguf"),
    data_path("golden/qwen35-f32.gguf"),        data_path("golden/qwen35moe-f32.gguf"),
    data_path("golden/qwen3next-f32.gguf"),     data_path("golden/granitehybrid-f32.gguf"),
    data_path("golden/nemotron_h-f32.gguf"),    data_path("golden/nemotron_h_moe-f32.gguf"),
    data_path("golden/falcon-h1-f32.gguf"),     data_path("golden/kimi-linear-f32.gguf"),
    data_path("golden/qwen4exp-f32.gguf"),      data_path("golden/mamba2-f32.gguf"),
    data_path("golden/mamba2-groups-f32.gguf"), data_path("golden/bailingmoe3-f32.gguf"),
    data_path("golden/minimax-01-f32.gguf"),    data_path("golden/kimi-k3-f32.gguf"),
    data_path("golden/deepseek4-f32.gguf"),     data_path("golden/glm5-next-f32.gguf"),
    data_path("golden/mamba-f32.gguf"),         data_path("golden/mamba-norms-f32.gguf"),
    data_path("golden/jamba-f32.gguf"),         data_path("golden/plamo2-f32.gguf")};

std::unique_ptr<Engine> load_recurrent(const std::string& path, int64_t context, int32_t rows = 512,
                                       bool reuse = true, int32_t parallel = 4) {
  LoadOptions options;
  options.threads = 1;
  options.context = context;
  options.batch_rows = rows;
  options.output_rows = std::min(rows, 64);
  options.prefix_reuse = reuse;
  options.parallel = parallel;
  Result<std::unique_ptr<Engine>> engine = Engine::load(path, options);
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
  return *std::move(engine);
}

std::vector<float> logits_of(Session& session, std::span<const int32_t> tokens, size_t piece) {
  std::vector<float> all;
  for (size_t at = 0; at < tokens.size(); at += piece) {
    const Status status = session.evaluate(tokens.subspan(at, std::min(piece, tokens.size() - at)),
                                           [&](int64_t, std::span<const float> logits) {
                                             all.insert(all.end(), logits.begin(), logits.end());
                                             return true;
                                           });
    REQUIRE_MESSAGE(status.ok(), status.message());
  }
  return all;
}

}  // namespace

TEST_CASE("recurrent: however a text is cut into calls and steps, its logits are the same bits") {
  const std::vector<int32_t> tokens = text(200, 1);
  for (const std::string& path : kModels) {
    CAPTURE(path);
    const std::vector<float> whole = logits_of(*open(*load_recurrent(path, 512)), tokens, 200);
    for (const int32_t rows : {1, 3, 64, 65, 512}) {
      CAPTURE(rows);
      const auto engine = load_recurrent(path, 512, rows);
      for (const size_t piece : {1, 65, 200}) {
        if (rows < 64 && piece == 65) continue;
        CHECK(logits_of(*open(*engine), tokens, piece) == whole);
      }
    }
  }
}

TEST_CASE("recurrent: sessions at once compute what each computes alone") {
  for (const std::string& path : kModels) {
    CAPTURE(path);
    constexpr size_t kSessions = 5;
    const auto plain = load_recurrent(path, 512, 512, false);
    const auto engine = load_recurrent(path, 512, 48);
    std::vector<std::vector<int32_t>> expected, found(kSessions);
    for (size_t i = 0; i < kSessions; ++i) {
      expected.push_back(
          tokens_of(*open(*plain), text(40 + 30 * static_cast<int64_t>(i), 2), sampled(40, i)));
      REQUIRE(expected.back().size() == 40);
    }
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kSessions; ++i) {
      threads.emplace_back([&, i] {
        found[i] =
            tokens_of(*open(*engine), text(40 + 30 * static_cast<int64_t>(i), 2), sampled(40, i));
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(found == expected);
  }
}

TEST_CASE("recurrent: a second turn after 8000 tokens computes its own tokens alone") {
  const auto engine = load_recurrent(kRecurrentModel, 9000);
  const std::vector<int32_t> prompt = text(8000, 1);
  const auto session = open(*engine);
  REQUIRE(tokens_of(*session, prompt, sampled(20)).size() == 20);
  const auto computed = [&] {
    const EngineStatistics s = engine->statistics();
    return s.prompt_tokens + s.recomputed_tokens;
  };
  const int64_t first = computed();
  CHECK(first == 8000);
  const std::vector<int32_t> turn = text(30, 4);
  const std::vector<int32_t> made = tokens_of(*session, turn, sampled(20));
  // The turn, and the last token of the one before it.
  CHECK(computed() - first <= 31);

  // A client that sends the whole text again: it differs from where the answer began.
  std::vector<int32_t> again = prompt;
  const std::vector<int32_t> other = text(50, 6);
  again.insert(again.end(), other.begin(), other.end());
  const int64_t second = computed();
  const auto client = open(*engine);
  REQUIRE(tokens_of(*client, again, sampled(5)).size() == 5);
  CHECK(client->statistics().reused_tokens == 8000 / kPageTokens * kPageTokens);
  CHECK(computed() - second <= 50 + kPageTokens);

  // One that goes back into the long text computes from a checkpoint on.
  const int64_t third = computed();
  REQUIRE(session->truncate(5000).ok());
  REQUIRE(tokens_of(*session, turn, sampled(5)).size() == 5);
  CHECK(computed() - third <= 30 + kCheckpointTokens);
}

TEST_CASE("recurrent: what is taken back is computed again, from a checkpoint or the beginning") {
  for (const std::string& path : kModels) {
    CAPTURE(path);
    const std::vector<int32_t> tokens = text(300, 1);
    const std::vector<int32_t> more = text(20, 9);
    const auto plain = load_recurrent(path, 1024, 512, false);
    for (const bool reuse : {true, false}) {
      const auto engine = load_recurrent(path, 1024, 512, reuse);
      const auto session = open(*engine);
      REQUIRE(tokens_of(*session, tokens, sampled(70)).size() == 70);
      REQUIRE(session->truncate(340).ok());  // some of its own tokens stay
      for (const int64_t length : {290, 256, 70, 3, 0}) {
        CAPTURE(length);
        REQUIRE(session->truncate(length).ok());
        const auto twin = open(*plain);
        REQUIRE(twin->evaluate(std::span(tokens).first(static_cast<size_t>(length)), {}).ok());
        CHECK(tokens_of(*session, more, sampled(10)) == tokens_of(*twin, more, sampled(10)));
        REQUIRE(session->truncate(length).ok());
      }
    }
  }
}

TEST_CASE("recurrent: a shifted context goes on as the shorter text would") {
  for (const std::string& path : {kModels[0], kModels[2], kModels[6], kModels[8]}) {
    CAPTURE(path);
    const auto engine = load_recurrent(path, 128);
    const auto plain = load_recurrent(path, 128, 512, false);
    GenerateOptions shifting = sampled(300);
    shifting.overflow = ContextOverflow::shift;
    shifting.keep = 5;
    const std::vector<int32_t> made = tokens_of(*open(*engine), text(100, 1), shifting);
    CHECK(made.size() == 300);
    CHECK(tokens_of(*open(*plain), text(100, 1), shifting) == made);
  }
}

TEST_CASE("recurrent: saved sessions go on in another engine") {
  const TempDir folder;
  const std::string file = folder.path("session");
  for (const std::string& path : kModels) {
    CAPTURE(path);
    const auto engine = load_recurrent(path, 512);
    const auto session = open(*engine);
    REQUIRE(tokens_of(*session, text(100, 1), sampled(37)).size() == 37);
    const Status saved = session->save(file);
    REQUIRE_MESSAGE(saved.ok(), saved.message());
    const std::vector<int32_t> expected = tokens_of(*session, {}, sampled(40));
    const auto other = load_recurrent(path, 512, 7, false);
    const auto restored = open(*other);
    const Status status = restored->restore(file);
    REQUIRE_MESSAGE(status.ok(), status.message());
    CHECK(restored->statistics().reused_tokens >= 136);
    CHECK(tokens_of(*restored, {}, sampled(40)) == expected);
  }
}

TEST_CASE("recurrent: the plan has a line for states, and the cache holds what it says") {
  for (const std::string& path : kModels) {
    CAPTURE(path);
    LoadOptions options;
    options.context = 1024;
    const MemoryReport planned = plan_model(path, options).value();
    CHECK(planned.states > 0);
    CHECK(planned.states <= planned.kv);  // Mamba-2 has nothing else
    const auto engine = Engine::load(path, options).value();
    CHECK(engine->memory().kv == planned.kv);
    options.context = 4096;  // states do not grow with the context
    CHECK(plan_model(path, options).value().states == planned.states);
  }
  CHECK(plan_model(kModel, {}).value().states == 0);
}
