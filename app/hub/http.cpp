#include "hub/http.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

namespace infer::hub {
namespace {

constexpr int kMaxRedirects = 10;
constexpr int kMaxFailures = 4;  // in a row
constexpr std::chrono::milliseconds kFirstWait{500};
constexpr int kLongestWaitSeconds = 60;
constexpr std::chrono::milliseconds kTick{50};

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/// Seconds that the answer asks to wait; nothing if it does not, or gives a date.
std::optional<int> retry_after(const Answer& answer) {
  const std::string text = answer.header("retry-after");
  int seconds = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, seconds);
  if (text.empty() || parsed.ptr != end || seconds < 0) return std::nullopt;
  return parsed.ec == std::errc() ? seconds : kLongestWaitSeconds + 1;
}

bool may_pass(const Transfer& transfer, bool reached) {
  if (transfer.end == End::interrupted) return true;
  if (transfer.end == End::no_connection) return reached;
  const int status = transfer.answer.status;
  return (transfer.end == End::complete || transfer.end == End::unwanted) &&
         (status == 429 || status == 408 || (status >= 500 && status <= 599));
}

/// What the address is called in messages: without a password that may stand in it.
std::string host_of(const Connection& connection) {
  if (connection.endpoint.find('@') == std::string::npos) return connection.endpoint;
  const std::optional<Url> url = parse_url("", connection.endpoint);
  return url ? url->origin : "the endpoint";
}

}  // namespace

bool Attempts::again(const Transfer& failed) {
  if (!may_pass(failed, reached_) || ++failures_ > kMaxFailures) return false;
  std::chrono::milliseconds wait = kFirstWait * (1 << (failures_ - 1));
  if (failed.answer.status != 0) {
    const int asked = retry_after(failed.answer).value_or(0);
    if (asked > kLongestWaitSeconds) return false;
    wait = std::max(wait, std::chrono::milliseconds(asked * 1000));
  }
  if (wait >= std::chrono::seconds(5) && connection_.note) {
    connection_.note(fmt::format("trying again in {} seconds", wait.count() / 1000));
  }
  for (; wait.count() > 0 && !connection_.stop(); wait -= kTick) std::this_thread::sleep_for(kTick);
  return !connection_.stop();
}

void Attempts::progressed() {
  failures_ = 0;
  reached_ = true;
}

Transfer request(const Connection& connection, Exchange exchange) {
  const auto refused = [](const char* why) { return Transfer{End::failed, why, {}}; };
  const std::optional<Url> endpoint = parse_url("", connection.endpoint);
  std::optional<Url> url = parse_url("", exchange.url);
  if (!endpoint || !url) return refused("the address is not an http or https URL");
  const std::vector<std::string> headers = exchange.headers;
  const auto begin = exchange.begin;
  exchange.begin = [&](const Answer& answer) {
    return !is_redirect(answer.status) && (!begin || begin(answer));
  };
  exchange.stop = connection.stop;
  std::map<std::string, std::string> kept;
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    exchange.url = url->whole;
    exchange.headers = headers;
    if (!connection.token.empty() && url->origin == endpoint->origin) {
      exchange.headers.push_back("Authorization: Bearer " + connection.token);
    }
    Transfer result = transfer(exchange);
    for (const char* name : {"x-repo-commit", "x-linked-etag", "x-linked-size"}) {
      if (const std::string value = result.answer.header(name); !value.empty()) {
        kept.emplace(name, value);
      }
    }
    const bool answered = result.end == End::complete || result.end == End::unwanted;
    if (!answered || !is_redirect(result.answer.status)) {
      for (const auto& [name, value] : kept) result.answer.headers[name] = value;
      return result;
    }
    const std::string location = result.answer.header("location");
    const std::optional<Url> next =
        location.empty() ? std::nullopt : parse_url(url->whole, location);
    if (!next) return refused("the server redirects to something that is not an http or https URL");
    if (exchange.head && next->origin != endpoint->origin) return result;
    if (url->scheme == "https" && next->scheme != "https") {
      return refused("the server redirects from https to http");
    }
    url = next;
  }
  return refused("the server redirects without end");
}

