// Sessions saved and restored.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "engine/session/engine_impl.h"
#include "tests/api/model.h"

using namespace infer;
using namespace infer::test;
using namespace std::chrono_literals;

namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// A saved session with a number of its header changed, under right checksums.
void forge(const std::string& path, size_t at, int64_t value) {
  constexpr size_t kHeader = 56;  // bytes before the header's own checksum
  std::string content = read_file(path);
  std::memcpy(content.data() + at, &value, sizeof(value));
  const uint64_t header = XXH3_64bits(content.data(), kHeader);
  std::memcpy(content.data() + kHeader, &header, sizeof(header));
  const uint64_t sum = XXH3_64bits(content.data(), content.size() - sizeof(sum));
  std::memcpy(content.data() + content.size() - sizeof(sum), &sum, sizeof(sum));
  write_file(path, content);
}

std::unique_ptr<Engine> load_typed(const std::string& model, const char* cache_type,
                                   int64_t context = 512, bool exact = false) {
  LoadOptions options;
  options.threads = 1;
  options.context = context;
  options.exact = exact;
  options.cache_type_k = options.cache_type_v = cache_type;
  auto engine = Engine::load(model, options);
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
  return *std::move(engine);
}

}  // namespace

TEST_CASE("a restored session generates what the saved one would have generated") {
  const TempDir folder;
  const std::string path = folder.path("session");
  for (const std::string& model : {kModel, kWindowModel, kRecurrentModel}) {
    for (const char* type : {"f32", "f16", "q8_0"}) {
      if (model != kModel && std::string_view(type) == "q8_0") continue;  // heads of 16 and of 12
      CAPTURE(model);
      CAPTURE(std::string(type));
      const auto engine = load_typed(model, type);
      const auto session = open(*engine);
      std::vector<int32_t> prompt(100);
      for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(3 + i % 40);
      CHECK(tokens_of(*session, prompt, sampled(30)).size() == 30);
      const Status saved = session->save(path);
      REQUIRE_MESSAGE(saved.ok(), saved.message());
      const std::vector<int32_t> expected = tokens_of(*session, {}, sampled(40));
      REQUIRE(expected.size() == 40);

      const auto other_engine = load_typed(model, type);
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

TEST_CASE("a saved session is for its user alone") {
  const TempDir folder;
  const std::string path = folder.path("session");
  const auto engine = load();
  const auto session = open(*engine);
  REQUIRE(session->evaluate(kPrompt, {}).ok());
  for (int round = 0; round < 2; ++round) {
    REQUIRE(session->save(path).ok());
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    REQUIRE(::chmod(path.c_str(), 0666) == 0);
  }
}

TEST_CASE("a damaged or foreign file changes nothing") {
  const TempDir folder;
  const std::string path = folder.path("session");
  const auto engine = load_typed(kModel, "f16");
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
  const auto other_type = load_typed(kModel, "q8_0");
  CHECK(open(*other_type)->restore(path).code() == StatusCode::invalid_argument);
  const auto other_model = load_typed(kWindowModel, "f16");
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
  const auto engine = load_typed(kModel, "f32");
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

TEST_CASE("a pipe instead of a saved session does not stop the engine") {
  const TempDir folder;
  const std::string path = folder.path("pipe");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const auto engine = load_typed(kModel, "f16");
  const auto session = open(*engine);
  const auto other = open(*engine);
  auto restored = std::async(std::launch::async, [&] { return session->restore(path).code(); });
  std::this_thread::sleep_for(200ms);
  auto running =
      std::async(std::launch::async, [&] { return tokens_of(*other, kPrompt, sampled(3)).size(); });
  CHECK(running.wait_for(60s) == std::future_status::ready);
  if (restored.wait_for(0s) != std::future_status::ready) {
    close(open(path.c_str(), O_WRONLY));  // lets it go
  }
  CHECK(restored.get() == StatusCode::io);
  CHECK(running.get() == 3);
}

TEST_CASE("what is no regular file is refused") {
  const TempDir folder;
  const auto engine = load_typed(kModel, "f16");
  const auto session = open(*engine);
  for (const std::string& path : {folder.path(""), std::string("/dev/zero")}) {
    const Status status = session->restore(path);
    CHECK(status.code() == StatusCode::io);
    CHECK(status.message().find(path) != std::string::npos);
    CHECK(session->save(path).code() == StatusCode::io);
  }
}

TEST_CASE("numbers of a forged session that cannot be are refused") {
  const TempDir folder;
  const std::string path = folder.path("session");
  const auto engine = load_typed(kModel, "f16");
  const auto session = open(*engine);
  CHECK(tokens_of(*session, kPrompt, sampled(5)).size() == 5);
  struct Change {
    size_t at;
    int64_t value;
    StatusCode code;
  };
  const Change changes[] = {
      {24, -1, StatusCode::bad_file},  // tokens
      {24, 1 << 20, StatusCode::does_not_fit}, {24, INT64_MAX, StatusCode::does_not_fit},
      {24, 10, StatusCode::bad_file},  // the file is shorter
      {32, -1, StatusCode::bad_file},  // of them in the cache
      {32, INT64_MAX, StatusCode::bad_file},   {32, 0, StatusCode::bad_file},
      {40, -1, StatusCode::bad_file},         // dropped by shifts: the next draw's place
      {40, INT64_MAX, StatusCode::bad_file},  // would not be a number
      {64, 1, StatusCode::bad_file},          // the first page
      {64, -1, StatusCode::bad_file},          {72, INT32_MAX, StatusCode::bad_file},  // two tokens
      {72, INT32_MIN, StatusCode::bad_file},  // likewise, as if they were generated
  };
  for (const Change& change : changes) {
    CAPTURE(change.at);
    CAPTURE(change.value);
    REQUIRE(session->save(path).ok());
    forge(path, change.at, change.value);
    CHECK(session->restore(path).code() == change.code);
  }
}

TEST_CASE("a restored session knows which tokens were generated: it is saved as it was") {
  const TempDir folder;
  const std::string first = folder.path("first");
  const std::string second = folder.path("second");
  const auto engine = load_typed(kModel, "f16");
  const auto session = open(*engine);
  CHECK(tokens_of(*session, kPrompt, sampled(5)).size() == 5);
  REQUIRE(session->save(first).ok());
  const auto other = open(*engine);
  REQUIRE(other->restore(first).ok());
  REQUIRE(other->save(second).ok());
  const std::string bytes = read_file(first);
  CHECK(bytes == read_file(second));
  std::vector<int32_t> tokens(kPrompt.size() + 5);
  REQUIRE(bytes.size() > 72 + tokens.size() * sizeof(int32_t));
  std::memcpy(tokens.data(), bytes.data() + 72, tokens.size() * sizeof(int32_t));
  for (size_t t = 0; t < tokens.size(); ++t) CHECK((tokens[t] < 0) == (t >= kPrompt.size()));
}

TEST_CASE("more tokens than the context holds are refused when restored") {
  const TempDir folder;
  const std::string path = folder.path("session");
  const auto large = load_typed(kModel, "f16");
  const auto session = open(*large);
  CHECK(tokens_of(*session, text(400, 1), sampled(5)).size() == 5);
  // Others take its pages, so that none are saved.
  CHECK(tokens_of(*open(*large), text(500, 2), sampled(5)).size() == 5);
  REQUIRE(session->save(path).ok());
  const auto small = load_typed(kModel, "f16", 128);
  const auto target = open(*small);
  const Status status = target->restore(path);
  CHECK(status.code() == StatusCode::does_not_fit);
  CHECK(target->length() == 0);
}

TEST_CASE("a session of a model with another RoPE base, or computed in another way, is refused") {
  const TempDir folder;
  std::string model = read_file(kModel);
  const std::string key = "llama.rope.freq_base";
  const size_t at = model.find(key);
  REQUIRE(at != std::string::npos);
  const float base = 500000.0f;
  std::memcpy(model.data() + at + key.size() + 4, &base, sizeof(base));
  const std::string other_path = folder.path("other.gguf");
  write_file(other_path, model);

  const auto engine = load_typed(kModel, "f16");
  const auto other = load_typed(other_path, "f16");
  const auto exact = load_typed(kModel, "f16", 512, true);
  const auto session = open(*engine);
  CHECK(tokens_of(*session, text(100, 1), sampled(5)).size() == 5);
  REQUIRE(session->save(folder.path("session")).ok());
  CHECK(open(*other)->restore(folder.path("session")).code() == StatusCode::invalid_argument);
  CHECK(open(*exact)->restore(folder.path("session")).code() == StatusCode::invalid_argument);
}

TEST_CASE("a session computed with the RoPE factors of another context is refused") {
  const TempDir folder;
  const std::string path = data_path("golden/phi3-long-f32.gguf");
  const auto brief = load_typed(path, "f16", 32);
  const auto lengthy = load_typed(path, "f16");
  const auto session = open(*brief);
  CHECK(tokens_of(*session, text(20, 1), sampled(2)).size() == 2);
  REQUIRE(session->save(folder.path("session")).ok());
  CHECK(open(*lengthy)->restore(folder.path("session")).code() == StatusCode::invalid_argument);
}

TEST_CASE("a session comes back also where the cache has no room for it now") {
  const TempDir folder;
  const std::string path = folder.path("session");
  const auto engine = load_typed(kModel, "f16", 256);
  const auto session = open(*engine);
  CHECK(tokens_of(*session, text(100, 1), sampled(20)).size() == 20);
  REQUIRE(session->save(path).ok());
  const std::vector<int32_t> expected = tokens_of(*session, {}, sampled(30));
  const auto restored = open(*engine);
  REQUIRE(restored->restore(path).ok());
  CHECK(restored->statistics().reused_tokens == 119);  // the last one was told and not computed

  GenerateOptions endless = sampled(-1);
  endless.overflow = ContextOverflow::shift;
  endless.keep = 190;  // shifting leaves three quarters of the cache taken
  const auto running = open(*engine);
  std::atomic<bool> full{false};
  auto other = std::async(std::launch::async, [&] {
    return running
        ->generate(text(250, 2), endless,
                   [&](int32_t, std::string_view) {
                     full = true;
                     return true;
                   })
        .has_value();
  });
  while (!full) std::this_thread::sleep_for(1ms);
  REQUIRE(restored->restore(path).ok());
  CHECK(restored->length() == 120);
  CHECK(restored->statistics().reused_tokens == 0);
  running->cancel();
  CHECK(other.get());
  CHECK(tokens_of(*restored, {}, sampled(30)) == expected);
}

TEST_CASE("a session is saved while others take its pages: what comes back generates the same") {
  const TempDir folder;
  const auto engine = load_typed(kModel, "f16", 256);
  const auto other_engine = load_typed(kModel, "f16", 256);
  const auto session = open(*engine);
  CHECK(tokens_of(*session, text(100, 1), sampled(20)).size() == 20);
  std::atomic<bool> stop{false};
  std::thread others([&] {
    for (int i = 2; !stop; ++i) tokens_of(*open(*engine), text(200, i), sampled(20));
  });
  std::vector<std::string> paths;
  for (int i = 0; i < 20; ++i) {
    paths.push_back(folder.path(std::to_string(i)));
    CHECK(session->save(paths.back()).ok());
    CHECK(session->restore(paths.back()).ok());
    std::this_thread::sleep_for(1ms);
  }
  stop = true;
  others.join();
  const std::vector<int32_t> expected = tokens_of(*session, {}, sampled(30));
  REQUIRE(expected.size() == 30);
  for (const std::string& path : paths) {
    const auto restored = open(*other_engine);
    REQUIRE(restored->restore(path).ok());
    CHECK(tokens_of(*restored, {}, sampled(30)) == expected);
  }
}

TEST_CASE("a saved session holds nothing of others that had its pages before") {
  const TempDir folder;
  for (const std::string& model : {kModel, kWindowModel}) {
    for (const char* type : {"f32", "f16"}) {
      std::string found[2];
      for (const bool used : {false, true}) {
        const auto engine = load_typed(model, type, 64);
        if (used) {
          CHECK(tokens_of(*open(*engine), text(60, 2), sampled(4)).size() == 4);
          EngineAccess::impl(*engine).thread->call(
              [&] { EngineAccess::impl(*engine).cache->clear_kept(); });
        }
        const auto session = open(*engine);
        CHECK(tokens_of(*session, text(5, 1), sampled(2)).size() == 2);
        const std::string path = folder.path("session");
        REQUIRE(session->save(path).ok());
        found[used ? 1 : 0] = read_file(path);
      }
      CHECK(found[0].size() > 64);
      CHECK(found[0] == found[1]);
    }
  }
}
