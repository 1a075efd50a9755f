// One window for a user: what a second start says arrives at the first.
#include "gui/host/single_instance.h"

#include <doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/gui_host/pump.h"

using namespace infer;
using namespace infer::gui;
using namespace infer::test;

namespace {

namespace fs = std::filesystem;
using Opened = Result<std::unique_ptr<SingleInstance>>;

constexpr std::chrono::milliseconds kSoon{50};

std::vector<OpenRequest> wait_for(SingleInstance& instance, size_t count) {
  std::vector<OpenRequest> requests;
  CHECK(eventually([&] {
    instance.poll([&](const OpenRequest& request) { requests.push_back(request); });
    return requests.size() >= count;
  }));
  return requests;
}

/// Sends bytes as a program that is not ours might.
void send_raw(const fs::path& folder, const std::string& bytes, bool ends) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, (folder / "window.socket").c_str());
  const int connection = socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  (void)send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (ends) {
    (void)shutdown(connection, SHUT_WR);
    char answer;
    (void)!read(connection, &answer, 1);  // until it has been judged
  }
  close(connection);
}

}  // namespace

TEST_CASE("a second start tells the first what to open, and ends") {
  const TempDir folder;
  const fs::path place = folder.path("run/infer");
  std::atomic<int> woken{0};
  {
    const Opened first = SingleInstance::open(place, {}, [&] { ++woken; });
    REQUIRE_MESSAGE(first.has_value(), first.error().message());
    CHECK((*first)->first());
    CHECK((fs::status(place).permissions() & fs::perms::others_all) == fs::perms::none);
    const OpenRequest request{{"/models/a b\n.gguf", "relative.gguf", "memory:infer-demo.gguf"}};
    const Opened second = SingleInstance::open(place, request);
    REQUIRE_MESSAGE(second.has_value(), second.error().message());
    CHECK(!(*second)->first());
    REQUIRE(SingleInstance::open(place, {}).has_value());
    const std::vector<OpenRequest> got = wait_for(**first, 2);
    REQUIRE(got.size() == 2);
    CHECK(woken > 0);
    CHECK(got[0].paths == std::vector<std::string>{"/models/a b\n.gguf",
                                                   (fs::current_path() / "relative.gguf").string(),
                                                   "memory:infer-demo.gguf"});
    CHECK(got[1].paths.empty());
  }
  // It has ended: the next one is the first.
  CHECK((*SingleInstance::open(place, {}))->first());
}

TEST_CASE("of starts at one moment one is the first, and it hears of all others") {
  const TempDir folder;
  constexpr size_t kStarts = 8;
  std::vector<Opened> opened(kStarts);
  {
    std::vector<std::jthread> starts;
    for (size_t i = 0; i < kStarts; ++i) {
      starts.emplace_back([&, i] {
        opened[i] = SingleInstance::open(folder.path("run"), {{"/" + std::to_string(i)}}, {},
                                         std::chrono::seconds(60));
      });
    }
  }
  SingleInstance* first = nullptr;
  for (const Opened& one : opened) {
    REQUIRE_MESSAGE(one.has_value(), one.error().message());
    if (!(*one)->first()) continue;
    CHECK(first == nullptr);
    first = one->get();
  }
  REQUIRE(first != nullptr);
  CHECK(wait_for(*first, kStarts - 1).size() == kStarts - 1);
}

TEST_CASE("a first one that was killed is in nobody's way") {
  const TempDir folder;
  const pid_t child = fork();
  if (child == 0) {
    const Opened first = SingleInstance::open(folder.path("run"), {});
    _exit(first.has_value() ? 0 : 1);  // without a destructor: the socket's file stays
  }
  int status = 1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  CHECK(fs::exists(folder.path("run/window.socket")));
  const Opened next = SingleInstance::open(folder.path("run"), {});
  REQUIRE(next.has_value());
  CHECK((*next)->first());
}

TEST_CASE("a first one that does not answer is told in time") {
  const TempDir folder;
  const Opened first = SingleInstance::open(folder.path("run"), {});
  REQUIRE(first.has_value());
  // A socket that somebody listens on and nobody reads from.
  const fs::path path = folder.path("run/window.socket");
  fs::remove(path);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  const int deaf = socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(bind(deaf, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  REQUIRE(listen(deaf, 1) == 0);
  const Opened second = SingleInstance::open(folder.path("run"), {}, {}, kSoon);
  REQUIRE(!second.has_value());
  CHECK(second.error().code() == StatusCode::busy);
  CHECK(second.error().message().find("does not answer") != std::string::npos);
  // Locked, and nobody listens.
  close(deaf);
  fs::remove(path);
  const Opened third = SingleInstance::open(folder.path("run"), {}, {}, kSoon);
  REQUIRE(!third.has_value());
  CHECK(third.error().code() == StatusCode::not_found);
}

TEST_CASE("messages that are none open nothing") {
  const TempDir folder;
  const Opened first = SingleInstance::open(folder.path("run"), {});
  REQUIRE(first.has_value());
  for (const std::string& text :
       {std::string(), std::string("GET / HTTP/1.0\r\n\r\n"),
        std::string("infer window 2\n/a\0", 18), std::string("infer window 1\n/a"),
        std::string("infer window 1\n\0", 16), std::string(3 << 20, 'x')}) {
    send_raw(folder.path("run"), text, true);
  }
  send_raw(folder.path("run"), "infer window 1\n/a", false);
  REQUIRE(SingleInstance::open(folder.path("run"), {{"/good"}}).has_value());
  const std::vector<OpenRequest> got = wait_for(**first, 1);
  // The half message ended where its sender closed, which is as good as an end, and has no NUL.
  REQUIRE(got.size() == 1);
  CHECK(got[0].paths == std::vector<std::string>{"/good"});
  // Too much to ask for.
  const OpenRequest large{{std::string(2 << 20, 'a')}};
  const Opened refused = SingleInstance::open(folder.path("run"), large);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code() == StatusCode::invalid_argument);
}

TEST_CASE("requests are read as they were written") {
  const OpenRequest request{{"/a", "/b c", "/\xff"}};
  CHECK(*parse_request(request_text(request)) == request);
  CHECK(*parse_request(request_text({})) == OpenRequest());
  OpenRequest many;
  many.paths.assign(1001, "/a");
  CHECK(!parse_request(request_text(many)).has_value());
}

TEST_CASE("a folder that cannot be used is told") {
  const TempDir folder;
  write_bytes(folder.path("file"), bytes_of(""));
  CHECK(SingleInstance::open(folder.path("file"), {}).error().code() == StatusCode::io);
  CHECK(SingleInstance::open(folder.path("file/run"), {}).error().code() == StatusCode::io);
  fs::create_directory(folder.path("other"));
  fs::create_directory_symlink(folder.path("other"), folder.path("link"));
  CHECK(SingleInstance::open(folder.path("link"), {}).error().code() == StatusCode::io);
  CHECK(SingleInstance::open(folder.path(std::string(200, 'x')), {}).error().code() ==
        StatusCode::io);
}
