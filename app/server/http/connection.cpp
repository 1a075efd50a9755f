#include <utility>  // before Asio, which lacks it
//
#include "server/http/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <chrono>
#include <mutex>
#include <random>

#include "platform/sockets.h"

namespace infer::server {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;

namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

/// Takes "http://host" off a target that begins with it: the absolute form of RFC 9112, 3.2.2.
std::optional<std::string> take_host(std::string& target) {
  const std::string begin = lower_case(std::string_view(target).substr(0, 8));
  const size_t scheme = begin.starts_with("http://") ? 7 : begin == "https://" ? 8 : 0;
  if (scheme == 0) return std::nullopt;
  const size_t end = std::min(target.find_first_of("/?", scheme), target.size());
  std::string host = target.substr(scheme, end - scheme);
  target.erase(0, end);
  if (!target.starts_with('/')) target.insert(0, "/");
  return host;
}

/// An id that a client gave, if it can stand in headers and logs.
bool is_id(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

std::string new_id() {
  static std::mutex mutex;
  static std::mt19937_64 numbers{std::random_device{}()};
  const std::lock_guard lock(mutex);
  return fmt::format("{:016x}{:016x}", numbers(), numbers());
}

/// Why a request with these headers is refused, with the status; 0: it is not.
std::pair<int, const char*> problem_of(const http::request<ArrivingBody>& message) {
  // Two servers could read two different hosts, or bodies, from such a request.
  const size_t hosts = message.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && message.version() >= 11)) {
    return {400, hosts > 1 ? "Host: expected one such header, found several"
                           : "Host: expected this header, found none"};
  }
  const size_t codings = message.count(http::field::transfer_encoding);
  if (codings > 1 ||
      (codings == 1 && !beast::iequals(message[http::field::transfer_encoding], "chunked"))) {
    return {501, "Transfer-Encoding: expected chunked alone"};
  }
  return {0, nullptr};
}

const char* reason_of(int status) {
  return http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status))).data();
}

}  // namespace

/// The Exchange of a connection's present request.
class Answer final : public Exchange, public std::enable_shared_from_this<Answer> {
 public:
  /// `body_bytes`: those of the request.
  Answer(std::shared_ptr<Connection> connection, Request request, bool chunked, bool keep_alive,
         std::unique_ptr<BodyBytes> body_bytes = nullptr)
      : counted_(connection->shared_.answers),
        connection_(std::move(connection)),
        body_bytes_(std::move(body_bytes)),
        executor_(connection_->stream_.get_executor()),
        request_(std::move(request)),
        chunked_(chunked),
        keep_alive_(keep_alive) {}

  const Request& request() const override { return request_; }

  void add_header(std::string name, std::string value) override {
    headers_.emplace_back(std::move(name), std::move(value));
  }

  void send(int status, std::string_view type, std::string body, Headers more) override {
    status_ = status;
    if (status != 204) more.emplace_back("Content-Length", std::to_string(body.size()));
    std::string bytes = head(status, type, more);
    sent_ += body.size();
    if (request_.method != "HEAD") bytes += body;
    give(std::move(bytes), true);
  }

  void begin(int status, std::string_view type, Headers more) override {
    status_ = status;
    if (chunked_) more.emplace_back("Transfer-Encoding", "chunked");
    give(head(status, type, more), false);
  }

  void write(std::string part) override {
    if (part.empty() || request_.method == "HEAD") return;
    sent_ += part.size();
    give(chunked_ ? fmt::format("{:x}\r\n{}\r\n", part.size(), part) : std::move(part), false);
  }

  void end() override { give(chunked_ ? "0\r\n\r\n" : "", true); }

