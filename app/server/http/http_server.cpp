#include <utility>  // before Asio, which lacks it
//
#include "server/http/http_server.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <list>

#include "platform/service_manager.h"
#include "server/http/connection.h"
#include "server/http/tls.h"

namespace infer::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

class BeastServer final : public HttpServer {
 public:
  BeastServer(const HttpLimits& limits, TlsFiles tls, Handlers handlers)
      : tls_(std::move(tls)), acceptor_(context_), pause_(context_) {
    shared_.limits = limits;
    shared_.handler = std::move(handlers.handler);
    shared_.admit = std::move(handlers.admit);
    shared_.refuse = std::move(handlers.refuse);
    shared_.finished = std::move(handlers.finished);
  }

  Status open(const std::string& host, uint16_t port) {
    error_code failed;
    const auto problem = [&](const char* what) {
      return Status(StatusCode::io,
                    fmt::format("{}:{}: {}: {}", host, port, what, failed.message()));
    };
    tcp::resolver resolver(context_);
    const auto found =
        resolver.resolve(host, std::to_string(port),
                         tcp::resolver::passive | tcp::resolver::numeric_service, failed);
    if (failed || found.empty()) return problem("the address cannot be found");
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), failed);
    if (failed) return problem("no socket could be opened");
    acceptor_.set_option(tcp::acceptor::reuse_address(true), failed);
    acceptor_.bind(endpoint, failed);
    if (failed) return problem("the address cannot be used");
    acceptor_.listen(asio::socket_base::max_listen_connections, failed);
    if (failed) return problem("the address cannot be listened on");
    return {};
  }

  Status take(int socket) {
    error_code failed;
    acceptor_.assign(platform::is_ipv6(socket) ? tcp::v6() : tcp::v4(), socket, failed);
    inherited_ = true;
    if (!failed) return {};
    return {StatusCode::io, "the inherited socket cannot be used: " + failed.message()};
  }

  Status reload_tls() override {
    if (tls_.certificate.empty()) return {};
    auto read = read_tls(tls_);
    if (!read) return read.error();
    asio::post(context_, [this, tls = *std::move(read)] { shared_.tls = tls; });
    return {};
  }

  bool is_loopback() const override {
    error_code failed;
    const asio::ip::address address = acceptor_.local_endpoint(failed).address();
    if (failed) return false;
    if (address.is_v6() && address.to_v6().is_v4_mapped()) {
      return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
    }
    return address.is_loopback();
  }

  uint16_t port() const override {
    error_code ignored;
    return acceptor_.local_endpoint(ignored).port();
  }

  void run() override {
    accept();
    run_all();
    // Whoever still makes an answer finds it closed, and lets go of it.
    while (shared_.answers > 0) {
      context_.restart();
      context_.run_for(std::chrono::milliseconds(10));
    }
  }

  void drain() override {
    asio::post(context_, [this] {
      shared_.draining = true;
      error_code ignored;
      if (inherited_) acceptor_.close(ignored);
    });
  }

  void close() override {
    asio::post(context_, [this] {
      shared_.draining = true;
      error_code ignored;
      acceptor_.close(ignored);
      for_connections([](Connection& connection) { connection.close_if_idle(); });
    });
  }

  void stop() override {
    asio::post(context_, [this] {
      shared_.draining = true;
      error_code ignored;
      acceptor_.close(ignored);
      for_connections([](Connection& connection) { connection.close(); });
    });
  }

  size_t connections() const override { return shared_.connections; }
  size_t answers() const override { return shared_.answers; }

 private:
  /// A connection whose handler fails, for want of memory, is gone; the others go on.
  void run_all() {
    while (true) {
      try {
        context_.run();
        return;
      } catch (const std::exception&) {
        continue;
      }
    }
  }

  template <typename Do>
  void for_connections(Do each) {
    for (const std::weak_ptr<Connection>& weak : std::exchange(open_, {})) {
      if (const auto connection = weak.lock()) {
        each(*connection);
        open_.push_back(weak);
      }
    }
  }

  void accept() {
    acceptor_.async_accept([this](error_code failed, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (!failed) {
        // Not made in one piece with its counters, which open_ keeps for a while.
        const std::shared_ptr<Connection> connection(new Connection(std::move(socket), shared_));
        remember(connection);
        connection->start();
      }
      // Without a free file or a free place the next one waits.
      if (!failed && shared_.connections < shared_.limits.connections) return accept();
      pause_.expires_after(std::chrono::milliseconds(20));
      pause_.async_wait([this](error_code) { accept_when_free(); });
    });
  }

  void accept_when_free() {
    if (!acceptor_.is_open()) return;
    if (shared_.connections < shared_.limits.connections) return accept();
    pause_.expires_after(std::chrono::milliseconds(20));
    pause_.async_wait([this](error_code) { accept_when_free(); });
  }

  void remember(const std::shared_ptr<Connection>& connection) {
    if (open_.size() > 2 * shared_.connections + 64) {
      open_.remove_if([](const std::weak_ptr<Connection>& weak) { return weak.expired(); });
    }
    open_.push_back(connection);
  }

  TlsFiles tls_;
  ConnectionShared shared_;
  std::list<std::weak_ptr<Connection>> open_;
  asio::io_context context_{1};  // last but for what uses it: its handlers hold connections
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  bool inherited_ = false;  // the socket, from who started the program
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const ListenAt& at, const HttpLimits& limits,
                                                       Handlers handlers) {
  auto server = std::make_unique<BeastServer>(limits, at.tls, std::move(handlers));
  const Status opened = at.socket < 0 ? server->open(at.host, at.port) : server->take(at.socket);
  if (!opened.ok()) return tl::unexpected(opened);
  if (const Status read = server->reload_tls(); !read.ok()) return tl::unexpected(read);
  return server;
}

}  // namespace infer::server
