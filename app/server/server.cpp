#include "server/server.h"

#include <chrono>
#include <optional>
#include <thread>

#include "platform/sockets.h"
#include "server/access_log.h"
#include "server/api/api.h"
#include "server/http/http_server.h"
#include "server/trace/trace_exporter.h"

namespace infer::server {
namespace {

/// Waits for the wish to end, and takes new keys and models meanwhile. Then refuses new work until
/// what runs has ended, or ends it after `drain_seconds`.
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
  while (http.answers() > 0 && Clock::now() < end) pause();
  if (http.answers() > 0) {
    constexpr std::chrono::seconds kWritten(1);  // enough for readers that read
    api.end_answers();
    const auto last = Clock::now() + kWritten;
    while (http.answers() > 0 && Clock::now() < last) pause();
  }
  http.close();
  while (!ended && Clock::now() < end) pause();
  if (!ended) http.stop();
}

}  // namespace

Status serve(ModelPool& models, const ServerOptions& options) {
  platform::raise_open_files();
  platform::share_heaps();
  Workers workers(options.threads);
  std::optional<AccessLog> log;
  std::optional<TraceExporter> traces;
  if (!options.traces.url.empty()) traces.emplace(options.traces, options.warn);
  ApiOptions api_options{options.keys, options.allowed_hosts, options.origins, {}, nullptr};
  if (traces) api_options.traces = &*traces;
  if (options.log) {
    log.emplace(options.log);
    api_options.log = [&log](std::string line) { log->put(std::move(line)); };
  }
  Api api(models, workers, std::move(api_options));
  auto http = HttpServer::listen(
      {options.host, options.port, options.socket, options.tls}, options.limits,
      {.handler = [&api](ExchangePtr exchange) { api.take(std::move(exchange)); },
       .admit = [&api](const Request& request) { return api.admits(request); },
       .refuse = [&api](Exchange& exchange, int status,
                        const std::string& message) { api.refuse(exchange, status, message); },
       .finished = [&api](const Exchange& exchange) { api.finished(exchange); }});
  if (!http) return http.error();
  const bool loopback = (*http)->is_loopback();
  if (!loopback && options.keys.empty() && !options.open) {
    return {StatusCode::invalid_argument,
            "other machines could reach the server: give it API keys (--api-key-file), or say "
            "--no-api-key if everybody may use it"};
  }
  if (loopback) api.take_only_local_names(options.host);
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
