// Kills a process while it writes, again and again: what it was told to be kept is there.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include "tests/conversations/helpers.h"

namespace infer::conversations::test {
namespace {

constexpr const char* kPathVariable = "INFER_TEST_CONVERSATIONS";
constexpr const char* kWriter = "the process that is killed";

/// Tells the other process, in one call that is whole or not at all: "what id number".
void acknowledge(const char* what, Id id, int64_t number) {
  char line[64];
  const int size = std::snprintf(line, sizeof(line), "%s %lld %lld\n", what,
                                 static_cast<long long>(id), static_cast<long long>(number));
  if (write(3, line, static_cast<size_t>(size)) != size) _exit(1);
}

// Started by the test below in a process of its own; descriptor 3 takes what is acknowledged.
TEST_CASE("the process that is killed" * doctest::skip()) {
  const char* const path = getenv(kPathVariable);
  REQUIRE(path != nullptr);
  const std::unique_ptr<Store> store = open_store(path);
  std::mt19937 random(static_cast<uint32_t>(getpid()));
  const Id conversation = must(store->create(titled("written"))).id;
  acknowledge("conversation", conversation, 0);
  Id parent = 0;
  for (;;) {
    const std::string text(random() % 3'000, 'x');
    const Message question = must(store->add(conversation, from_user(parent, text)));
    acknowledge("text", question.id, static_cast<int64_t>(text.size()));
    NewMessage wanted = from_assistant(question.id, "");
    wanted.state = State::writing;
    const Id answer = must(store->add(conversation, wanted)).id;
    acknowledge("text", answer, 0);
    int64_t size = 0;
    for (uint32_t pieces = random() % 4; pieces > 0; --pieces) {
      must(store->append(answer, "piece ", ""));
      size += 6;
      acknowledge("text", answer, size);
    }
    must(store->finish(answer, {}));
    acknowledge("complete", answer, size);
    if (random() % 4 == 0) {
      must(store->move_message_to_trash(answer));
      acknowledge("trash", answer, 0);
    } else {
      parent = answer;
    }
  }
}

struct Acknowledged {
  std::vector<Id> conversations;
  std::map<Id, int64_t> texts;  // sizes
  std::map<Id, bool> complete, trashed;
};

void read_lines(const std::string& lines, Acknowledged& all) {
  std::istringstream in(lines.substr(0, lines.rfind('\n') + 1));
  std::string what;
  Id id = 0;
  int64_t number = 0;
  while (in >> what >> id >> number) {
    if (what == "conversation") all.conversations.push_back(id);
    if (what == "text") all.texts[id] = number;
    if (what == "complete") all.complete[id] = true;
    if (what == "trash") all.trashed[id] = true;
  }
}

constexpr int kCannotStart = 127;

/// Runs the writer, kills it after the time, and returns what it told. Nothing if no process can be
/// started: an emulator of another processor may not do that.
std::optional<std::string> run_and_kill(std::chrono::microseconds after) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], 3);
    if (ends[0] != 3) close(ends[0]);
    if (ends[1] != 3) close(ends[1]);
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    const std::string filter = std::string("--test-case=") + kWriter;
    execl("/proc/self/exe", "writer", filter.c_str(), "--no-skip", nullptr);
    _exit(kCannotStart);
  }
  close(ends[1]);
  std::string told;
  char buffer[4096];
  // From the first line on: before it, the process only starts.
  ssize_t got = read(ends[0], buffer, sizeof(buffer));
  if (got > 0) told.append(buffer, static_cast<size_t>(got));
  std::this_thread::sleep_for(after);
  kill(child, SIGKILL);
  while ((got = read(ends[0], buffer, sizeof(buffer))) > 0) {
    told.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotStart) return std::nullopt;
  CHECK(WIFSIGNALED(status));
  return told;
}

TEST_CASE("nothing that was acknowledged is lost when the process is killed") {
  const char* const wanted = getenv("INFER_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 100;
  infer::test::TempDir folder;
  const std::string path = folder.path("c.db");
  setenv(kPathVariable, path.c_str(), 1);
  std::mt19937 random(7);
  size_t seen = 0;
  for (int i = 0; i < kills; ++i) {
    CAPTURE(i);
    Acknowledged all;
    const std::optional<std::string> told =
        run_and_kill(std::chrono::microseconds(random() % 25'000));
    if (!told) return infer::test::skipped("a process that is killed: it cannot be started");
    read_lines(*told, all);
    OpenReport report;
    const std::unique_ptr<Store> store = open_store(path, &report);
    CHECK(report.set_aside.empty());
    for (const Id conversation : all.conversations) {
      const Tree tree = must(store->load(conversation));
      for (const auto& [id, size] : all.texts) {
        const Message* const message = tree.find(id);
        if (message == nullptr) {
          // The line about the trash may have been lost with the process, but not the change.
          CHECK(all.complete[id]);
          continue;
        }
        CHECK_FALSE(all.trashed[id]);
        CHECK(static_cast<int64_t>(message->text.size()) >= size);
        CHECK(message->state == (all.complete[id] ? State::complete : message->state));
        CHECK(message->state != State::writing);
        ++seen;
      }
      must(store->move_to_trash(conversation));
    }
    if (i % 10 == 9) must(store->empty_trash(std::numeric_limits<Time>::max()));
  }
  CHECK(seen > static_cast<size_t>(kills));
}

}  // namespace
}  // namespace infer::conversations::test
