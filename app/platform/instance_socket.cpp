#include "platform/instance_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

namespace infer::platform {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kMostForOneMessage{2000};
constexpr std::chrono::milliseconds kTryAgain{100};
constexpr char kReceived = '+';

/// A descriptor that is closed at the end.
class Handle {
 public:
  explicit Handle(int number = -1) : number_(number) {}
  ~Handle() {
    if (number_ >= 0) (void)close(number_);
  }
  Handle(Handle&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_;
};

Status cannot(const char* what, const fs::path& path, int code) {
  return {StatusCode::io, fmt::format("{}: cannot {}: {}", path.string(), what,
                                      std::generic_category().message(code))};
}

fs::path socket_of(const fs::path& folder) { return folder / "window.socket"; }

/// False if the path is longer than such an address may be.
bool set_address(const fs::path& path, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  if (path.string().size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.c_str(), path.string().size());
  return true;
}

/// Whether the descriptor is ready before `end`.
bool wait_for(int handle, short events, Clock::time_point end) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    pollfd one{handle, events, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

/// Whether the process at the other end has the same user.
bool is_own(int connection) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

/// A folder that nobody else can use.
Status make_private(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder.parent_path(), failed);
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return cannot("create", folder, errno);
  }
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0) return cannot("use", folder, errno);
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
    return {StatusCode::io,
            folder.string() + ": expected a folder of this user; remove what is there"};
  }
  if (chmod(folder.c_str(), S_IRWXU) != 0) return cannot("use", folder, errno);
  return {};
}

}  // namespace

struct InstanceSocket::State {
  fs::path path;
  MessageFn on_message;
  Handle lock, listener, end_read, end_write;
  std::thread thread;

  void run() {
    for (;;) {
      pollfd waited[2] = {{listener.get(), POLLIN, 0}, {end_read.get(), POLLIN, 0}};
      if (::poll(waited, 2, -1) < 0 && errno != EINTR) return;
      if (waited[1].revents != 0) return;
      if (waited[0].revents == 0) continue;
      const Handle connection(
          accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!connection) {
        // Without descriptors the call would fail again at once.
        (void)wait_for(end_read.get(), POLLIN, Clock::now() + kTryAgain);
        continue;
      }
      if (!is_own(connection.get())) continue;
      try {
        receive(connection.get());
      } catch (const std::bad_alloc&) {
        // The sender gets no answer and says so.
      }
    }
  }

  /// A message ends where its sender shuts its end.
  void receive(int connection) const {
    const Clock::time_point end = Clock::now() + kMostForOneMessage;
    std::string message;
    char part[4096];
    for (;;) {
      if (!wait_for(connection, POLLIN, end)) return;
      const ssize_t count = read(connection, part, sizeof(part));
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count < 0) return;
      if (count == 0) break;
      if (message.size() + static_cast<size_t>(count) > kMostMessageBytes) return;
      message.append(part, static_cast<size_t>(count));
    }
    on_message(message);
    (void)send(connection, &kReceived, 1, MSG_NOSIGNAL);
  }
};

Result<std::unique_ptr<InstanceSocket>> InstanceSocket::open(const fs::path& folder,
                                                             MessageFn on_message) {
  if (const Status made = make_private(folder); !made.ok()) return tl::unexpected(made);
  auto state = std::make_unique<State>();
  const fs::path lock = folder / "window.lock";
  state->lock = Handle(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!state->lock) return tl::unexpected(cannot("create", lock, errno));
  if (flock(state->lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return tl::unexpected(cannot("lock", lock, errno));
    return tl::unexpected(Status(StatusCode::busy, "the window is open in another process"));
  }
  state->path = socket_of(folder);
  sockaddr_un address;
  if (!set_address(state->path, address)) {
    return tl::unexpected(Status(StatusCode::io, state->path.string() + ": the path is too long"));
  }
  (void)unlink(state->path.c_str());  // of a process that was killed
  state->listener = Handle(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!state->listener ||
      bind(state->listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(state->listener.get(), 16) != 0) {
    return tl::unexpected(cannot("listen on", state->path, errno));
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return tl::unexpected(cannot("listen on", state->path, errno));
  state->end_read = Handle(ends[0]);
  state->end_write = Handle(ends[1]);
  state->on_message = std::move(on_message);
  state->thread = std::thread([running = state.get()] { running->run(); });
  std::unique_ptr<InstanceSocket> opened(new InstanceSocket());
  opened->state_ = std::move(state);
  return opened;
}

InstanceSocket::~InstanceSocket() {
  state_->end_write = Handle();  // which the thread notices
  state_->thread.join();
  (void)unlink(state_->path.c_str());
}

Status send_to_instance(const fs::path& folder, std::string_view message,
                        std::chrono::milliseconds timeout) {
  if (message.size() > kMostMessageBytes) {
    return {StatusCode::invalid_argument, fmt::format("a message of {} bytes: expected at most {}",
                                                      message.size(), kMostMessageBytes)};
  }
  const fs::path path = socket_of(folder);
  const Clock::time_point end = Clock::now() + timeout;
  const Status silent(StatusCode::busy,
                      "the window is open in another process, which does not answer; end it or "
                      "try again");
  sockaddr_un address;
  if (!set_address(path, address)) {
    return {StatusCode::io, path.string() + ": the path is too long"};
  }
  const Handle connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection) return cannot("reach", path, errno);
  // The first process may have its lock and not listen yet; its queue may be full.
  while (connect(connection.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    const int code = errno;
    if (code != ENOENT && code != ECONNREFUSED && code != EAGAIN && code != EINTR) {
      return cannot("reach", path, code);
    }
    if (Clock::now() >= end) {
      if (code == EAGAIN) return silent;
      return {StatusCode::not_found, path.string() + ": no window listens there"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (!is_own(connection.get())) {
    return {StatusCode::io, path.string() + ": belongs to another user"};
  }
  while (!message.empty()) {
    if (!wait_for(connection.get(), POLLOUT, end)) return silent;
    const ssize_t count = send(connection.get(), message.data(), message.size(), MSG_NOSIGNAL);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return cannot("reach", path, errno);
    message.remove_prefix(static_cast<size_t>(count));
  }
  if (shutdown(connection.get(), SHUT_WR) != 0) return cannot("reach", path, errno);
  if (!wait_for(connection.get(), POLLIN, end)) return silent;
  char answer = 0;
  if (read(connection.get(), &answer, 1) != 1 || answer != kReceived) return silent;
  return {};
}

}  // namespace infer::platform
