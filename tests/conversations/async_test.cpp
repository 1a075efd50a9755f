// The face that never waits: order, completions, texts that grow, failures.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <optional>
#include <thread>

#include "conversations/async_store.h"
#include "tests/conversations/full_disk.h"
#include "tests/conversations/helpers.h"

namespace infer::conversations::test {
namespace {

/// Runs a job and waits for what it returns.
template <typename Job>
auto result_of(AsyncStore& store, Job job) {
  std::optional<std::invoke_result_t<Job, Store&>> result;
  store.call(job, [&](auto returned) { result = std::move(returned); });
  poll_until(store, [&] { return result.has_value(); });
  return *result;
}

Id begin_answer(AsyncStore& store) {
  return must(result_of(store, [](Store& s) -> Result<Id> {
    const Id conversation = must(s.create(titled("t"))).id;
    NewMessage wanted = from_assistant(0, "");
    wanted.state = State::writing;
    return must(s.add(conversation, wanted)).id;
  }));
}

Message read_answer(const std::string& path, Id id) {
  return *must(open_store(path)->load(1)).find(id);
}

TEST_CASE("jobs run in their order, and poll() tells their results in the same") {
  infer::test::TempDir folder;
  std::vector<int> told;
  bool opened = false;
  std::atomic<int> woken = 0;
  AsyncOptions options;
  options.opened = [&](const Status& status, const OpenReport& report) {
    opened = status.ok() && report.set_aside.empty();
  };
  options.wake = [&] { ++woken; };
  AsyncStore store(folder.path("c.db"), options);
  for (int i = 0; i < 20; ++i) {
    store.call([i](Store& s) { return s.create(titled(std::to_string(i))); },
               [&told, i](const Result<Conversation>& made) {
                 CHECK(made.has_value());
                 CHECK(made->title == std::to_string(i));
                 told.push_back(i);
               });
  }
  CHECK(told.empty());  // nothing is told but by poll()
  poll_until(store, [&] { return told.size() == 20; });
  CHECK(opened);
  CHECK(std::ranges::is_sorted(told));
  CHECK(woken == 21);
  CHECK(store.poll() == 0);
  CHECK(must(result_of(store, [](Store& s) { return s.list(); })).size() == 20);
  CHECK(result_of(store, [](Store& s) { return s.rename(99, ""); }).code() ==
        StatusCode::not_found);
}

TEST_CASE("a job sees what was appended before it") {
  infer::test::TempDir folder;
  AsyncOptions options;
  options.save_every = std::chrono::hours(1);
  AsyncStore store(folder.path("c.db"), options);
  const Id answer = begin_answer(store);
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    store.append(answer, std::to_string(i) + " ", "r");
    expected += std::to_string(i) + " ";
  }
  const Tree tree = must(result_of(store, [](Store& s) { return s.load(1); }));
  CHECK(tree.find(answer)->text == expected);
  CHECK(tree.find(answer)->reasoning == std::string(100, 'r'));
  store.append(answer, "end", "");
  must(result_of(store, [answer](Store& s) { return s.finish(answer, {}); }));
  CHECK(must(result_of(store, [](Store& s) { return s.load(1); })).find(answer)->text ==
        expected + "end");
}

TEST_CASE("what is appended is saved soon, many pieces at a time") {
  infer::test::TempDir folder;
  AsyncOptions options;
  options.save_every = std::chrono::milliseconds(50);
  AsyncStore store(folder.path("c.db"), options);
  const Id answer = begin_answer(store);
  std::atomic<bool> done = false;
  std::thread generator([&] {
    for (int i = 0; i < 300; ++i) {
      store.append(answer, "word ", "");
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    done = true;
  });
  poll_until(store, [&] { return done.load(); });
  generator.join();
  // Another connection sees it without a job that would have saved it.
  const std::unique_ptr<Database> other = must(Database::open(folder.path("c.db"), 1000));
  poll_until(store,
             [&] { return must(other->integer("SELECT sum(length(text)) FROM pieces")) == 1500; });
  CHECK(must(other->integer("SELECT count(*) FROM pieces")) < 150);
}

TEST_CASE("the end of the store saves everything") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  Id answer = 0;
  {
    AsyncOptions options;
    options.save_every = std::chrono::hours(1);
    AsyncStore store(path, options);
    answer = begin_answer(store);
    for (int i = 0; i < 50; ++i) {
      store.call([i](Store& s) { return s.rename(1, std::to_string(i)); }, [](const Status&) {});
    }
    store.append(answer, "kept", "");
  }
  CHECK(read_answer(path, answer).text == "kept");
  CHECK(read_answer(path, answer).state == State::stopped);
  CHECK(must(open_store(path)->conversation(1)).title == "49");
}

TEST_CASE("if the file cannot be opened every call fails with the reason") {
  Status why;
  AsyncOptions options;
  options.opened = [&](const Status& status, const OpenReport&) { why = status; };
  AsyncStore store("/proc/none/c.db", options);
  store.append(1, "lost", "");
  const Result<std::vector<Conversation>> all = result_of(store, [](Store& s) { return s.list(); });
  CHECK(all.error().code() == StatusCode::io);
  CHECK(all.error().message() == why.message());
  CHECK(result_of(store, [](Store& s) { return s.rename(1, ""); }).code() == StatusCode::io);
}

TEST_CASE("text that cannot be saved stays in memory and is saved later") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  int failures = 0;
  Status failed;
  AsyncOptions options;
  options.open.busy_ms = 200;
  options.save_every = std::chrono::milliseconds(5);
  options.save_failed = [&](const Status& status) {
    failed = status;
    ++failures;
  };
  AsyncStore store(path, options);
  const Id answer = begin_answer(store);
  const std::unique_ptr<Database> other = must(Database::open(path, 1000));
  must(other->execute("BEGIN IMMEDIATE"));
  store.append(answer, "one ", "a");
  poll_until(store, [&] { return failures == 1; });
  // Most often this falls into the next attempt to save.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  store.append(answer, "two ", "b");
  CHECK(result_of(store, [](Store& s) { return s.rename(1, ""); }).code() == StatusCode::busy);
  store.append(answer, "three", "c");
  CHECK(failed.code() == StatusCode::busy);
  CHECK(failures == 1);
  must(other->execute("COMMIT"));
  poll_until(store,
             [&] { return must(other->integer("SELECT sum(length(text)) FROM pieces")) == 13; });
  const Tree tree = must(result_of(store, [](Store& s) { return s.load(1); }));
  CHECK(tree.find(answer)->text == "one two three");
  CHECK(tree.find(answer)->reasoning == "abc");
  store.append(99, "to a message that is gone", "");
  must(result_of(store, [](Store& s) { return s.rename(1, "u"); }));
  CHECK(failures == 1);
}