  size_t unsent() const override { return unsent_; }
  bool closed() const override { return closed_; }
  double seconds() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  }
  int status() const override { return status_; }
  size_t sent() const override { return sent_; }

  void watch(std::function<void(Notice)> notify) override {
    const std::lock_guard lock(mutex_);
    notify_ = std::move(notify);
  }

  // For the connection, on its thread.

  void note_written(size_t bytes) {
    unsent_ -= bytes;
    if (unsent_ == 0) notify(Notice::taken);
  }
  void note_time() {
    const double quiet = connection_ == nullptr ? 0 : connection_->shared_.limits.quiet_seconds;
    const auto now = std::chrono::steady_clock::now();
    if (quiet <= 0 || unsent_ > 0 || now - written_.load() < milliseconds(quiet)) return;
    written_ = now;
    notify(Notice::quiet);
  }
  void note_closed() {
    closed_ = true;
    notify(Notice::closed);
    watch({});
    connection_.reset();
  }

 private:
  std::string head(int status, std::string_view type, const Headers& more) const {
    std::string out = fmt::format("HTTP/1.1 {} {}\r\n", status, reason_of(status));
    const auto add = [&](std::string_view name, std::string_view value) {
      out += fmt::format("{}: {}\r\n", name, value);
    };
    add("Date", http_date());
    if (!type.empty()) add("Content-Type", type);
    add("X-Request-Id", request_.id);
    for (const auto& [name, value] : headers_) add(name, value);
    for (const auto& [name, value] : more) add(name, value);
    if (!keep_alive_) add("Connection", "close");
    return out + "\r\n";
  }

  void give(std::string bytes, bool last) {
    written_ = std::chrono::steady_clock::now();
    unsent_ += bytes.size();
    asio::post(executor_, [self = shared_from_this(), bytes = std::move(bytes), last]() mutable {
      if (self->connection_ == nullptr) return;
      self->connection_->add_output(std::move(bytes), last);
      if (last) self->connection_.reset();
    });
  }

  void notify(Notice notice) {
    std::function<void(Notice)> call;
    {
      const std::lock_guard lock(mutex_);
      call = notify_;
    }
    if (call) call(notice);
  }

  /// The server may end once there is no answer: what else an answer holds has gone by then.
  struct Counted {
    explicit Counted(std::atomic<size_t>& answers) : count(answers) { ++count; }
    ~Counted() { --count; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    std::atomic<size_t>& count;
  };

  Counted counted_;                         // the first member is the last one to go
  std::shared_ptr<Connection> connection_;  // until the answer has ended; the network's thread
  std::unique_ptr<BodyBytes> body_bytes_;
  asio::any_io_executor executor_;
  Request request_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::atomic<std::chrono::steady_clock::time_point> written_{begun_};  // the last part
  bool chunked_;
  bool keep_alive_;
  std::atomic<size_t> unsent_{0};
  std::atomic<size_t> sent_{0};
  std::atomic<bool> closed_{false};
  std::atomic<int> status_{0};
  Headers headers_;
  std::mutex mutex_;
  std::function<void(Notice)> notify_;
};

Connection::Connection(asio::ip::tcp::socket socket, ConnectionShared& shared)
    : shared_(shared),
      stream_(std::move(socket)),
      peer_timer_(stream_.get_executor()),
      request_timer_(stream_.get_executor()) {
  ++shared_.connections;
  if (shared_.tls == nullptr) return;
  tls_context_ = shared_.tls;
  tls_ = std::make_unique<asio::ssl::stream<beast::tcp_stream&>>(stream_, *tls_context_);
}

Connection::~Connection() { --shared_.connections; }

void Connection::start() {
  error_code ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  if (tls_ == nullptr) return read_request(true);
  stream_.expires_after(milliseconds(shared_.limits.request_seconds));
  tls_->async_handshake(asio::ssl::stream_base::server,
                        [self = shared_from_this()](error_code failed) {
                          if (self->closed_) return;
                          if (failed) return self->close();
                          self->read_request(true);
                        });
}

template <typename Use>
void Connection::with_stream(Use use) {
  if (tls_ != nullptr) {
    use(*tls_);
  } else {
    use(stream_);
  }
}

void Connection::linger() {
  error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  stream_.expires_never();
  request_timer_.expires_after(std::chrono::seconds(2));
  request_timer_.async_wait([self = shared_from_this()](error_code failed) {
    if (!failed) self->close();
  });
  struct Discard {
    std::shared_ptr<Connection> connection;
    void operator()(error_code failed, size_t) {
      if (connection->closed_) return;
      if (failed) return connection->close();
      auto& stream = connection->stream_;
      auto& buffer = connection->buffer_;
      buffer.clear();
      stream.async_read_some(buffer.prepare(64 << 10), std::move(*this));
    }
  };
  Discard{shared_from_this()}({}, 0);
}

void Connection::end_connection() {
  if (refused_ && tls_ == nullptr && !closed_) return linger();
  if (tls_ == nullptr || closed_) return close();
  stream_.expires_after(std::chrono::seconds(5));
  // What a client still sends of a refused request ends the shutdown, but must not reset the
  // connection before the answer has been read.
  tls_->async_shutdown([self = shared_from_this()](error_code) {
    if (self->refused_ && !self->closed_) return self->linger();
    self->close();
  });
}

