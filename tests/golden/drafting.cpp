#include "tests/golden/drafting.h"

#include <doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>

#include "tests/support.h"

namespace infer::test {

GoldenModel golden_model(const std::string& name) {
  const std::vector<GoldenModel> all = golden_models();
  const auto found = std::ranges::find(all, name, &GoldenModel::name);
  REQUIRE(found != all.end());
  return *found;
}

LoadOptions without_head() {
  LoadOptions options;
  options.threads = 1;
  options.context = 384;
  return options;
}

LoadOptions with_head(const std::string& head) {
  LoadOptions options = without_head();
  options.drafters = {"model"};
  options.draft_model = head;
  return options;
}

Status refusal_of_head(const std::string& main, const std::string& head) {
  const auto plan = plan_model(main, with_head(head));
  return plan ? Status() : plan.error();
}

void change_key(std::string& bytes, const std::string& key, size_t at, int32_t value) {
  const size_t found = bytes.find(key);
  REQUIRE(found != std::string::npos);
  std::memcpy(bytes.data() + found + key.size() + at, &value, sizeof(value));
}

void rename_in(std::string& bytes, const std::string& from, const std::string& to) {
  REQUIRE(from.size() == to.size());
  const size_t found = bytes.find(from);
  REQUIRE(found != std::string::npos);
  bytes.replace(found, from.size(), to);
}

std::vector<float> run_rows(Executor& executor, KvCache& cache, KvCache::SequenceId id,
                            std::span<const int32_t> tokens, size_t begin, size_t end,
                            const GivenStates& given, std::vector<float>* states, size_t first) {
  StepBatch batch;
  for (size_t t = begin; t < end; ++t) {
    batch.tokens.push_back(tokens[t]);
    batch.positions.push_back(static_cast<int32_t>(t));
    batch.slots.push_back(static_cast<int32_t>(t - first));
    batch.sequences.push_back(0);
    batch.output_rows.push_back(static_cast<int32_t>(t - begin));
  }
  batch.hidden.assign(given.main.begin(), given.main.end());
  batch.own_hidden.assign(given.own.begin(), given.own.end());
  REQUIRE(cache.reserve(id, batch.rows()).ok());
  batch.pages = cache.pages({&id, 1});
  const auto logits = executor.run(batch);
  REQUIRE_MESSAGE(logits.has_value(), (logits ? "" : logits.error().message()));
  std::vector<float> copy(logits->begin(), logits->end());
  const auto read = executor.hidden(0, batch.rows());
  REQUIRE(read.has_value());
  states->insert(states->end(), read->begin(), read->end());
  cache.commit(id, PageKeys(tokens), batch.rows());
  return copy;
}

ModelAndHead::ModelAndHead(const std::string& path, const std::string& draft, bool apart) {
  LoadOptions options;
  options.drafters = {draft.empty() ? "mtp" : "model"};
  options.draft_model = draft;
  options.exact = true;
  options.threads = 1;
  options.context = 128;
  options.cache_type_k = options.cache_type_v = "f32";
  options.output_rows = 128;
  auto opened = OpenedModels::open(path, options);
  REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message()));
  models = std::move(*opened);
  OpenedModel& main = models.main;
  REQUIRE(!main.heads.empty());
  const std::vector<Device*> devices = main.device_list();
  if (apart) {
    main.model->return_hidden(true, main.model->info().hidden_layers);
    main.plan = plan_memory(*main.model, *main.weights, devices, main.request).value();
  }
  executor =
      Executor::create(*main.model, *main.weights, devices, main.request, main.plan, {}).value();
  cache = KvCache::create(devices, main.plan.kv_layout, main.plan.kv_pages, {128, false, {}, 0})
              .value();
  for (const OpenedModel::Head& own : main.heads) {
    Further& made = further.emplace_back();
    made.head = Executor::create(*own.model, main.weights_of(own), devices, own.request, own.plan,
                                 {}, executor.get())
                    .value();
    made.cache =
        KvCache::create(devices, own.plan.kv_layout, own.plan.kv_pages, {128, false, {}, 0})
            .value();
  }
  head = std::move(further.front().head);
  head_cache = std::move(further.front().cache);
  further.erase(further.begin());
}

std::unique_ptr<Engine> load_engine(const std::string& path, const LoadOptions& options) {
  auto engine = load_watched(path, options);
  REQUIRE_MESSAGE(engine.has_value(), (engine ? "" : engine.error().message()));
  return std::move(*engine);
}

