// Listens, reads requests and writes answers: HTTP/1.1 (RFC 9112) on Boost.Beast. One thread does
// it for all connections.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "infer/status.hpp"
#include "server/http/exchange.h"

namespace infer::server {

/// Files of PEM. Both empty: plain HTTP.
struct TlsFiles {
  std::string certificate;  ///< with those that signed it
  std::string key;
};

/// Where to listen.
struct ListenAt {
  std::string host;
  uint16_t port = 0;  ///< 0: any free one
  int socket = -1;    ///< that listens already, in place of these two; -1: none
  TlsFiles tls;
};

/// What is called for each request.
struct Handlers {
  Handler handler;
  Admit admit;
  Refuse refuse;
  Finished finished;
};

class HttpServer {
 public:
  /// Opens the socket. io: the address cannot be used. bad_file: the files of TLS.
  static Result<std::unique_ptr<HttpServer>> listen(const ListenAt& at, const HttpLimits& limits,
                                                    Handlers handlers);
  virtual ~HttpServer() = default;

  /// Whether only this machine can reach it.
  virtual bool is_loopback() const = 0;

  /// The port, also if 0 was asked for.
  virtual uint16_t port() const = 0;
  /// Serves until close() or stop() has been called and all answers have ended.
  virtual void run() = 0;
  /// Connections end after their answer from now on. New ones are still taken, unless the socket
  /// listened already: those wait there for who takes it over. Any thread.
  virtual void drain() = 0;
  /// The same, and takes no more connections: open ones end after their answer. Any thread.
  virtual void close() = 0;
  /// Ends all connections. Any thread.
  virtual void stop() = 0;
  /// Reads the files of TLS again, for new connections. Any thread. bad_file: all stays.
  virtual Status reload_tls() = 0;
  /// Open connections. Any thread.
  virtual size_t connections() const = 0;
  /// Requests whose answers have not ended. Any thread.
  virtual size_t answers() const = 0;
};

}  // namespace infer::server
