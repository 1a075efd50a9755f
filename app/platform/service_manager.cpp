#include "platform/service_manager.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "platform/folders.h"

namespace infer::platform {

void notify_service_manager(std::string_view state) {
  const std::string path = variable("NOTIFY_SOCKET");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const bool named = path.starts_with('/') || path.starts_with('@');
  if (!named || path.size() >= sizeof(address.sun_path)) return;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path.starts_with('@')) address.sun_path[0] = '\0';  // Linux: a name without a file
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  (void)sendto(socket, state.data(), state.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), size);
  close(socket);
}

int inherited_socket() {
  constexpr int kFirst = 3;  // of the files that a service manager hands over
  if (variable("LISTEN_PID") != std::to_string(getpid())) return -1;
  const std::string count = variable("LISTEN_FDS");
  if (count.empty() || count == "0") return -1;
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (getsockopt(kFirst, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
    return -1;
  sockaddr_storage address = {};
  size = sizeof(address);
  if (getsockname(kFirst, reinterpret_cast<sockaddr*>(&address), &size) != 0) return -1;
  if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return -1;
  fcntl(kFirst, F_SETFD, FD_CLOEXEC);
  return kFirst;
}

bool is_ipv6(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  return getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
         address.ss_family == AF_INET6;
}

}  // namespace infer::platform
