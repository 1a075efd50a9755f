// A device is lost: the CPU goes on, or every call says that nothing does.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/api/lost_device.h"
#include "tests/vision/seeing.h"

using namespace infer;
using namespace infer::test;

namespace {

/// Drops what is logged meanwhile.
struct Quiet {
  Quiet() {
    set_verbosity(Verbosity::quiet);
    set_log_callback([](Verbosity, std::string_view) {});
  }
  ~Quiet() {
    set_log_callback({});
    set_verbosity(Verbosity::warnings);
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

/// Says what happened and what to do.
void check_broken(const Status& status) {
  CHECK(status.code() == StatusCode::device);
  CHECK(status.message().find("test:0 was lost") != std::string::npos);
  CHECK(status.message().find("the CPU cannot take over") != std::string::npos);
  CHECK(status.message().find("Load the model again") != std::string::npos);
}

template <typename T>
void check_broken(const Result<T>& result) {
  REQUIRE(!result.has_value());
  check_broken(result.error());
}

}  // namespace

TEST_CASE("the CPU goes on where a device is lost, with the same tokens") {
  const Quiet quiet;
  const std::vector<int32_t> expected = tokens_of(*open(*load()), kPrompt, sampled(100));
  const EngineThatFails made = load_on_device();
  const auto session = open(*made.engine);
  const auto idle = open(*made.engine);
  REQUIRE(idle->evaluate(kPrompt, {}).ok());
  CHECK(made.engine->memory().device == "test:0");
  std::vector<int32_t> tokens;
  const auto result = session->generate(kPrompt, sampled(100), [&](int32_t token, auto) {
    tokens.push_back(token);
    if (tokens.size() == 5) made.lose();
    return true;
  });
  REQUIRE_MESSAGE(result.has_value(), result.error().message());
  CHECK(tokens == expected);
  CHECK(made.engine->memory().device == "cpu");
  CHECK(tokens_of(*idle, {}, sampled(100)) == expected);
}

TEST_CASE("the CPU goes on with texts where a device is lost") {
  const Quiet quiet;
  LoadOptions options;
  options.embeddings = true;
  const std::vector<std::string> texts = {"t3 t4 t5", "t9", "t3 t7 t8 t9 t10 t11"};
  const EngineThatFails made = load_on_device(options);
  const Embeddings expected = made.engine->embed(texts, {}).value();
  CHECK(made.engine->memory().device == "test:0");
  made.lose();
  for (int round = 0; round < 2; ++round) {
    const auto again = made.engine->embed(texts, {});
    REQUIRE_MESSAGE(again.has_value(), again.error().message());
    CHECK(again->values == expected.values);
  }
  CHECK(made.engine->memory().device == "cpu");

  const EngineThatFails no_room = load_on_device(options);
  no_room.leave_no_room();
  no_room.lose();
  for (int round = 0; round < 2; ++round) check_broken(no_room.engine->embed(texts, {}));
}

TEST_CASE("the CPU goes on with images where a device is lost") {
  const Quiet quiet;
  std::vector<int32_t> expected;
  {
    const EngineThatFails made = load_on_device(seeing(), kSeeing);
    const Prompt prompt = usual(*made.engine);
    expected = tokens_of(*open(*made.engine), prompt.tokens, greedy(12, prompt));
    CHECK(made.engine->memory().device == "test:0");
  }
  // While an image is read, and while a prompt with one is computed.
  for (const bool reading : {true, false}) {
    const EngineThatFails made = load_on_device(seeing(), kSeeing);
    if (reading) made.lose();
    const Prompt before = usual(*made.engine);
    made.lose();
    CHECK(tokens_of(*open(*made.engine), before.tokens, greedy(12, before)) == expected);
    CHECK(made.engine->memory().device == "cpu");
    const Prompt after = usual(*made.engine);
    CHECK(after.tokens == before.tokens);
    CHECK(tokens_of(*open(*made.engine), after.tokens, greedy(12, after)) == expected);
    const MemoryReport memory = made.engine->memory();
    CHECK(memory.devices.size() == 1);
    CHECK(memory.weights > 0);
  }
  const EngineThatFails no_room = load_on_device(seeing(), kSeeing);
  no_room.leave_no_room();
  no_room.lose();
  for (int round = 0; round < 2; ++round) check_broken(read(*no_room.engine, "tall.png"));
}

TEST_CASE("a fallback that fails: every running call and every later one fails at once") {
  const Quiet quiet;
  const TempDir folder;
  const EngineThatFails made = load_on_device();
  Engine& engine = *made.engine;
  const auto first = open(engine);
  const auto second = open(engine);
  const auto idle = open(engine);
  REQUIRE(idle->evaluate(kPrompt, {}).ok());
  REQUIRE(idle->save(folder.path("saved")).ok());
  made.leave_no_room();
  std::atomic<int> seen{0};
  std::jthread other([&] {
    check_broken(second->generate(text(30, 1), sampled(-1), [&](int32_t, auto) {
      // It runs on while the device does, however busy the machine is.
      if (++seen == 3) {
        while (!made.lost->load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      return true;
    }));
  });
  while (seen < 3) std::this_thread::yield();
  int count = 0;
  check_broken(first->generate(kPrompt, sampled(400), [&](int32_t, auto) {
    if (++count == 5) made.lose();
    return true;
  }));
  other.join();
  for (int round = 0; round < 2; ++round) {
    for (Session* session : {first.get(), second.get(), idle.get()}) {
      const int64_t length = session->length();
      check_broken(session->generate(kPrompt, sampled(5), {}));
      check_broken(session->generate({}, sampled(0), {}));
      check_broken(session->evaluate(kPrompt, {}));
      check_broken(session->truncate(0));
      check_broken(session->save(folder.path("other")));
      check_broken(session->restore(folder.path("saved")));
      CHECK(session->length() == length);
    }
    check_broken(engine.resize_cache(1 << 20));
    check_broken(engine.open_session());
    check_broken(idle->fork());
  }
  CHECK(idle->length() == static_cast<int64_t>(kPrompt.size()));
  CHECK(engine.devices().back().name == "cpu");
  CHECK(engine.memory().kv == 0);
}

TEST_CASE("a device that is lost while nothing runs, and no room: the next call says so") {
  const Quiet quiet;
  const EngineThatFails made = load_on_device();
  const auto session = open(*made.engine);
  made.leave_no_room();
  made.lose();
  for (int round = 0; round < 3; ++round) check_broken(session->evaluate(text(100, round), {}));
}

TEST_CASE("nobody drafts after a fallback, and what drafted is gone") {
  const Quiet quiet;
  LoadOptions options;
  options.drafters = {"suffix", "ngram"};
  const EngineThatFails made = load_on_device(options);
  CHECK(made.engine->memory().drafters > 0);
  const std::vector<int32_t> expected = tokens_of(*open(*load()), kPrompt, sampled(100));
  const auto session = open(*made.engine);
  GenerateOptions how = sampled(100);
  how.draft_tokens = 4;
  std::vector<int32_t> tokens;
  const auto result = session->generate(kPrompt, how, [&](int32_t token, auto) {
    tokens.push_back(token);
    if (tokens.size() == 10) made.lose();
    return true;
  });
  REQUIRE_MESSAGE(result.has_value(), result.error().message());
  CHECK(tokens == expected);
  CHECK(made.engine->memory().drafters == 0);
  CHECK(tokens_of(*open(*made.engine), kPrompt, how) == expected);
}

TEST_CASE("the cache is resized while a device fails") {
  const Quiet quiet;
  const std::vector<int32_t> expected = tokens_of(*open(*load()), kPrompt, sampled(200));
  for (int round = 0; round < 10; ++round) {
    const EngineThatFails made = load_on_device();
    const auto session = open(*made.engine);
    const int64_t bytes = made.engine->memory().kv;
    std::atomic<bool> done{false};
    std::atomic<int64_t> calls{0};
    std::jthread other([&] {
      for (; !done; ++calls) {
        const Status status = made.engine->resize_cache(bytes - calls.load() % 2 * (bytes / 4));
        // The device may be lost under the call itself.
        const bool typed = status.ok() || status.code() == StatusCode::device ||
                           status.code() == StatusCode::does_not_fit;
        if (!typed) CHECK_MESSAGE(typed, status.message());
      }
    });
    while (calls == 0) std::this_thread::yield();
    std::vector<int32_t> tokens;
    const auto result = session->generate(kPrompt, sampled(200), [&](int32_t token, auto) {
      tokens.push_back(token);
      if (tokens.size() == 20) made.lose();
      return true;
    });
    done = true;
    other.join();
    REQUIRE_MESSAGE(result.has_value(), result.error().message());
    CHECK(tokens == expected);
  }
}
