// One request of HTTP and its answer. What handles requests sees this and nothing of the network.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/trace/trace_context.h"

namespace infer::server {

using Headers = std::vector<std::pair<std::string, std::string>>;

/// With ASCII letters in lower case.
std::string lower_case(std::string_view text);

/// The time now as RFC 9110, 5.6.7 has it: "Sun, 06 Nov 1994 08:49:37 GMT".
std::string http_date();

struct Request {
  std::string method;  ///< "GET"
  std::string path;    ///< "/v1/models", without the query, as it was sent
  std::string query;   ///< after the question mark
  Headers headers;     ///< names in lower case
  std::string body;
  bool is_http_1_0 = false;           ///< or older, which needs no Host
  std::string peer;                   ///< address that it comes from
  std::string id;                     ///< X-Request-Id if that is sane, otherwise a new one
  std::optional<TraceContext> trace;  ///< what traceparent and tracestate say

  /// Empty if there is none; the first of several.
  std::string_view header(std::string_view lower_case_name) const;
  bool has_header(std::string_view lower_case_name) const;
};

/// What who makes an answer is told of it.
enum class Notice {
  taken,   ///< its reader has taken all that was written
  quiet,   ///< nothing was written for HttpLimits::quiet_seconds
  closed,  ///< its reader has gone away
};

/// Any thread may call these functions, one at a time. Either send() once, or begin(), then write()
/// and end().
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;
  /// Stands in the answer's head. Called before send() and begin().
  virtual void add_header(std::string name, std::string value) = 0;
  /// The whole answer.
  virtual void send(int status, std::string_view type, std::string body, Headers more = {}) = 0;
  /// An answer that comes in parts.
  virtual void begin(int status, std::string_view type, Headers more = {}) = 0;
  virtual void write(std::string part) = 0;
  virtual void end() = 0;
  /// Bytes of the answer that the reader has not taken yet.
  virtual size_t unsent() const = 0;
  /// Whether nothing can be sent any more.
  virtual bool closed() const = 0;
  /// `notify` is called until the answer has ended: whenever unsent() has fallen to 0, again and
  /// again while nothing is written, and when the reader has gone away. It must return at once.
  virtual void watch(std::function<void(Notice)> notify) = 0;
  /// Since the request came.
  virtual double seconds() const = 0;
  /// The status that was sent; 0: none yet. And the bytes of the body so far.
  virtual int status() const = 0;
  virtual size_t sent() const = 0;
};

using ExchangePtr = std::shared_ptr<Exchange>;

/// Called on the network's thread for each request; returns at once.
using Handler = std::function<void(ExchangePtr)>;

/// Whether the sender of these headers may send a body: called on the network's thread before any
/// of it is read. If not, the handler gets the request without a body.
using Admit = std::function<bool(const Request&)>;

/// Called on the network's thread when an answer has ended, or its reader has gone away.
using Finished = std::function<void(const Exchange&)>;

/// Called on the network's thread for a request that is refused before its body was read; sends the
/// answer. The request has its headers if they were read.
using Refuse = std::function<void(Exchange&, int status, const std::string& message)>;

/// Bounds of what one connection may take.
struct HttpLimits {
  size_t header_bytes = 16 << 10;
  size_t body_bytes = size_t{32} << 20;
  size_t all_body_bytes = size_t{1} << 30;  ///< of the requests of all connections together
  double request_seconds = 60;              ///< to send a request
  double write_seconds = 60;                ///< without any progress in reading the answer
  double idle_seconds = 120;                ///< between requests
  double quiet_seconds = 10;                ///< see Notice::quiet; 0 or less: it is never told
  size_t connections = 4096;
};

}  // namespace infer::server
