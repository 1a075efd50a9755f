// Sessions saved and restored.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;

namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::unique_ptr<Engine> load(const std::string& model, const char* cache_type) {
  LoadOptions options;
  options.threads = 2;
  options.context = 512;
  options.cache_type_k = options.cache_type_v = cache_type;
  auto engine = Engine::load(model, options);
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
  return *std::move(engine);
}

const std::string kWindowModel = data_path("golden/gpt-oss-f32.gguf");

}  // namespace

TEST_CASE("a restored session generates what the saved one would have generated") {
  const TempDir folder;
  const std::string path = folder.path("session");
  for (const std::string& model : {kModel, kWindowModel}) {
    for (const char* type : {"f32", "f16", "q8_0"}) {
      if (model == kWindowModel && std::string_view(type) == "q8_0") continue;  // heads of 16
      CAPTURE(model);
      CAPTURE(std::string(type));
      const auto engine = load(model, type);
      const auto session = open(*engine);
      std::vector<int32_t> prompt(100);
      for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(3 + i % 40);
      CHECK(tokens_of(*session, prompt, sampled(30)).size() == 30);
      const Status saved = session->save(path);
      REQUIRE_MESSAGE(saved.ok(), saved.message());
      const std::vector<int32_t> expected = tokens_of(*session, {}, sampled(40));
      REQUIRE(expected.size() == 40);

      const auto other_engine = load(model, type);
      for (Engine* target : {engine.get(), other_engine.get()}) {
        const auto restored = open(*target);
        CHECK(tokens_of(*restored, {4, 5, 6}, sampled(3)).size() == 3);
        const Status status = restored->restore(path);
        REQUIRE_MESSAGE(status.ok(), status.message());
        CHECK(restored->length() == 130);
        CHECK(restored->statistics().seed == 7);
        CHECK(tokens_of(*restored, {}, sampled(40)) == expected);
      }
    }
  }
}

TEST_CASE("a damaged or foreign file changes nothing") {
  const TempDir folder;
  const std::string path = folder.path("session");
  const auto engine = load(kModel, "f16");
  const auto session = open(*engine);
  CHECK(tokens_of(*session, kPrompt, sampled(30)).size() == 30);
  REQUIRE(session->save(path).ok());
  const std::string good = read_file(path);
  const auto target = open(*engine);
  CHECK(tokens_of(*target, {5, 6}, sampled(10)).size() == 10);
  const auto code = [&](const std::string& content) {
    write_file(path, content);
    const Status status = target->restore(path);
    CHECK(status.message().find(path) != std::string::npos);
    CHECK(target->length() == 12);
    return status.code();
  };
  for (size_t size = 0; size < good.size(); size = size < 200 ? size + 1 : size + 997) {
    CHECK(code(good.substr(0, size)) == StatusCode::bad_file);
  }
  for (size_t at = 0; at < good.size(); at = at < 200 ? at + 1 : at + 991) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x40);
    const StatusCode found = code(bad);
    CHECK((found == StatusCode::bad_file || found == StatusCode::unsupported));
  }
  CHECK(code(good + "x") == StatusCode::bad_file);
  write_file(path, good);
  const auto other_type = load(kModel, "q8_0");
  CHECK(open(*other_type)->restore(path).code() == StatusCode::invalid_argument);
  const auto other_model = load(kWindowModel, "f16");
  CHECK(open(*other_model)->restore(path).code() == StatusCode::invalid_argument);
  CHECK(target->restore(folder.path("none")).code() == StatusCode::not_found);
  CHECK(target->restore(folder.path("")).code() != StatusCode::ok);
  CHECK(target->save(folder.path("none/file")).code() == StatusCode::io);
  const std::vector<int32_t> expected = tokens_of(*open(*engine), {5, 6}, sampled(20));
  const std::vector<int32_t> rest = tokens_of(*target, {}, sampled(10));
  CHECK(rest == std::vector<int32_t>(expected.begin() + 10, expected.end()));
}

TEST_CASE("killed while saving: the old file or the new one is there") {
#ifdef __SANITIZE_THREAD__
  skipped("killed while saving: ThreadSanitizer allows no threads after a fork");
  return;
#endif
  const TempDir folder;
  const std::string path = folder.path("session");
  const auto engine = load(kModel, "f32");
  {
    const auto session = open(*engine);
    CHECK(tokens_of(*session, kPrompt, sampled(5)).size() == 5);
    REQUIRE(session->save(path).ok());
  }
  for (int i = 0; i < 12; ++i) {
    int saved[2];
    REQUIRE(pipe(saved) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      close(saved[0]);
      LoadOptions options;
      options.threads = 1;
      options.context = 512;
      options.cache_type_k = options.cache_type_v = "f32";
      const auto own = Engine::load(kModel, options);
      if (!own) _exit(1);
      const auto session = (*own)->open_session();
      if (!session || !(*session)->evaluate(std::vector<int32_t>(400, 5), {}).ok()) _exit(1);
      for (;;) {
        if (!(*session)->save(path).ok()) _exit(1);
        if (write(saved[1], "s", 1) != 1) _exit(1);
      }
    }
    close(saved[1]);
    // Every third child is killed at any time, the others once so many saves are done and, most
    // often, within the next.
    const bool after_saves = i % 3 != 0;
    for (int n = 0; after_saves && n < i; ++n) {
      char done = 0;
      REQUIRE(read(saved[0], &done, 1) == 1);
    }
    usleep(static_cast<useconds_t>(after_saves ? i * 150 : 20000 + i * 7000));
    REQUIRE(kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    close(saved[0]);
    REQUIRE(WIFSIGNALED(status));
    const auto session = open(*engine);
    const Status restored = session->restore(path);
    REQUIRE_MESSAGE(restored.ok(), restored.message());
    if (after_saves) {
      CHECK(session->length() == 400);
    } else {
      CHECK((session->length() == 9 || session->length() == 400));
    }
  }
}