void Connection::close_if_idle() {
  keep_alive_ = false;
  if (answer_ == nullptr && output_.empty()) close();
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  peer_timer_.cancel();
  request_timer_.cancel();
  error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
  if (answer_ != nullptr) answer_->note_closed();
  forget_answer();
  output_.clear();
}

void Connection::forget_answer() {
  if (answer_ == nullptr) return;
  if (shared_.finished) shared_.finished(*answer_);
  answer_.reset();
}

void Connection::read_request(bool first) {
  headers_read_ = false;
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(shared_.limits.header_bytes));
  parser_->body_limit(shared_.limits.body_bytes);
  const HttpLimits& limits = shared_.limits;
  stream_.expires_after(milliseconds(first ? limits.request_seconds : limits.idle_seconds));
  skip_empty_lines();
}

void Connection::skip_empty_lines() {
  constexpr std::string_view kEnd = "\r\n";
  const std::string_view bytes(static_cast<const char*>(buffer_.data().data()), buffer_.size());
  size_t begin = 0;
  while (bytes.substr(begin).starts_with(kEnd)) begin += kEnd.size();
  const std::string_view rest = bytes.substr(begin);
  const bool has_more = !kEnd.starts_with(rest);
  buffer_.consume(begin);
  if (has_more) return read_header();
  constexpr size_t kMost = 4 << 10;
  with_stream([&](auto& stream) {
    stream.async_read_some(buffer_.prepare(kMost),
                           [self = shared_from_this()](error_code failed, size_t count) {
                             if (self->closed_) return;
                             // Nothing was asked that an answer could be for.
                             if (failed) return self->close();
                             self->buffer_.commit(count);
                             self->skip_empty_lines();
                           });
  });
}

void Connection::read_header() {
  with_stream([&](auto& stream) {
    http::async_read_header(
        stream, buffer_, *parser_, [self = shared_from_this()](error_code failed, size_t) {
          if (self->closed_) return;
          if (!failed) return self->on_header();
          // A connection that ends within the headers needs no answer.
          if (failed == http::error::end_of_stream || failed == beast::error::timeout) {
            return self->close();
          }
          if (failed.category() != http::make_error_code(http::error::bad_method).category()) {
            return self->close();
          }
          if (failed == http::error::body_limit) {
            self->headers_read_ = true;
            return self->refuse_body();
          }
          const bool large = failed == http::error::header_limit;
          self->refuse(large ? 431 : 400, large ? "the headers are too large" : failed.message());
        });
  });
}

void Connection::on_header() {
  headers_read_ = true;
  if (const auto [status, why] = problem_of(parser_->get()); status != 0) {
    return refuse(status, why);
  }
  const auto length = parser_->content_length();
  const bool has_body = parser_->chunked() || (length && *length > 0);
  if (has_body && shared_.admit && !shared_.admit(request_of_header())) {
    refused_ = true;
    return on_request();
  }
  body_bytes_ = std::make_unique<BodyBytes>(shared_);
  read_body();
}

void Connection::read_body() {
  stream_.expires_never();
  request_timer_.expires_after(milliseconds(shared_.limits.request_seconds));
  request_timer_.async_wait([self = shared_from_this()](error_code failed) {
    if (failed || self->closed_) return;
    self->late_ = true;
    error_code ignored;
    self->stream_.socket().cancel(ignored);
  });
  if (beast::iequals(parser_->get()[http::field::expect], "100-continue")) {
    output_.push_back("HTTP/1.1 100 Continue\r\n\r\n");
    write_output();
  }
  read_more_body();
}

void Connection::read_more_body() {
  if (parser_->is_done()) {
    request_timer_.cancel();
    return on_request();
  }
  with_stream([&](auto& stream) {
    http::async_read_some(
        stream, buffer_, *parser_, [self = shared_from_this()](error_code failed, size_t) {
          if (self->closed_) return;
          if (!failed && self->body_bytes_->set(self->parser_->get().body().size())) {
            return self->read_more_body();
          }
          self->request_timer_.cancel();
          if (!failed) {
            self->body_bytes_.reset();
            self->parser_->get().body() = {};
            return self->refuse(503, "too many requests are being read; try again");
          }
          if (failed == http::error::body_limit) return self->refuse_body();
          if (self->late_) return self->refuse(408, "the request took too long to arrive");
          if (failed.category() == http::make_error_code(http::error::bad_method).category() &&
              failed != http::error::partial_message) {
            return self->refuse(400, failed.message());
          }
          self->close();
        });
  });
}

