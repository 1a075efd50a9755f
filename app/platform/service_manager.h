// What a service manager such as systemd tells a service and wants to be told.
#pragma once

#include <string_view>

namespace infer::platform {

/// Sends a state, "READY=1", to the socket that NOTIFY_SOCKET names. Without one nothing happens.
void notify_service_manager(std::string_view state);

/// A listening TCP socket that the service manager opened for this process (LISTEN_PID,
/// LISTEN_FDS). −1: none. The first one of several.
int inherited_socket();
/// Whether a listening socket is one of IPv6.
bool is_ipv6(int socket);

}  // namespace infer::platform
