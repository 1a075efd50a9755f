// Requests to the hub: redirects, the token, repeated attempts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "hub/curl.h"
#include "infer/status.hpp"

namespace infer::hub {

/// The server, and how to reach the user meanwhile.
struct Connection {
  std::string endpoint;        ///< "https://huggingface.co", without a slash at the end
  std::string token;           ///< sent only to the endpoint's scheme, host and port; empty: none
  std::function<bool()> stop;  ///< returns true to end the request (cancelled)
  std::function<void(const std::string&)> note;  ///< shows a line to the user
};

/// Decides about further attempts and waits between them, longer after each.
class Attempts {
 public:
  explicit Attempts(const Connection& connection) : connection_(connection) {}

  /// Whether to try again after this failure. If so, it has waited already: for the time of
  /// Retry-After if the status is 429 or 503, unless that is too long.
  bool again(const Transfer& failed);
  /// Bytes have arrived: the next failure counts as the first one. A server that can no longer be
  /// reached is then tried again as well.
  void progressed();

 private:
  const Connection& connection_;
  int failures_ = 0;
  bool reached_ = false;
};

/// Sends a request and follows redirects: at most ten, only to http and https, never from https to
/// http. The hub's headers (X-Repo-Commit, X-Linked-Etag, X-Linked-Size) are taken from the first
/// answer that has them. `begin` and `data` see only the last answer. The token is sent only to the
/// endpoint's origin. With `head` a redirect to another origin is not followed but returned, since
/// a file store may refuse such a request.
Transfer request(const Connection& connection, Exchange exchange);

/// The body of an answer with status 200, at most `most` bytes, after repeated attempts. `what`
/// names the request in messages. `answer` receives the headers.
Result<std::string> get_text(const Connection& connection, const std::string& url, size_t most,
                             const std::string& what, Answer& answer);
/// Only the headers: of an answer with status 200, or of a redirect to another host.
Result<Answer> get_head(const Connection& connection, const std::string& url,
                        const std::string& what);

/// The error for a failed transfer, with a message for the user. `what`: the repository, and the
/// file if there is one: "org/repo", "org/repo: model.gguf".
Status failure_of(const Connection& connection, const Transfer& transfer, const std::string& what);

}  // namespace infer::hub
