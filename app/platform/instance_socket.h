// One process of several is the first: the others send it messages and end. The first one holds a
// lock on a file and listens on a socket beside it. Both end with the process, however it ends.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "infer/status.hpp"

namespace infer::platform {

/// Of a longer message nothing is delivered.
inline constexpr size_t kMostMessageBytes = 1 << 20;

/// The end of the first process. Receives messages on a thread of its own.
class InstanceSocket {
 public:
  /// Gets a whole message of a process of the same user, on the socket's thread.
  using MessageFn = std::function<void(std::string_view)>;

  /// Makes the folder, which only the user can use, and becomes the first process. busy: another
  /// process is the first. io: the folder cannot be used, or belongs to somebody else.
  static Result<std::unique_ptr<InstanceSocket>> open(const std::filesystem::path& folder,
                                                      MessageFn on_message);
  ~InstanceSocket();
  InstanceSocket(const InstanceSocket&) = delete;
  InstanceSocket& operator=(const InstanceSocket&) = delete;

 private:
  InstanceSocket() = default;
  struct State;
  std::unique_ptr<State> state_;
};

/// Sends a message to the first process and waits until it has been received. not_found: there is
/// none. busy: it does not answer in time. io: the system fails. invalid_argument: too long.
Status send_to_instance(const std::filesystem::path& folder, std::string_view message,
                        std::chrono::milliseconds timeout);

}  // namespace infer::platform
