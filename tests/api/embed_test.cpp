// Vectors and scores of texts: what the API promises, in C++ and C. What the models compute is
// tested in tests/cli/test_embed.py.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "tests/api/c_model.h"

using namespace infer;
using namespace infer::test;

namespace {

const std::vector<std::string> kTexts{"the cat sits outside", "", "a new movie, a new pasta",
                                      "how tall is the man"};

std::unique_ptr<Engine> load_texts(const char* name, LoadOptions options = {}) {
  auto engine = Engine::load(data_path(std::string("embed/") + name), options);
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
  return *std::move(engine);
}

Embeddings embed(Engine& engine, std::span<const std::string> texts,
                 const EmbedOptions& options = {}) {
  auto made = engine.embed(texts, options);
  REQUIRE_MESSAGE(made.has_value(), made.error().message());
  return *std::move(made);
}

}  // namespace

TEST_CASE("embed: a text's bits do not depend on the others, the order, the threads or the step") {
  const Embeddings all = embed(*load_texts("modern-bert"), kTexts);
  CHECK(all.dimensions == 24);
  CHECK(all.begins == std::vector<int64_t>{0, 1, 2, 3, 4});
  LoadOptions other;
  other.threads = 3;
  other.context = 20;
  other.batch_rows = 1;  // a step has one text
  const std::unique_ptr<Engine> engine = load_texts("modern-bert", other);
  CHECK(engine->longest_text() == 20);
  for (size_t i = 0; i < kTexts.size(); ++i) {
    const Embeddings one = embed(*engine, std::span(kTexts).subspan(i, 1));
    CHECK(std::memcmp(one.values.data(), all.values.data() + 24 * i, 24 * sizeof(float)) == 0);
  }
  const std::vector<std::string> reversed(kTexts.rbegin(), kTexts.rend());
  const Embeddings backwards = embed(*engine, reversed);
  CHECK(backwards.tokens == all.tokens);
  for (size_t i = 0; i < kTexts.size(); ++i) {
    const float* found = backwards.values.data() + 24 * (kTexts.size() - 1 - i);
    CHECK(std::memcmp(found, all.values.data() + 24 * i, 24 * sizeof(float)) == 0);
  }
}

TEST_CASE("embed and rerank: progress sees each step, and may cancel before any of them") {
  LoadOptions load;
  load.context = 20;
  load.batch_rows = 1;  // a step has a text or two
  const std::unique_ptr<Engine> engine = load_texts("bert-mean", load);
  std::vector<double> seen;
  EmbedOptions options;
  options.progress = [&](double done) {
    seen.push_back(done);
    return true;
  };
  CHECK(embed(*engine, kTexts, options).begins.size() == kTexts.size() + 1);
  REQUIRE(seen.size() > 1);
  CHECK(seen.front() == 0);
  CHECK(std::ranges::is_sorted(seen));
  CHECK(seen.back() < 1);
  options.progress = [](double done) { return done == 0; };
  CHECK(engine->embed(kTexts, options).error().code() == StatusCode::cancelled);
  options.progress = [](double) -> bool { throw std::runtime_error("no more"); };
  const Status thrown = engine->embed(kTexts, options).error();
  CHECK(thrown.code() == StatusCode::invalid_argument);
  CHECK(thrown.message() == "the callback threw: no more");
  CHECK(embed(*engine, kTexts).begins.size() == kTexts.size() + 1);
  RerankOptions ranked;
  ranked.progress = [](double) { return false; };
  CHECK(load_texts("bert-rank")->rerank("cat", kTexts, ranked).error().code() ==
        StatusCode::cancelled);
}

TEST_CASE("embed: calls of several threads at once give the same bits") {
  const std::unique_ptr<Engine> engine = load_texts("bert-mean");
  const Embeddings expected = embed(*engine, kTexts);
  std::vector<Embeddings> made(4);
  {
    std::vector<std::jthread> callers;
    for (Embeddings& one : made) {
      callers.emplace_back([&] {
        if (auto found = engine->embed(kTexts)) one = *std::move(found);
      });
    }
  }
  for (const Embeddings& one : made) CHECK(one.values == expected.values);
}

