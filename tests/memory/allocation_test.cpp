// Whatever allocation fails, and even if all do from then on: the call ends with a status, nothing
// is thrown, nothing is left behind, and what was there before works as before.
#include <doctest.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "engine/session/engine_impl.h"
#include "infer/infer.h"
#include "infer/infer.hpp"
#include "tests/api/lost_device.h"
#include "tests/api/model.h"
#include "tests/memory/failing_allocator.h"

using namespace infer;
using namespace infer::test;

namespace {

constexpr int64_t kTokens = 6;

struct Outcome {
  bool thrown = false;
  StatusCode code = StatusCode::ok;
};

/// `run` returns the code of its first failure.
template <typename Run>
Outcome attempt(Run& run) {
  try {
    return {false, run()};
  } catch (...) {
    return {true, StatusCode::ok};
  }
}

/// Nothing is prepared, or to be looked at afterwards.
struct Nothing {};

/// What returns a string or a vector throws std::bad_alloc and nothing else.
template <typename Call>
StatusCode code_of_throwing(Call call) {
  try {
    call();
  } catch (const std::bad_alloc&) {
    return StatusCode::out_of_memory;
  }
  return StatusCode::ok;
}

int64_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

/// The first and the last allocation of every place alone, and the first with all after it.
struct Points {
  std::vector<int64_t> one, rest;
};

/// Programs built with a sanitizer, which run many times as long, get some of them.
std::vector<int64_t> sorted_some(std::vector<int64_t> points) {
  std::ranges::sort(points);
  points.erase(std::ranges::unique(points).begin(), points.end());
#ifdef INFER_SANITIZED
  const size_t step = 1 + points.size() / (all_cases() ? 200 : 60);
  std::vector<int64_t> some;
  for (size_t i = 0; i < points.size(); i += step) some.push_back(points[i]);
  return some;
#else
  return points;
#endif
}

/// Numbers of the allocations of `run` that are to fail.
template <typename Prepare, typename Run, typename Check>
Points failing_points(Prepare prepare, Run run, Check check) {
  auto object = prepare();
  note_allocations();
  const StatusCode code = run(object);
  Places places = distinct_allocations();
  REQUIRE(code == StatusCode::ok);
  check(object);
  Points points;
  points.rest = sorted_some(places.first);
  places.first.insert(places.first.end(), places.last.begin(), places.last.end());
  points.one = sorted_some(places.first);
  return points;
}

/// Lets the allocations of `run` fail. `prepare` makes, before it, what `run` works on and `check`
/// looks at after it, with all the memory there is.
template <typename Prepare, typename Run, typename Check>
void exhaust(Prepare prepare, Run run, Check check) {
  const auto whole = [&](int64_t first, Failing failing, int64_t& asked) {
    auto object = prepare();
    auto part = [&] { return run(object); };
    fail_allocation(first, failing);
    const Outcome outcome = attempt(part);
    asked = stop_failing();
    check(object);
    return outcome;
  };
  int64_t total = 0;
  // The first time fills what is made once and kept.
  const Outcome good = whole(INT64_MAX - 1, Failing::one, total);
  REQUIRE(!good.thrown);
  REQUIRE(good.code == StatusCode::ok);
  const Points points = failing_points(prepare, run, check);
  REQUIRE(!points.one.empty());
  const int64_t files = open_files();
  int64_t refused = 0;
  for (const Failing failing : {Failing::one, Failing::rest}) {
    for (const int64_t first : failing == Failing::one ? points.one : points.rest) {
      const int64_t before = live_allocations();
      int64_t asked = 0;
      const Outcome outcome = whole(first, failing, asked);
      const int64_t left = live_allocations() - before;
      refused += outcome.code == StatusCode::out_of_memory ? 1 : 0;
      const bool typed =
          outcome.code == StatusCode::ok || outcome.code == StatusCode::out_of_memory;
      if (!outcome.thrown && typed && left == 0) continue;
      CAPTURE(first);
      CAPTURE(static_cast<int>(failing));
      CAPTURE(total);
      CHECK(!outcome.thrown);
      CHECK_MESSAGE(typed, status_code_name(outcome.code));
      CHECK(left == 0);
    }
  }
  CHECK(refused > 0);
  CHECK(open_files() == files);
}

template <typename Run>
void exhaust(Run run) {
  exhaust([] { return Nothing(); }, [&](Nothing&) { return run(); }, [](Nothing&) {});
}

template <typename T>
StatusCode code_of(const Result<T>& result) {
  return result ? StatusCode::ok : result.error().code();
}

/// With one thread, where more would only wait for each other thousands of times.
LoadOptions load_options(bool mmap = false) {
  LoadOptions options;
  options.threads = 1;
  options.context = 256;
  options.batch_rows = 8;
  options.mmap = mmap;
  return options;
}

/// Every sampler takes part.
GenerateOptions generate_options() {
  GenerateOptions options = sampled(kTokens);
  options.sampling.top_k = 200;
  options.sampling.top_p = 0.99f;
  options.sampling.min_p = 1e-6f;
  options.sampling.typical_p = 0.999f;
  options.sampling.repeat_penalty = 1.1f;
  options.sampling.logit_bias = {{5, 1.0f}, {9, -2.0f}};
  return options;
}

struct Loaded {
  std::unique_ptr<Engine> engine = Engine::load(kModel, load_options()).value();
  GenerateOptions options = generate_options();
};

const std::vector<int32_t>& expected_tokens() {
  static const std::vector<int32_t> tokens = [] {
    const Loaded loaded;
    return tokens_of(*open(*loaded.engine), kPrompt, loaded.options);
  }();
  return tokens;
}

/// Once its sessions are closed the cache has no sequence, and nobody holds a page.
void check_nothing_held(Loaded& loaded) {
  Engine::Impl& engine = EngineAccess::impl(*loaded.engine);
  engine.thread->call([&] {
    bool held = engine.cache->sequences() > 0;
    for (size_t k = 0; k < engine.cache->kinds(); ++k) held |= engine.cache->held(k) > 0;
    if (held) CHECK(!held);
  });
}

void check_usable(Loaded& loaded) {
  check_nothing_held(loaded);
  const std::unique_ptr<Session> session = open(*loaded.engine);
  const std::vector<int32_t> tokens = tokens_of(*session, kPrompt, loaded.options);
  if (tokens != expected_tokens()) CHECK(tokens == expected_tokens());
}

}  // namespace

