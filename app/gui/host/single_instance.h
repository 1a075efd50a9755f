// One window for a user: a second start tells the first one what to open, and ends.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gui/host/event_queue.h"
#include "infer/status.hpp"
#include "platform/instance_socket.h"

namespace infer::gui {

/// What a start asks for.
struct OpenRequest {
  std::vector<std::string> paths;  ///< models; empty: the window alone
  bool operator==(const OpenRequest&) const = default;
};

/// The folder of the socket: infer in XDG_RUNTIME_DIR. Empty if that is not set: then every start
/// has a window of its own.
std::filesystem::path instance_folder();

/// A request as one message, and back. Paths become absolute, but "memory:…" stays.
std::string request_text(const OpenRequest& request);
/// bad_file: it is no such message.
Result<OpenRequest> parse_request(std::string_view text);

class SingleInstance {
 public:
  /// Becomes the first, or gives `request` to the first one: then first() is false and the caller
  /// ends. An error means that neither was possible; the caller may open a window all the same.
  static Result<std::unique_ptr<SingleInstance>> open(
      const std::filesystem::path& folder, const OpenRequest& request, WakeFn wake = {},
      std::chrono::milliseconds timeout = std::chrono::milliseconds(3000));

  bool first() const { return socket_ != nullptr; }
  /// Calls `open` for what later starts asked for. The thread that draws.
  void poll(const std::function<void(const OpenRequest&)>& open);

 private:
  explicit SingleInstance(WakeFn wake) : requests_(std::move(wake)) {}

  EventQueue<OpenRequest> requests_;
  std::unique_ptr<platform::InstanceSocket> socket_;  // the last member: it uses the other
};

}  // namespace infer::gui