TEST_CASE(
    "embed: other devices compute all layers, and a text's bits do not depend on the others") {
  bool any = false;
  for (const DeviceDescription& device : devices()) {
    if (device.name == "cpu") continue;
    any = true;
    for (const char* name :
         {"bert-mean", "modern-bert", "jina-bert-v2/model.gguf", "gemma-embedding"}) {
      CAPTURE(device.name);
      CAPTURE(name);
      LoadOptions options;
      options.device = device.name;
      CHECK(plan_model(data_path(std::string("embed/") + name), options).value().refused.empty());
      const std::vector<std::string> texts{kTexts[0], kTexts[2]};
      const std::unique_ptr<Engine> engine = load_texts(name, options);
      const Embeddings found = embed(*engine, texts);
      const Embeddings expected = embed(*load_texts(name), texts);
      REQUIRE(found.values.size() == expected.values.size());
      for (size_t i = 0; i < found.values.size(); ++i) {
        CHECK(found.values[i] == doctest::Approx(expected.values[i]).epsilon(1e-4).scale(1));
      }
      const Embeddings second = embed(*engine, std::span(texts).subspan(1));
      const size_t size = second.values.size();
      REQUIRE(size * 2 == found.values.size());
      CHECK(std::memcmp(second.values.data(), found.values.data() + size, size * sizeof(float)) ==
            0);
    }
  }
  if (!any) MESSAGE("SKIPPED: no device beside the CPU");
}

TEST_CASE("embed: what is planned is what is allocated, and there is no cache") {
  for (const char* name : {"bert-mean", "gemma-embedding", "qwen3-embedding"}) {
    const std::string path = data_path(std::string("embed/") + name);
    const auto planned = plan_model(path, {});
    REQUIRE(planned.has_value());
    const std::unique_ptr<Engine> engine = load_texts(name);
    const std::vector<std::string> long_text(9, kTexts[2]);
    embed(*engine, long_text);
    const MemoryReport used = engine->memory();
    CHECK(planned->kv == 0);
    CHECK(used.kv == 0);
    CHECK(used.weights == planned->weights);
    CHECK(used.activations == planned->activations);
    CHECK(used.scratch == planned->scratch);
  }
}

TEST_CASE("embed: fewer dimensions, lengths, a vector for each token") {
  const std::unique_ptr<Engine> engine = load_texts("bert-mean");
  const Embeddings whole = embed(*engine, kTexts, {0, false, false});
  const Embeddings part = embed(*engine, kTexts, {5, true, false});
  CHECK(part.dimensions == 5);
  for (size_t t = 0; t < kTexts.size(); ++t) {
    double squares = 0;
    for (size_t i = 0; i < 5; ++i) squares += std::pow(whole.values[24 * t + i], 2);
    for (size_t i = 0; i < 5; ++i) {
      CHECK(part.values[5 * t + i] ==
            doctest::Approx(whole.values[24 * t + i] / std::sqrt(squares)).epsilon(1e-6));
    }
  }
  LoadOptions each;
  each.pooling = "none";
  const Embeddings tokens = embed(*load_texts("bert-mean", each), kTexts, {0, false, false});
  CHECK(tokens.begins.back() == tokens.tokens);
  CHECK(tokens.begins[2] - tokens.begins[1] == 2);  // what is around an empty text
  for (size_t t = 0; t < kTexts.size(); ++t) {
    double mean = 0;
    for (int64_t v = tokens.begins[t]; v < tokens.begins[t + 1]; ++v) {
      mean += tokens.values[static_cast<size_t>(v) * 24];
    }
    mean /= static_cast<double>(tokens.begins[t + 1] - tokens.begins[t]);
    CHECK(whole.values[24 * t] == doctest::Approx(mean).epsilon(1e-5));
  }
}

