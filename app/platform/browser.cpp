#include "platform/browser.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace infer::platform {

bool open_in_browser(const std::string& address) {
  std::string program = "xdg-open";
  std::string argument = address;
  char* const words[] = {program.data(), argument.data(), nullptr};
  pid_t process = 0;
  if (posix_spawnp(&process, program.c_str(), nullptr, nullptr, words, environ) != 0) return false;
  // The process is waited for, so that it does not stay as a dead one.
  std::thread([process] {
    while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
    }
  }).detach();
  return true;
}

}  // namespace infer::platform