TEST_CASE("the end of an answer that cannot be saved is saved later, after its text") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  int failures = 0;
  AsyncOptions options;
  options.save_every = std::chrono::milliseconds(5);
  options.save_failed = [&](const Status&) { ++failures; };
  AsyncStore store(path, options);
  const Id answer = begin_answer(store);
  CHECK(store.unsaved().ok());
  std::optional<Status> ended;
  const auto end = [&](bool with_text) {
    if (with_text) store.append(answer, "the end", "");
    store.keep([answer](Store& s) { return s.finish(answer, {}); },
               [&](const Status& status) { ended = status; });
    // Other jobs are done meanwhile, and fail.
    CHECK(result_of(store, [](Store& s) { return s.rename(1, "u"); }).code() == StatusCode::io);
    poll_until(store, [&] { return failures > 0; });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    store.poll();
    CHECK_FALSE(ended.has_value());
    CHECK(store.unsaved().code() == StatusCode::io);
  };
  for (const bool with_text : {true, false}) {
    CAPTURE(with_text);
    if (!with_text) must(result_of(store, [answer](Store& s) { return s.resume(answer); }));
    failures = 0;
    ended.reset();
    {
      const FullDisk full;
      end(with_text);
    }
    poll_until(store, [&] { return ended.has_value(); });
    must(*ended);
    CHECK(failures == 1);
    CHECK(store.unsaved().ok());
    const Tree tree = must(result_of(store, [](Store& s) { return s.load(1); }));
    CHECK(tree.find(answer)->text == "the end");
    CHECK(tree.find(answer)->state == State::complete);
  }
  // What can never work is told at once.
  ended.reset();
  store.keep([](Store& s) { return s.finish(99, {}); },
             [&](const Status& status) { ended = status; });
  poll_until(store, [&] { return ended.has_value(); });
  CHECK(ended->code() == StatusCode::not_found);
}

TEST_CASE("the end of the store tries once more what could not be saved") {
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  Id answer = 0;
  for (const bool is_full : {true, false}) {
    CAPTURE(is_full);
    std::optional<FullDisk> full;
    AsyncOptions options;
    options.save_every = std::chrono::hours(1);
    {
      AsyncStore store(path, options);
      if (answer == 0) answer = begin_answer(store);
      must(result_of(store, [answer](Store& s) { return s.resume(answer); }));
      full.emplace();
      store.append(answer, "a", "");
      store.keep([answer](Store& s) { return s.finish(answer, {}); }, [](const Status&) {});
      poll_until(store, [&] { return !store.unsaved().ok(); });
      if (!is_full) full.reset();
    }
    full.reset();
    CHECK(read_answer(path, answer).text == (is_full ? "" : "a"));
    CHECK(read_answer(path, answer).state == (is_full ? State::stopped : State::complete));
  }
}

TEST_CASE("a job that runs out of memory fails with a typed error") {
  infer::test::TempDir folder;
  AsyncStore store(folder.path("c.db"), {});
  const Status failed = result_of(store, [](Store&) -> Status { throw std::bad_alloc(); });
  CHECK(failed.code() == StatusCode::out_of_memory);
  CHECK(must(result_of(store, [](Store& s) { return s.list(); })).empty());
}

TEST_CASE("many threads may use it at once") {
  infer::test::TempDir folder;
  AsyncStore store(folder.path("c.db"), {});
  const Id answer = begin_answer(store);
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        store.append(answer, "x", "y");
        store.call([](Store& s) { return s.list(); },
                   [&](const Result<std::vector<Conversation>>& all) { done += all ? 1 : 0; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  poll_until(store, [&] { return done == 200; });
  const Tree tree = must(result_of(store, [](Store& s) { return s.load(1); }));
  CHECK(tree.find(answer)->text == std::string(200, 'x'));
}

}  // namespace
}  // namespace infer::conversations::test