TEST_CASE("embed: texts, options and models that are wrong are refused with what is wrong") {
  LoadOptions small;
  small.context = 6;
  const std::unique_ptr<Engine> engine = load_texts("bert-mean", small);
  const auto failure = [&](Engine& of, const std::vector<std::string>& texts,
                           const EmbedOptions& options = {}) {
    const auto made = of.embed(texts, options);
    REQUIRE_FALSE(made.has_value());
    return made.error();
  };
  const Status long_one = failure(*engine, {"cat", "the cat sits outside the movie"});
  CHECK(long_one.code() == StatusCode::does_not_fit);
  CHECK(long_one.message().find("text 1 has 8 tokens") != std::string::npos);
  CHECK(long_one.message().find("at most 6") != std::string::npos);
  // The text that is cut ends as every text does.
  const std::vector<std::string> cut{"the cat sits outside the movie"};
  const std::vector<std::string> same{"the cat sits outside"};
  CHECK(embed(*engine, cut, {0, true, true}).values == embed(*engine, same).values);
  CHECK(failure(*engine, {"cat"}, {-1}).code() == StatusCode::invalid_argument);
  CHECK(failure(*engine, {"cat"}, {25}).code() == StatusCode::invalid_argument);
  CHECK(engine->rerank("cat", kTexts).error().code() == StatusCode::unsupported);
  CHECK(engine->open_session().error().code() == StatusCode::unsupported);
  CHECK(embed(*engine, {}).values.empty());

  const std::unique_ptr<Engine> generates = load();
  CHECK_FALSE(generates->makes_embeddings());
  CHECK(failure(*generates, {"cat"}).code() == StatusCode::unsupported);
  CHECK(failure(*load_texts("bert-rank"), {"cat"}).code() == StatusCode::unsupported);
  LoadOptions wrong;
  wrong.pooling = "max";
  CHECK(Engine::load(data_path("embed/bert-mean"), wrong).error().code() ==
        StatusCode::invalid_argument);
  wrong.pooling = "rank";  // it has no classifier
  CHECK(Engine::load(data_path("embed/bert-mean"), wrong).error().code() ==
        StatusCode::unsupported);
}

TEST_CASE("embed: models of every family that generates make vectors too") {
  constexpr const char* kRecurrent[] = {"lfm2",       "qwen35",      "qwen3next",   "granitehybrid",
                                        "nemotron_h", "falcon-h1",   "kimi-linear", "qwen4exp",
                                        "mamba",      "bailingmoe3", "minimax-01",  "kimi-k3",
                                        "deepseek4",  "glm5-next",   "jamba",       "plamo2"};
  StepBatch batch;
  batch.tokens = {1, 5, 9, 4, 7};
  batch.slots = {0, 1, 2, 0, 1};
  batch.positions.assign(batch.slots.begin(), batch.slots.end());
  batch.sequences = {0, 0, 0, 1, 1};
  batch.text_begins = {0, 0, 0, 3, 3};
  batch.text_ends = {3, 3, 3, 5, 5};
  batch.token_types.assign(5, 0);
  for (const auto& file : std::filesystem::directory_iterator(data_path("golden"))) {
    if (file.path().extension() != ".gguf") continue;
    CAPTURE(file.path().string());
    LoadOptions options;
    options.embeddings = true;
    std::vector<std::vector<float>> rows;
    // Recurrent layers need a state for each text, which these steps do not have.
    const std::string name = file.path().filename().string();
    if (std::ranges::any_of(kRecurrent,
                            [&](const char* family) { return name.starts_with(family); })) {
      const auto engine = Engine::load(file.path().string(), options);
      REQUIRE_FALSE(engine.has_value());
      CHECK(engine.error().code() == StatusCode::unsupported);
      CHECK(engine.error().message().find("recurrent layers") != std::string::npos);
      continue;
    }
    for (const char* pooling : {"none", "last"}) {
      options.pooling = pooling;
      const auto engine = Engine::load(file.path().string(), options);
      REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
      CHECK((*engine)->memory().kv == 0);
      batch.output_rows = {0, 1, 2, 3, 4};
      if (options.pooling == "last") batch.output_rows = {2, 4};
      const auto made = EngineAccess::impl(**engine).executor->run(batch);
      REQUIRE_MESSAGE(made.has_value(), made.error().message());
      rows.emplace_back(made->begin(), made->end());
      CHECK(std::ranges::all_of(rows.back(), [](float x) { return std::isfinite(x); }));
    }
    // The last tokens' vectors among all.
    const auto width = static_cast<int64_t>(rows[1].size() / 2);
    REQUIRE(rows[0].size() == static_cast<size_t>(5 * width));
    CHECK(std::equal(rows[1].begin(), rows[1].begin() + width, rows[0].begin() + 2 * width));
    CHECK(std::equal(rows[1].begin() + width, rows[1].end(), rows[0].begin() + 4 * width));
  }
}