TEST_CASE("describing and planning") {
  exhaust([] { return code_of(describe_model(kModel)); });
  const LoadOptions options = load_options();
  exhaust([&] { return code_of(plan_model(kModel, options)); });
  exhaust([] { return code_of_throwing([] { (void)find_vision(kModel); }); });
}

TEST_CASE("vocabularies and texts") {
  exhaust([] { return code_of(Vocabulary::load(kModel)); });
  const std::unique_ptr<Vocabulary> vocabulary = Vocabulary::load(kModel).value();
  const std::string text = "Once upon a time there were three little words, and a 12345th one.";
  exhaust([&] { return code_of(vocabulary->tokenize(text, {})); });
  const std::vector<int32_t> tokens = vocabulary->tokenize(text, {}).value();
  exhaust([&] { return code_of_throwing([&] { (void)vocabulary->detokenize(tokens); }); });
  exhaust([] { return code_of_throwing([] { (void)devices(); }); });
}

TEST_CASE("loading and closing") {
  const TempDir folder;
  for (const bool mmap : {false, true}) {
    LoadOptions options = load_options(mmap);
    options.threads = 2;
    options.cache_folder = folder.path("");
    exhaust([&] { return code_of(Engine::load(kModel, options)); });
  }
}

TEST_CASE("prefill and decode, from the first step of an engine") {
  REQUIRE(expected_tokens().size() == kTokens);
  const auto run = [](Loaded& loaded) {
    const Result<std::unique_ptr<Session>> session = loaded.engine->open_session();
    if (!session) return session.error().code();
    return code_of((*session)->generate(kPrompt, loaded.options, {}));
  };
  exhaust([] { return Loaded(); }, run, check_usable);
}

