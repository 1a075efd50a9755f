// infer serve: a model behind the HTTP API of OpenAI and its kin.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/http/exchange.h"
#include "server/http/http_server.h"
#include "server/models/model_pool.h"
#include "server/trace/trace_options.h"

namespace infer::server {

/// What may change while the server runs.
struct Reloaded {
  std::vector<std::string> keys;
  std::vector<ModelSource> models;  ///< of no effect if one model is served
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  ///< 0: any free one
  int socket = -1;       ///< that listens already, in place of these; -1: none
  TlsFiles tls;
  std::vector<std::string> keys;  ///< API keys; empty: everybody may ask
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> origins;
  bool open = false;          ///< serve other machines without a key
  int threads = 4;            ///< for what is not the engine's work
  double drain_seconds = 30;  ///< for answers to end when the server is to end
  HttpLimits limits;
  std::function<void(const std::string&)> log;  ///< gets a line of JSON for each request
  TraceOptions traces;                          ///< where traces of requests go
  std::function<void(uint16_t port)> on_ready;  ///< called when requests are taken
  std::function<void()> on_drain;               ///< called when the end begins
  std::function<bool()> stop;                   ///< asked several times a second; true ends it
  /// Asked as often: what takes the place of the keys and the models; nothing: all stays.
  std::function<std::optional<Reloaded>()> reload;
  std::function<void(const std::string&)> warn;  ///< told what could not be read again, or sent
};

/// Serves the models until `stop` says so, then lets running answers end. Errors: invalid_argument
/// for options that would let strangers in; io if the address cannot be used.
Status serve(ModelPool& models, const ServerOptions& options);

}  // namespace infer::server
