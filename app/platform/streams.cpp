#include "platform/streams.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "platform/folders.h"

namespace infer::platform {

void prepare_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    // open() takes the lowest free number, which is this one.
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", O_RDWR);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

int write_stdout(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (done >= 0) {
      bytes.remove_prefix(static_cast<size_t>(done));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {  // a pipe that does not block
      pollfd ready{STDOUT_FILENO, POLLOUT, 0};
      (void)poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

bool stdin_is_terminal() { return isatty(STDIN_FILENO) == 1; }

bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1; }

bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

bool started_by_desktop() {
  if (variable("DISPLAY").empty() && variable("WAYLAND_DISPLAY").empty()) return false;
  if (stdin_is_terminal() || stdout_is_terminal() || stderr_is_terminal()) return false;
  struct stat output {};
  return fstat(STDOUT_FILENO, &output) == 0 && !S_ISFIFO(output.st_mode) &&
         !S_ISREG(output.st_mode);
}

int terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace infer::platform