TEST_CASE("drafters, of which a model is one") {
  LoadOptions options = load_options();
  options.drafters = {"ngram", "suffix", "model"};
  // The second has another vocabulary.
  for (const std::string& draft :
       {kModel, std::string(INFER_SOURCE_DIR "/app/demo/infer-demo-draft.gguf")}) {
    CAPTURE(draft);
    options.draft_model = draft;
    exhaust([&] { return code_of(Engine::load(kModel, options)); });
    const auto prepare = [&] {
      Loaded loaded{Engine::load(kModel, options).value(), generate_options()};
      loaded.options.draft_tokens = 2;
      return loaded;
    };
    const auto run = [](Loaded& loaded) {
      const Result<std::unique_ptr<Session>> session = loaded.engine->open_session();
      if (!session) return session.error().code();
      return code_of((*session)->generate(kPrompt, loaded.options, {}));
    };
    exhaust(prepare, run, check_usable);
  }
}

TEST_CASE("logits, and tokens taken back") {
  const auto run = [](Loaded& loaded) {
    const Result<std::unique_ptr<Session>> session = loaded.engine->open_session();
    if (!session) return session.error().code();
    const Status status = (*session)->evaluate(kPrompt, {});
    if (!status.ok()) return status.code();
    return (*session)->truncate(1).code();
  };
  exhaust([] { return Loaded(); }, run, check_usable);
}

TEST_CASE("shared pages, saved sessions, a cache that changes its size") {
  const TempDir folder;
  const std::string path = folder.path("session");
  std::vector<int32_t> prompt(130);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(3 + i % 50);
  const int64_t bytes = Loaded().engine->memory().kv;
  const auto run = [&](Loaded& loaded) {
    const auto first = loaded.engine->open_session();
    if (!first) return first.error().code();
    const auto generated = (*first)->generate(prompt, loaded.options, {});
    if (!generated) return generated.error().code();
    if (const Status saved = (*first)->save(path); !saved.ok()) return saved.code();
    const auto second = loaded.engine->open_session();  // takes over the first one's pages
    if (!second) return second.error().code();
    const auto again = (*second)->generate(prompt, loaded.options, {});
    if (!again) return again.error().code();
    for (const int64_t size : {3 * bytes, bytes}) {
      if (const Status resized = loaded.engine->resize_cache(size); !resized.ok()) {
        return resized.code();
      }
    }
    return (*second)->restore(path).code();
  };
  exhaust([] { return Loaded(); }, run, check_usable);
}

TEST_CASE("pages that go to a folder and come back, a cache that grows") {
  const TempDir folder;
  const auto prepare = [&] {
    LoadOptions options = load_options();
    options.context = 0;
    options.cache_folder = folder.path("");
    Loaded loaded{Engine::load(kModel, options).value(), generate_options()};
    // What nobody holds has to leave memory at once.
    Engine::Impl& engine = EngineAccess::impl(*loaded.engine);
    engine.thread->call([&] { REQUIRE(engine.cache->resize(std::vector<int32_t>{2}).ok()); });
    return loaded;
  };
  std::vector<int32_t> prompt(100);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(3 + i % 50);
  const auto run = [&](Loaded& loaded) {
    for (const int32_t first : {3, 4, 3}) {
      Engine::Impl& engine = EngineAccess::impl(*loaded.engine);
      engine.thread->call([&] { engine.cache->clear_kept(); });
      const auto session = loaded.engine->open_session();
      if (!session) return session.error().code();
      prompt[0] = first;
      const auto generated = (*session)->generate(prompt, loaded.options, {});
      if (!generated) return generated.error().code();
      const auto beside = loaded.engine->open_session();
      if (!beside) return beside.error().code();
      prompt[0] = 5;
      const auto more = (*beside)->generate(prompt, loaded.options, {});
      if (!more) return more.error().code();
    }
    return StatusCode::ok;
  };
  exhaust(prepare, run, check_usable);
}

TEST_CASE("a context that was to be shifted is not, once the call has failed") {
  struct Shifting {
    Loaded loaded;
    std::unique_ptr<Session> session = open(*loaded.engine);
    GenerateOptions shift = loaded.options;
  };
  const std::vector<int32_t> prompt(300, 5);  // more than the context
  const auto run = [&](Shifting& shifting) {
    return code_of(shifting.session->generate(prompt, shifting.shift, {}));
  };
  const auto check = [&](Shifting& shifting) {
    REQUIRE(shifting.session->truncate(0).ok());
    const StatusCode code =
        code_of(shifting.session->generate(prompt, shifting.loaded.options, {}));
    if (code != StatusCode::does_not_fit) CHECK(code == StatusCode::does_not_fit);
  };
  const auto prepare = [] {
    Shifting shifting;
    shifting.shift.overflow = ContextOverflow::shift;
    return shifting;
  };
  exhaust(prepare, run, check);
}

