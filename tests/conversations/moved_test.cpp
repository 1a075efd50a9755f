// The file goes away while it is open.
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "conversations/async_store.h"
#include "tests/conversations/helpers.h"

namespace infer::conversations::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr auto kSecond = 1100ms;  // after which the system is asked again

TEST_CASE("a file that was removed is written anew before something is written") {
  infer::test::TempDir folder;
  const std::string path = folder.path("data/c.db");
  for (const bool whole_folder : {true, false}) {
    CAPTURE(whole_folder);
    int anew = 0;
    AsyncOptions options;
    options.written_anew = [&] { ++anew; };
    {
      AsyncStore store(path, options);
      int done = 0;
      const auto add = [&](const char* title) {
        store.call([title](Store& s) { return s.create(titled(title)); },
                   [&](const Result<Conversation>& made) { done += made ? 1 : 0; });
      };
      add("before");
      poll_until(store, [&] { return done == 1; });
      std::optional<size_t> found;
      const auto look = [&] {
        found.reset();
        store.search("before", 0ms,
                     [&](const Result<std::vector<Hit>>& hits) { found = must(hits).size(); });
        poll_until(store, [&] { return found.has_value(); });
      };
      look();
      if (whole_folder) {
        fs::remove_all(fs::path(path).parent_path());
      } else {
        fs::remove(path);
      }
      std::this_thread::sleep_for(kSecond);
      add("after");
      poll_until(store, [&] { return done == 2; });
      CHECK(anew == 1);
      const size_t seen = *found;
      look();
      CHECK(*found == seen);
    }
    OpenReport report;
    const std::unique_ptr<Store> store = open_store(path, &report);
    CHECK(report.set_aside.empty());
    CHECK(must(store->list()).size() == (whole_folder ? 2 : 4));
    CHECK(must(store->search("after")).size() == (whole_folder ? 1 : 2));
    CHECK_FALSE(fs::exists(path + ".anew"));
  }
}

TEST_CASE("while another file is in its place nothing is written, and that is told") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  Status failed;
  int anew = 0;
  AsyncOptions options;
  options.save_every = 20ms;
  options.save_failed = [&](const Status& status) { failed = status; };
  options.written_anew = [&] { ++anew; };
  Id answer = 0;
  {
    AsyncStore store(path, options);
    store.call(
        [&](Store& s) -> Status {
          NewMessage wanted = from_assistant(0, "");
          wanted.state = State::writing;
          answer = must(s.add(must(s.create(titled("t"))).id, wanted)).id;
          return {};
        },
        [](const Status&) {});
    std::optional<Status> renamed;
    store.call([](Store& s) { return s.rename(1, "u"); },
               [&](const Status& status) { renamed = status; });
    poll_until(store, [&] { return renamed.has_value(); });
    must(*renamed);
    fs::rename(path, folder.path("old.db"));
    open_store(folder.path("other.db"));
    fs::rename(folder.path("other.db"), path);
    std::this_thread::sleep_for(kSecond);
    store.append(answer, "kept", "");
    poll_until(store, [&] { return !failed.ok(); });
    CHECK(failed.code() == StatusCode::io);
    CHECK(failed.message().find(path) != std::string::npos);
    CHECK(store.unsaved().code() == StatusCode::io);
    fs::remove(path);
    poll_until(store, [&] { return store.unsaved().ok() && anew == 1; });
  }
  CHECK(must(open_store(path)->load(1)).find(answer)->text == "kept");
}

TEST_CASE_FIXTURE(Fixture, "a file that is put back is written again") {
  const Id id = must(store->create(titled("t"))).id;
  std::this_thread::sleep_for(kSecond);
  fs::rename(path, path + ".away");
  CHECK(store->rename(id, "u").code() == StatusCode::io);
  CHECK(store->is_moved());
  CHECK(must(store->conversation(id)).title == "t");
  fs::rename(path + ".away", path);
  std::this_thread::sleep_for(kSecond);
  must(store->rename(id, "u"));
}

}  // namespace
}  // namespace infer::conversations::test