GenerateOptions generating(int32_t tokens, uint64_t seed, int32_t drafts) {
  GenerateOptions options;
  options.max_tokens = tokens;
  options.ignore_end = true;
  options.draft_tokens = drafts;
  options.sampling.temperature = seed == 0 ? 0.0f : 0.6f;
  options.sampling.seed = seed;
  return options;
}

DraftedText generated_text(Session& session, std::span<const int32_t> prompt,
                           const GenerateOptions& options) {
  DraftedText text;
  const auto result = session.generate(prompt, options, [&](int32_t token, std::string_view) {
    if (token >= 0) text.tokens.push_back(token);
    return true;
  });
  REQUIRE_MESSAGE(result.has_value(), (result ? "" : result.error().message()));
  text.drafted = result->speculation.drafted;
  text.accepted = result->speculation.accepted;
  return text;
}

void expect_same_texts(const GoldenModel& model, const LoadOptions& plain, LoadOptions with_head,
                       int32_t tokens, DraftedText& all) {
  const std::vector<int32_t> prompt(model.tokens.begin(), model.tokens.begin() + 40);
  const auto without = load_engine(model.path, plain);
  std::vector<std::vector<int32_t>> expected;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const auto session = without->open_session().value();
    expected.push_back(generated_text(*session, prompt, generating(tokens, seed, 0)).tokens);
  }
  for (const int32_t rows : {512, 7}) {
    CAPTURE(rows);
    with_head.batch_rows = rows;
    with_head.fewer_rows = false;
    const auto engine = load_engine(model.path, with_head);
    for (const int32_t drafts : {-1, 1, 5}) {
      CAPTURE(drafts);
      for (uint64_t seed = 0; seed < 3; ++seed) {
        const auto session = engine->open_session().value();
        const DraftedText text = generated_text(*session, prompt, generating(tokens, seed, drafts));
        CHECK(text.tokens == expected[seed]);
        all.drafted += text.drafted;
        all.accepted += text.accepted;
      }
    }
  }
}

std::vector<std::vector<int32_t>> texts_of_turns(Engine& engine, std::span<const int32_t> prompt,
                                                 const std::string& folder, int32_t drafts) {
  std::vector<std::vector<int32_t>> texts;
  const auto add = [&](Session& session, int32_t tokens, uint64_t seed) {
    texts.push_back(generated_text(session, prompt, generating(tokens, seed, drafts)).tokens);
  };
  const auto session = engine.open_session().value();
  add(*session, 30, 1);
  add(*session, 30, 2);
  REQUIRE(session->truncate(session->length() / 2).ok());
  add(*session, 20, 0);
  const std::string path = folder + (drafts == 0 ? "-plain" : "-drafts");
  REQUIRE(session->save(path).ok());
  const auto other = engine.open_session().value();
  REQUIRE(other->restore(path).ok());
  add(*other, 30, 3);
  const auto third = engine.open_session().value();  // begins as the first one did
  add(*third, 30, 1);
  return texts;
}

namespace {

constexpr uint64_t kSessions = 4;
constexpr size_t kPrompt = 60;

}  // namespace

std::vector<std::vector<int32_t>> texts_at_once(Engine& engine, std::span<const int32_t> prompt) {
  std::vector<std::vector<int32_t>> texts(kSessions);
  std::vector<std::unique_ptr<Session>> sessions;
  for (uint64_t i = 0; i < kSessions; ++i) sessions.push_back(engine.open_session().value());
  {
    std::vector<std::jthread> callers;
    for (uint64_t i = 0; i < kSessions; ++i) {
      callers.emplace_back([&, i] {
        const auto result = sessions[i]->generate(prompt.subspan(i, kPrompt),
                                                  generating(60, i, static_cast<int32_t>(i) - 1),
                                                  [&](int32_t token, std::string_view) {
                                                    if (token >= 0) texts[i].push_back(token);
                                                    return true;
                                                  });
        if (!result) std::fprintf(stderr, "%s\n", result.error().message().c_str());
      });
    }
  }
  return texts;
}

std::vector<std::vector<int32_t>> texts_in_turn(Engine& engine, std::span<const int32_t> prompt) {
  std::vector<std::vector<int32_t>> texts;
  for (uint64_t i = 0; i < kSessions; ++i) {
    texts.push_back(generated_text(*engine.open_session().value(), prompt.subspan(i, kPrompt),
                                   generating(60, i, 0))
                        .tokens);
  }
  return texts;
}

}  // namespace infer::test
