// Requests to the hub: redirects, the token, repeated attempts. Nothing here knows what is asked
// for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "hub/curl.h"
#include "infer/status.hpp"

namespace infer::hub {

/// Whom to ask, and what to tell the user meanwhile.
struct Connection {
  std::string endpoint;        ///< "https://huggingface.co", without a slash at its end
  std::string token;           ///< sent to the endpoint's scheme, host and port alone; empty: none
  std::function<bool()> stop;  ///< true ends what is under way (cancelled)
  std::function<void(const std::string&)> note;  ///< a line for the user
};

/// Waits between attempts, longer after each, until too many in a row came to nothing.
class Attempts {
 public:
  explicit Attempts(const Connection& connection) : connection_(connection) {}

  /// Whether to try again after this end; it has waited then. What an answer of 429 or 503 asks for
  /// in Retry-After is waited for, unless that is too long.
  bool again(const Transfer& failed);
  /// Bytes have come: the next failure is a first one, and a server that is not reached any more
  /// may come back.
  void progressed();

 private:
  const Connection& connection_;
  int failures_ = 0;
  bool reached_ = false;
};

/// The answer after redirects: at most ten, to http and https alone, never from https to http.
/// Headers of the hub (X-Repo-Commit, X-Linked-Etag, X-Linked-Size) are those of the first answer
/// that has them. `begin` and `data` see the last answer alone. The token is left out wherever the
/// origin is not the endpoint's. With `head` a redirect to another origin is the answer: a store of
/// files may refuse such a request.
Transfer request(const Connection& connection, Exchange exchange);

/// The body of an answer of 200, at most `most` bytes, after as many attempts as it takes. `what`
/// is what a failure names. `answer` receives the headers.
Result<std::string> get_text(const Connection& connection, const std::string& url, size_t most,
                             const std::string& what, Answer& answer);
/// The head alone: of an answer of 200, or of a redirect to another host.
Result<Answer> get_head(const Connection& connection, const std::string& url,
                        const std::string& what);

/// What such an end means, in words for the user. `what` is the repository, with a file if it is
/// about one: "org/repo", "org/repo: model.gguf".
Status failure_of(const Connection& connection, const Transfer& transfer, const std::string& what);

}  // namespace infer::hub
