// One connection of an HttpServer. For http_server.cpp and connection.cpp, which include Beast.
#pragma once

#include <atomic>
#include <boost/asio/buffers_iterator.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "server/http/exchange.h"

namespace infer::server {

/// What connections share. It outlives them.
struct ConnectionShared {
  HttpLimits limits;
  Handler handler;
  Admit admit;
  Refuse refuse;
  Finished finished;
  std::shared_ptr<boost::asio::ssl::context> tls;  ///< null: plain HTTP
  std::atomic<bool> draining{false};
  std::atomic<size_t> connections{0};
  std::atomic<size_t> answers{0};     ///< that something holds
  std::atomic<size_t> body_bytes{0};  ///< of requests that are read or answered
};

/// A body whose memory grows with what has arrived, whatever length the headers announce.
struct ArrivingBody {
  using value_type = std::string;

  class reader {
   public:
    template <bool isRequest, typename Fields>
    reader(boost::beast::http::header<isRequest, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<uint64_t>&, boost::system::error_code& failed) { failed = {}; }
    template <typename Buffers>
    size_t put(const Buffers& buffers, boost::system::error_code& failed) {
      failed = {};
      size_t bytes = 0;
      for (auto at = boost::asio::buffer_sequence_begin(buffers);
           at != boost::asio::buffer_sequence_end(buffers); ++at) {
        const boost::asio::const_buffer part = *at;
        body_.append(static_cast<const char*>(part.data()), part.size());
        bytes += part.size();
      }
      return bytes;
    }
    void finish(boost::system::error_code& failed) { failed = {}; }

   private:
    value_type& body_;
  };
};

/// Counts bytes of bodies while it lives.
class BodyBytes {
 public:
  explicit BodyBytes(ConnectionShared& shared) : shared_(shared) {}
  ~BodyBytes() { set(0); }
  BodyBytes(const BodyBytes&) = delete;
  BodyBytes& operator=(const BodyBytes&) = delete;
  /// False if all requests together would have more than they may.
  bool set(size_t bytes) {
    shared_.body_bytes += bytes - counted_;
    counted_ = bytes;
    return shared_.body_bytes <= shared_.limits.all_body_bytes;
  }

 private:
  ConnectionShared& shared_;
  size_t counted_ = 0;
};

class Answer;

/// Reads requests one after the other and writes what answers them. All functions are called on the
/// network's thread. Lives as long as an operation on its socket or an answer does.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, ConnectionShared& shared);
  ~Connection();

  void start();
  /// Closes it between requests; a request that is being answered goes on.
  void close_if_idle();
  void close();

 private:
  friend class Answer;
  using Parser = boost::beast::http::request_parser<ArrivingBody>;

  /// Calls `use` with the stream that requests are read from.
  template <typename Use>
  void with_stream(Use use);
  /// Tells the other side that nothing follows, then closes.
  void end_connection();
  /// The same where the other side still sends what is refused: it would not see the answer if the
  /// connection was closed before it has ended. Reads for two seconds at most.
  void linger();
  void read_request(bool first);
  /// Empty lines before a request have no meaning (RFC 9112, 2.2).
  void skip_empty_lines();
  void read_header();
  void on_header();
  void read_body();
  /// Reads on until the body is there. What has arrived counts in body_bytes_.
  void read_more_body();
  /// The request line and the headers of what is being read.
  Request request_of_header() const;
  /// The same, with what else is known of it.
  Request identified(Request request) const;
  void on_request();
  /// Answers what is not read to its end, and closes.
  void refuse(int status, const std::string& message);
  void refuse_body();
  void add_output(std::string bytes, bool last);
  void write_output();
  void on_written(size_t bytes);
  void end_answer();
  void forget_answer();
  void watch_peer();

  ConnectionShared& shared_;
  boost::beast::tcp_stream stream_;
  std::shared_ptr<boost::asio::ssl::context> tls_context_;
  std::unique_ptr<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;  // null: plain HTTP
  boost::asio::steady_timer peer_timer_;     // while a request is answered
  boost::asio::steady_timer request_timer_;  // while its body is read, or the rest of a refused one
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::shared_ptr<Answer> answer_;  // of the request that is being answered
  std::deque<std::string> output_;  // what is not written yet; the first is being written
  size_t written_ = 0;              // of the first
  std::unique_ptr<BodyBytes> body_bytes_;
  bool late_ = false;  // the body did not come in time
  bool headers_read_ = false;
  bool refused_ = false;  // the body is not read
  bool writing_ = false;
  bool answered_ = false;  // the last bytes of the answer are in output_
  bool keep_alive_ = true;
  bool closed_ = false;
};

}  // namespace infer::server