Request Connection::request_of_header() const {
  const auto& message = parser_->get();
  Request request;
  request.method = std::string(message.method_string());
  request.is_http_1_0 = message.version() < 11;
  std::string target(message.target());
  // The host in the target counts, not the header.
  if (auto host = take_host(target)) request.headers.emplace_back("host", *std::move(host));
  const size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != std::string::npos) request.query = target.substr(mark + 1);
  for (const auto& field : message) {
    request.headers.emplace_back(lower_case(std::string(field.name_string())),
                                 std::string(field.value()));
  }
  return request;
}

Request Connection::identified(Request request) const {
  error_code ignored;
  request.peer = stream_.socket().remote_endpoint(ignored).address().to_string();
  const std::string_view id = request.header("x-request-id");
  request.id = is_id(id) ? std::string(id) : new_id();
  request.trace = trace_context(request.header("traceparent"), request.header("tracestate"));
  return request;
}

void Connection::on_request() {
  stream_.expires_never();
  Request request = identified(request_of_header());
  http::request<ArrivingBody> message = parser_->release();
  if (!refused_) request.body = std::move(message.body());
  if (body_bytes_ != nullptr) body_bytes_->set(request.body.size());
  if (!message.keep_alive() || shared_.draining || refused_) keep_alive_ = false;
  const bool chunked = message.version() >= 11;
  if (!chunked) keep_alive_ = false;
  answered_ = false;
  answer_ = std::make_shared<Answer>(shared_from_this(), std::move(request), chunked, keep_alive_,
                                     std::move(body_bytes_));
  watch_peer();
  shared_.handler(answer_);
}

void Connection::refuse_body() {
  refuse(413, fmt::format("the body is larger than {} bytes", shared_.limits.body_bytes));
}

void Connection::refuse(int status, const std::string& message) {
  keep_alive_ = false;
  refused_ = true;
  stream_.expires_never();
  answered_ = false;
  Request request = identified(headers_read_ ? request_of_header() : Request());
  answer_ = std::make_shared<Answer>(shared_from_this(), std::move(request), false, false);
  shared_.refuse(*answer_, status, message);
}

void Connection::add_output(std::string bytes, bool last) {
  if (closed_) return;
  if (last) answered_ = true;
  output_.push_back(std::move(bytes));
  if (!writing_) write_output();
}

void Connection::write_output() {
  constexpr size_t kMost = 64 << 10;  // each piece has its own time
  writing_ = true;
  stream_.expires_after(milliseconds(shared_.limits.write_seconds));
  const std::string_view left = std::string_view(output_.front()).substr(written_, kMost);
  with_stream([&](auto& stream) {
    asio::async_write(stream, asio::buffer(left),
                      [self = shared_from_this()](error_code failed, size_t bytes) {
                        if (self->closed_) return;
                        if (failed) return self->close();
                        self->on_written(bytes);
                      });
  });
}

void Connection::on_written(size_t bytes) {
  written_ += bytes;
  if (written_ == output_.front().size()) {
    output_.pop_front();
    written_ = 0;
  }
  writing_ = false;
  if (answer_ != nullptr) answer_->note_written(bytes);
  if (closed_) return;
  if (!output_.empty()) {
    if (!writing_) write_output();
  } else if (answered_) {
    end_answer();
  }
}

void Connection::end_answer() {
  answered_ = false;
  peer_timer_.cancel();
  if (answer_ != nullptr) answer_->watch({});
  forget_answer();
  if (!keep_alive_) return end_connection();
  read_request(false);
}

/// While an answer is made nothing is read, so that a reader who has gone away shows only in the
/// state of the connection.
void Connection::watch_peer() {
  peer_timer_.expires_after(std::chrono::milliseconds(50));
  peer_timer_.async_wait([self = shared_from_this()](error_code failed) {
    if (failed || self->closed_ || self->answer_ == nullptr) return;
    if (platform::is_closed_by_peer(self->stream_.socket().native_handle())) return self->close();
    self->answer_->note_time();
    self->watch_peer();
  });
}

}  // namespace infer::server
