#include "platform/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <utility>

#include "platform/interrupt.h"

namespace infer::platform {
namespace {

// What signal handlers see. They run on whichever thread the system chooses, so that a signal need
// not interrupt the thread that waits: a byte in a pipe wakes it instead.
std::atomic<int> wake_write{-1};
std::atomic<bool> was_interrupted{false};
std::atomic<bool> was_resized{false};
std::atomic<bool> was_resumed{false};
std::atomic<bool> pastes_marked{false};
termios modes_before{};
termios modes_between{};

void wake() {
  const int failure = errno;
  [[maybe_unused]] const ssize_t written = write(wake_write.load(), "", 1);
  errno = failure;
}

/// From the background a change of the terminal would stop the program.
bool in_background() {
  const pid_t front = tcgetpgrp(STDIN_FILENO);
  return front >= 0 && front != getpgrp();
}

void set_modes(const termios& modes) {
  if (!in_background()) (void)tcsetattr(STDIN_FILENO, TCSANOW, &modes);
}

/// Where pastes are marked at all.
void set_paste_marks(bool on) {
  if (!pastes_marked.load() || in_background()) return;
  constexpr char kOn[] = "\033[?2004h";
  constexpr char kOff[] = "\033[?2004l";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, on ? kOn : kOff, sizeof(kOn) - 1);
}

/// As the terminal was before the program.
void restore() {
  set_paste_marks(false);
  set_modes(modes_before);
}

void on_interrupt() {
  was_interrupted = true;
  wake();
}

void on_ending() { restore(); }

extern "C" void on_resize(int) {
  was_resized = true;
  wake();
}

extern "C" void on_stop(int signal) {
  const int failure = errno;
  termios modes{};
  (void)tcgetattr(STDIN_FILENO, &modes);
  restore();
  // By the default action, which does nothing if no shell could continue the program.
  struct sigaction ours {};
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  sigaction(signal, &plain, &ours);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  (void)raise(signal);
  sigaction(signal, &ours, nullptr);
  set_modes(modes);
  errno = failure;
}

extern "C" void on_resume(int) {
  const int failure = errno;
  set_modes(modes_between);
  set_paste_marks(true);
  was_resumed = true;
  wake();
  errno = failure;
}

extern "C" void on_end(int signal) {
  restore();
  (void)std::signal(signal, SIG_DFL);
  (void)raise(signal);  // comes when this returns
}

}  // namespace

struct Terminal::Handled {
  int signal;
  struct sigaction before;
};

Terminal::Terminal() {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    throw std::runtime_error("cannot open a pipe");
  }
  wake_read_ = pipe_ends[0];
  wake_write = pipe_ends[1];
  (void)tcgetattr(STDIN_FILENO, &modes_before);
  modes_between = modes_before;
  interrupt_key_ = static_cast<char>(modes_before.c_cc[VINTR]);
  end_key_ = static_cast<char>(modes_before.c_cc[VEOF]);
  was_interrupted = was_resized = was_resumed = false;
  set_interrupt_hooks({&on_interrupt, &on_ending});
  handle(SIGWINCH, on_resize);
  handle(SIGTSTP, on_stop);
  handle(SIGCONT, on_resume);
  handle(SIGQUIT, on_end);  // SIGHUP and SIGTERM: interrupt.h
}

Terminal::~Terminal() {
  for (const Handled& one : handled_) sigaction(one.signal, &one.before, nullptr);
  set_interrupt_hooks({});
  close(wake_write.exchange(-1));
  close(wake_read_);
}

void Terminal::handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  Handled one{signal, {}};
  sigaction(signal, nullptr, &one.before);
  if (one.before.sa_handler == SIG_IGN) return;  // as nohup wants it
  sigaction(signal, &action, nullptr);
  handled_.push_back(one);
}

void Terminal::keep_modes() {
  (void)tcgetattr(STDIN_FILENO, &modes_between);
  int waiting = 0;
  const bool gathered = (modes_before.c_lflag & ICANON) != 0;
  if (gathered && ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting > 0) {
    cooked_ = static_cast<size_t>(waiting);
  }
}

void Terminal::mark_pastes(bool on) {
  if (on) pastes_marked = true;
  set_paste_marks(on);
  pastes_marked = on;
}

void Terminal::forget_resumed() { was_resumed = false; }

bool Terminal::has_more() {
  pollfd ready{STDIN_FILENO, POLLIN, 0};
  return poll(&ready, 1, 0) > 0 && (ready.revents & POLLIN) != 0;
}

Terminal::Event Terminal::next(char& byte) {
  for (;;) {
    if (was_interrupted.exchange(false)) return Event::interrupt;
    if (was_resized.exchange(false)) return Event::resized;
    if (was_resumed.exchange(false)) return Event::resumed;
    pollfd ready[2] = {{wake_read_, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    if (poll(ready, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return Event::closed;
    }
    if (ready[0].revents != 0) {
      char woken[64];
      while (read(wake_read_, woken, sizeof(woken)) > 0) {
      }
      continue;
    }
    const ssize_t count = read(STDIN_FILENO, &byte, 1);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return Event::closed;
    // The system keeps a Ctrl-D of a terminal that gathers lines as a zero byte.
    if (cooked_ > 0) {
      --cooked_;
      if (byte == 0) byte = end_key_;
    }
    if (interrupt_key_ != 0 && byte == interrupt_key_) return Event::interrupt;
    return Event::byte;
  }
}

}  // namespace infer::platform