TEST_CASE("a device is lost, and memory runs out while the CPU takes over") {
  set_log_callback([](Verbosity, std::string_view) {});
  struct Lost {
    EngineThatFails made = load_on_device(load_options());
    std::unique_ptr<Session> session = open(*made.engine);
    GenerateOptions options = generate_options();
  };
  const auto generate = [](Lost& lost) {
    return code_of(lost.session->generate(kPrompt, lost.options, {}));
  };
  const auto run = [&](Lost& lost) {
    lost.made.lose();
    const StatusCode code = generate(lost);
    const bool broken = !EngineAccess::impl(*lost.made.engine).usable().ok();
    return code == StatusCode::device && broken ? StatusCode::out_of_memory : code;
  };
  const auto check = [&](Lost& lost) {
    const Status usable = EngineAccess::impl(*lost.made.engine).usable();
    const StatusCode code = generate(lost);
    if (code != usable.code()) CHECK(code == usable.code());
    const auto another = lost.made.engine->open_session();
    if (another.has_value() != usable.ok()) CHECK(another.has_value() == usable.ok());
    if (!usable.ok()) return;
    const std::vector<int32_t> tokens = tokens_of(**another, kPrompt, lost.options);
    if (tokens != expected_tokens()) CHECK(tokens == expected_tokens());
  };
  exhaust([] { return Lost(); }, run, check);
  set_log_callback({});
}

TEST_CASE("closing takes no memory") {
  const auto cycle = [](bool failing) {
    Loaded loaded;
    std::unique_ptr<Session> session = open(*loaded.engine);
    CHECK(tokens_of(*session, kPrompt, loaded.options) == expected_tokens());
    if (failing) fail_allocation(0, Failing::rest);
    const int64_t room = session->room();
    session->cancel();
    session.reset();
    loaded.engine.reset();
    const int64_t asked = stop_failing();
    CHECK(room > 0);
    if (failing) CHECK(asked == 0);
  };
  cycle(false);
  const int64_t before = live_allocations();
  cycle(true);
  CHECK(live_allocations() == before);
}

TEST_CASE("the C API") {
  // What a thread keeps of its last failure is made once.
  REQUIRE(infer_plan("a file that is not there, with a name of some length", nullptr, nullptr, 0) !=
          INFER_OK);
  const auto code = [](infer_status status) { return static_cast<StatusCode>(status); };
  infer_load_options options;
  infer_load_options_init(&options, sizeof(options));
  options.threads = 1;
  options.context = 256;
  options.batch_rows = 8;
  infer_generate_options generate;
  infer_generate_options_init(&generate, sizeof(generate));
  generate.max_tokens = kTokens;
  generate.has_seed = 1;
  generate.seed = 7;

  exhaust([&] {
    infer_memory memory;
    return code(infer_plan(kModel.c_str(), &options, &memory, sizeof(memory)));
  });
  exhaust([&] {
    infer_description* description = nullptr;
    const infer_status status = infer_description_create(kModel.c_str(), &description);
    infer_description_free(description);
    return code(status);
  });
  exhaust([&] {
    infer_device_list* list = nullptr;
    const infer_status status = infer_device_list_create(&list);
    infer_device_list_free(list);
    return code(status);
  });
  exhaust([&] {
    infer_engine* engine = nullptr;
    infer_session* session = nullptr;
    infer_status status = infer_engine_load(kModel.c_str(), &options, &engine);
    if (status == INFER_OK) status = infer_session_open(engine, &session);
    int32_t tokens[64];
    size_t count = 0;
    if (status == INFER_OK) {
      status = infer_tokenize(infer_engine_vocabulary(engine), "Hello, Welt", 11, INFER_ADD_SPECIAL,
                              tokens, std::size(tokens), &count);
    }
    char text[256];
    size_t length = 0;
    if (status == INFER_OK) {
      status = infer_detokenize(infer_engine_vocabulary(engine), tokens, count, text, sizeof(text),
                                &length);
    }
    if (status == INFER_OK) {
      status = infer_generate(session, kPrompt.data(), kPrompt.size(), &generate, nullptr, nullptr);
    }
    infer_engine_free(engine);
    infer_session_free(session);
    return code(status);
  });
}
