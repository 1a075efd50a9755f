// One HTTP request through libcurl, which is opened at run time: the program starts without it.
// Only curl.cpp sees its header.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/status.hpp"

namespace infer::hub {

/// Status and headers of an answer.
struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< names in small letters; of equal ones the last

  /// Empty if it is absent.
  std::string header(const std::string& name) const;
};

/// A request. The functions are called by transfer(), on its thread.
struct Exchange {
  std::string url;  ///< http or https
  bool head = false;
  const std::string* body = nullptr;                ///< sent by POST; null: GET
  double seconds = 0;                               ///< for all of it; 0: as long as bytes come
  std::vector<std::string> headers;                 ///< "Name: value"
  std::function<bool(const Answer&)> begin;         ///< before the body; false: no body is wanted
  std::function<bool(std::span<const char>)> data;  ///< a piece of the body; false ends it
  std::function<bool()> stop;                       ///< asked about once a second; true ends it
};

/// How a request ended.
enum class End {
  complete,       ///< the whole answer came
  unwanted,       ///< `begin` or `data` ended it
  stopped,        ///< `stop` ended it
  no_connection,  ///< no server was reached
  certificate,    ///< the server did not prove who it is
  interrupted,    ///< the connection ended or stood still in the middle
  failed,         ///< another failure
};

struct Transfer {
  End end = End::failed;
  std::string problem;  ///< libcurl's words, unless complete
  Answer answer;
};

/// Opens libcurl; the first call does it. Fails with io, and says which package is missing.
Status open_curl();

/// Follows no redirect. open_curl() has succeeded. Certificates are checked as curl does it, with
/// CURL_CA_BUNDLE or SSL_CERT_FILE if set; proxies are those of the environment.
Transfer transfer(const Exchange& exchange);

struct Url {
  std::string whole;
  std::string scheme;
  std::string origin;  ///< scheme, host and port; without name and password
};
/// An absolute URL, or one relative to `base`. Nothing if it is neither, or not http or https.
std::optional<Url> parse_url(const std::string& base, const std::string& url);

}  // namespace infer::hub