TEST_CASE("rerank: sorted, and a score does not depend on the other texts") {
  const std::unique_ptr<Engine> engine = load_texts("bert-rank");
  const auto all = engine->rerank("how tall is the cat?", kTexts);
  REQUIRE(all.has_value());
  REQUIRE(all->texts.size() == kTexts.size());
  for (size_t i = 0; i < kTexts.size(); ++i) {
    const RankedText& text = all->texts[i];
    if (i > 0) CHECK(all->texts[i - 1].score >= text.score);
    const auto one = engine->rerank("how tall is the cat?",
                                    std::span(kTexts).subspan(static_cast<size_t>(text.index), 1));
    REQUIRE(one.has_value());
    CHECK(one->texts[0].score == text.score);
  }
}

TEST_CASE("C: vectors and scores of texts") {
  infer_load_options options;
  infer_load_options_init(&options, sizeof(options));
  infer_engine* engine = nullptr;
  REQUIRE(infer_engine_load(data_path("embed/bert-mean").c_str(), &options, &engine) == INFER_OK);
  CHECK(infer_engine_makes_embeddings(engine) == 1);
  CHECK(infer_engine_longest_text(engine) == 256);
  const char* texts[] = {"the cat", "a movie"};
  infer_embeddings* made = nullptr;
  REQUIRE(infer_embed(engine, texts, nullptr, 2, nullptr, &made) == INFER_OK);
  CHECK(infer_embeddings_dimensions(made) == 24);
  size_t vectors = 0;
  const float* second = infer_embeddings_of(made, 1, &vectors);
  REQUIRE(second != nullptr);
  CHECK(vectors == 1);
  CHECK(infer_embeddings_of(made, 2, &vectors) == nullptr);
  CHECK(infer_embeddings_of(made, SIZE_MAX, &vectors) == nullptr);
  const std::vector<std::string> same{"a movie"};
  const Embeddings expected = embed(*load_texts("bert-mean"), same);
  CHECK(std::memcmp(second, expected.values.data(), 24 * sizeof(float)) == 0);
  infer_embeddings_free(made);

  infer_embed_options embed_options;
  infer_embed_options_init(&embed_options, sizeof(embed_options));
  CHECK(embed_options.normalise == 1);
  embed_options.dimensions = 99;
  CHECK(infer_embed(engine, texts, nullptr, 2, &embed_options, &made) == INFER_INVALID_ARGUMENT);
  CHECK(infer_embed(engine, nullptr, nullptr, 2, nullptr, &made) == INFER_INVALID_ARGUMENT);
  CHECK(infer_embed(nullptr, texts, nullptr, 2, nullptr, &made) == INFER_INVALID_ARGUMENT);
  infer_session* session = nullptr;
  CHECK(infer_session_open(engine, &session) == INFER_UNSUPPORTED);
  infer_ranked_text ranked[2];
  CHECK(infer_rerank(engine, "cat", 3, texts, nullptr, 2, 0, ranked) == INFER_UNSUPPORTED);
  infer_engine_free(engine);

  REQUIRE(infer_engine_load(data_path("embed/bert-rank").c_str(), &options, &engine) == INFER_OK);
  REQUIRE(infer_rerank(engine, "cat", 3, texts, nullptr, 2, 0, ranked) == INFER_OK);
  CHECK(ranked[0].score >= ranked[1].score);
  CHECK(ranked[0].index + ranked[1].index == 1);
  infer_engine_free(engine);
}
