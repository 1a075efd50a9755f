#include "server/server.h"

#include <chrono>
#include <thread>

#include "platform/sockets.h"
#include "server/api/api.h"
#include "server/http/http_server.h"

namespace infer::server {
namespace {

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// Waits for the wish to end, and takes new keys and models meanwhile. Then ends what runs: at once
/// after `drain_seconds`.
void watch_for_end(const ServerOptions& options, ModelPool& models, Api& api, HttpServer& http,
                   const std::atomic<bool>& ended) {
  using Clock = std::chrono::steady_clock;
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  while (!ended && !(options.stop && options.stop())) {
    pause();
    if (!options.reload) continue;
    if (auto changed = options.reload()) {
      // Without a key everybody could get in; options that allow that were given at the start.
      if (!changed->keys.empty() || !api.wants_key()) api.set_keys(std::move(changed->keys));
      if (!models.single()) models.replace(std::move(changed->models));
      const Status read = http.reload_tls();
      if (!read.ok() && options.warn) options.warn(read.message());
    }
  }
  if (ended) return;
  if (options.on_drain) options.on_drain();
  api.drain();
  http.drain();
  const auto end = Clock::now() + std::chrono::duration<double>(options.drain_seconds);
  while (!ended && Clock::now() < end) pause();
  if (!ended) http.stop();
}

}  // namespace

Status serve(ModelPool& models, const ServerOptions& options) {
  // Of an inherited socket the address is another's choice: it counts as open to others.
  const bool loopback = options.socket < 0 && is_loopback(options.host);
  if (!loopback && options.keys.empty() && !options.open) {
    return {StatusCode::invalid_argument,
            "other machines could reach the server: give it API keys (--api-key-file), or say "
            "--no-api-key if everybody may use it"};
  }
  platform::raise_open_files();
  Workers workers(options.threads);
  Api api(models, workers,
          {options.keys, options.allowed_hosts, options.origins, loopback, options.log});
  auto http = HttpServer::listen(
      {options.host, options.port, options.socket, options.tls}, options.limits,
      [&api](ExchangePtr exchange) { api.take(std::move(exchange)); },
      [&api](const Exchange& exchange) { api.finished(exchange); });
  if (!http) return http.error();
  if (options.on_ready) options.on_ready((*http)->port());
  std::atomic<bool> ended{false};
  std::thread watcher([&] { watch_for_end(options, models, api, **http, ended); });
  (*http)->run();
  ended = true;
  watcher.join();
  models.stop();
  return {};
}

}  // namespace infer::server