Result<std::string> get_text(const Connection& connection, const std::string& url, size_t most,
                             const std::string& what, Answer& answer) {
  for (Attempts attempts(connection);;) {
    std::string text;
    Exchange exchange{url};
    bool long_answer = false;
    exchange.begin = [](const Answer& got) { return got.status == 200; };
    exchange.data = [&](std::span<const char> bytes) {
      long_answer = bytes.size() > most - text.size();
      if (!long_answer) text.append(bytes.data(), bytes.size());
      return !long_answer;
    };
    Transfer result = request(connection, std::move(exchange));
    if (long_answer) {
      return tl::unexpected(
          Status(StatusCode::bad_file, fmt::format("{}: the answer of {} is longer than {} bytes",
                                                   what, host_of(connection), most)));
    }
    if (result.end == End::complete && result.answer.status == 200) {
      answer = std::move(result.answer);
      return text;
    }
    if (!attempts.again(result)) return tl::unexpected(failure_of(connection, result, what));
  }
}

Result<Answer> get_head(const Connection& connection, const std::string& url,
                        const std::string& what) {
  for (Attempts attempts(connection);;) {
    Exchange exchange{url};
    exchange.head = true;
    Transfer result = request(connection, std::move(exchange));
    const bool answered = result.end == End::complete || result.end == End::unwanted;
    if (answered && (result.answer.status == 200 || is_redirect(result.answer.status))) {
      return result.answer;
    }
    if (!attempts.again(result)) return tl::unexpected(failure_of(connection, result, what));
  }
}

Status failure_of(const Connection& connection, const Transfer& transfer, const std::string& what) {
  const std::string host = host_of(connection);
  if (connection.stop() || transfer.end == End::stopped) {
    return {StatusCode::cancelled, "interrupted"};
  }
  switch (transfer.end) {
    case End::no_connection:
      return {StatusCode::io, fmt::format("{}: cannot reach {}: {}", what, host, transfer.problem)};
    case End::certificate:
      return {StatusCode::io, fmt::format("{}: the certificate of {} cannot be trusted: {}; "
                                          "CURL_CA_BUNDLE names a file of certificates to trust",
                                          what, host, transfer.problem)};
    case End::interrupted:
      return {StatusCode::io, fmt::format("{}: the connection to {} was interrupted: {}", what,
                                          host, transfer.problem)};
    case End::failed: return {StatusCode::io, fmt::format("{}: {}", what, transfer.problem)};
    default: break;
  }
  const std::string code = transfer.answer.header("x-error-code");
  const std::string repository = what.substr(0, what.find(':'));
  switch (transfer.answer.status) {
    case 401:
    case 403:
      if (connection.token.empty() && code != "GatedRepo") {
        return {StatusCode::not_found,
                fmt::format("{}: there is no such repository on {}, or it is private or gated: "
                            "accept its licence at {}/{}, and give a token in HF_TOKEN or with "
                            "-hft",
                            what, host, host, repository)};
      }
      return {StatusCode::not_found,
              fmt::format("{}: access is refused ({}): accept the licence at {}/{}, and give the "
                          "token of an account that may read it in HF_TOKEN or with -hft",
                          what, transfer.answer.status, host, repository)};
    case 404: return {StatusCode::not_found, fmt::format("{}: is not on {} (404)", what, host)};
    case 429: {
      const std::optional<int> seconds = retry_after(transfer.answer);
      return {StatusCode::io,
              fmt::format("{}: {} takes no more requests for now (429); try again {}", what, host,
                          seconds ? fmt::format("in {} seconds", *seconds) : "later")};
    }
    default:
      return {StatusCode::io,
              fmt::format("{}: {} answered with status {}", what, host, transfer.answer.status)};
  }
}

}  // namespace infer::hub
