#include "gui/host/single_instance.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "platform/folders.h"

namespace infer::gui {
namespace {

namespace fs = std::filesystem;

/// A later version of the program may say more; this one then opens its window.
constexpr std::string_view kHead = "infer window 1\n";
constexpr size_t kMostSent = 1000;

}  // namespace

fs::path instance_folder() {
  const fs::path folder = platform::variable("XDG_RUNTIME_DIR");
  return folder.is_absolute() ? folder / "infer" : fs::path();
}

std::string request_text(const OpenRequest& request) {
  std::string text(kHead);
  for (const std::string& path : request.paths) {
    std::error_code failed;
    const bool file = !path.starts_with("memory:");
    const fs::path whole = file ? fs::absolute(path, failed) : fs::path(path);
    text += (failed ? path : whole.string()) + '\0';
  }
  return text;
}

Result<OpenRequest> parse_request(std::string_view text) {
  const auto bad = [] {
    return tl::unexpected(Status(
        StatusCode::bad_file, "another process sent something else than a request to open a file"));
  };
  if (!text.starts_with(kHead)) return bad();
  text.remove_prefix(kHead.size());
  OpenRequest request;
  while (!text.empty()) {
    const size_t end = text.find('\0');
    if (end == 0 || end == std::string_view::npos) return bad();
    if (request.paths.size() == kMostSent) return bad();
    request.paths.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return request;
}

Result<std::unique_ptr<SingleInstance>> SingleInstance::open(const fs::path& folder,
                                                             const OpenRequest& request,
                                                             WakeFn wake,
                                                             std::chrono::milliseconds timeout) {
  std::unique_ptr<SingleInstance> made(new SingleInstance(std::move(wake)));
  const auto receive = [instance = made.get()](std::string_view text) {
    Result<OpenRequest> received = parse_request(text);
    if (received) instance->requests_.push(*std::move(received));
  };
  // The first one may end between two steps: then this one is the first.
  constexpr int kTries = 2;
  Status status;
  for (int i = 0; i < kTries; ++i) {
    auto socket = platform::InstanceSocket::open(folder, receive);
    if (socket) {
      made->socket_ = *std::move(socket);
      return made;
    }
    status = socket.error();
    if (status.code() != StatusCode::busy) break;
    status = platform::send_to_instance(folder, request_text(request), timeout);
    if (status.ok()) return made;
    if (status.code() != StatusCode::not_found) break;
  }
  return tl::unexpected(status);
}

void SingleInstance::poll(const std::function<void(const OpenRequest&)>& open) {
  for (const OpenRequest& request : requests_.take()) open(request);
}

}  // namespace infer::gui
