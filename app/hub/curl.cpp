#include "hub/curl.h"

// With its checks of types curl_easy_setopt is a macro that calls the linked function.
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "infer/infer.hpp"
#include "platform/folders.h"
#include "platform/library.h"

namespace infer::hub {
namespace {

constexpr long kConnectSeconds = 30;
// A transfer that is slower than this for that long has stopped.
constexpr long kLeastBytesASecond = 100;
constexpr long kSlowSeconds = 60;
constexpr size_t kMaxHeaders = 500;

/// The functions of libcurl that are used here.
struct Library {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  CURLcode (*easy_setopt)(CURL*, CURLoption, ...);
  decltype(&::curl_easy_perform) easy_perform;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
  decltype(&::curl_url) url;
  decltype(&::curl_url_cleanup) url_cleanup;
  decltype(&::curl_url_set) url_set;
  decltype(&::curl_url_get) url_get;
  decltype(&::curl_free) free;
};

Library curl;  // filled by open_curl()

Status load_library() {
  void* const handle = platform::open_library({"libcurl.so.4", "libcurl-gnutls.so.4"});
  if (handle == nullptr) {
    return {StatusCode::io,
            "this needs libcurl, which is not on this machine; Debian and Ubuntu have it in "
            "the package libcurl4, Fedora in libcurl"};
  }
  const auto find = [handle](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        platform::find_function(handle, name));
    return function != nullptr;
  };
  const bool all =
      find("curl_global_init", curl.global_init) && find("curl_easy_init", curl.easy_init) &&
      find("curl_easy_cleanup", curl.easy_cleanup) && find("curl_easy_setopt", curl.easy_setopt) &&
      find("curl_easy_perform", curl.easy_perform) &&
      find("curl_easy_strerror", curl.easy_strerror) &&
      find("curl_slist_append", curl.slist_append) &&
      find("curl_slist_free_all", curl.slist_free_all) && find("curl_url", curl.url) &&
      find("curl_url_cleanup", curl.url_cleanup) && find("curl_url_set", curl.url_set) &&
      find("curl_url_get", curl.url_get) && find("curl_free", curl.free);
  if (!all) return {StatusCode::io, "this needs libcurl 7.62 or later"};
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    return {StatusCode::io, "libcurl cannot be used: it does not start"};
  }
  return {};
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

/// What the callbacks of one request share.
struct State {
  const Exchange& exchange;
  Transfer& transfer;
  bool begun = false;
  bool unwanted = false;
  bool stopped = false;

  /// Tells `begin` of the answer, once.
  bool begin() {
    if (!std::exchange(begun, true)) {
      unwanted = exchange.begin && !exchange.begin(transfer.answer);
    }
    return !unwanted;
  }
};

size_t on_header(char* bytes, size_t, size_t count, void* to) {
  State& state = *static_cast<State*>(to);
  Answer& answer = state.transfer.answer;
  if (state.begun) return count;  // a trailer
  const std::string_view line(bytes, count);
  if (line.starts_with("HTTP/")) {  // also after "100 Continue"
    answer = {};
    const size_t space = std::min(line.find(' '), line.size());
    answer.status = std::atoi(std::string(line.substr(space)).c_str());
    return count;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return count;
  if (answer.headers.size() >= kMaxHeaders) return 0;
  std::string name(line.substr(0, colon));
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  answer.headers[name] = trimmed(line.substr(colon + 1));
  return count;
}

size_t on_data(char* bytes, size_t, size_t count, void* to) {
  State& state = *static_cast<State*>(to);
  if (!state.begin()) return 0;
  if (state.exchange.data && !state.exchange.data({bytes, count})) state.unwanted = true;
  return state.unwanted ? 0 : count;
}

int on_progress(void* to, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  State& state = *static_cast<State*>(to);
  state.stopped = state.stopped || (state.exchange.stop && state.exchange.stop());
  return state.stopped ? 1 : 0;
}

End end_of(CURLcode code, const State& state) {
  if (state.stopped) return End::stopped;
  if (state.unwanted) return End::unwanted;
  switch (code) {
    case CURLE_OK: return End::complete;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT: return End::no_connection;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR: return End::certificate;
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return End::interrupted;
    default: return End::failed;
  }
}

/// The file of certificates that the environment names, as the program curl takes it.
std::string certificates() {
  const std::string bundle = platform::variable("CURL_CA_BUNDLE");
  return bundle.empty() ? platform::variable("SSL_CERT_FILE") : bundle;
}

}  // namespace

std::string Answer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

Status open_curl() {
  static const Status opened = load_library();
  return opened;
}

Transfer transfer(const Exchange& exchange) {
  Transfer result;
  const std::unique_ptr<CURL, decltype(curl.easy_cleanup)> handle(curl.easy_init(),
                                                                  curl.easy_cleanup);
  if (handle == nullptr) return {End::failed, "libcurl has no memory", {}};
  State state{exchange, result};
  const auto set = [&](CURLoption option, auto value) {
    (void)curl.easy_setopt(handle.get(), option, value);
  };
  char problem[CURL_ERROR_SIZE] = "";
  const std::string agent = std::string("infer/") + version();
  curl_slist* list = nullptr;
  for (const std::string& header : exchange.headers) {
    if (curl_slist* longer = curl.slist_append(list, header.c_str())) list = longer;
  }
  const std::unique_ptr<curl_slist, decltype(curl.slist_free_all)> headers(list,
                                                                           curl.slist_free_all);
  set(CURLOPT_URL, exchange.url.c_str());
  set(CURLOPT_USERAGENT, agent.c_str());
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_NOBODY, exchange.head ? 1L : 0L);
  if (exchange.body != nullptr) {
    set(CURLOPT_POSTFIELDS, exchange.body->data());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(exchange.body->size()));
  }
  if (exchange.seconds > 0) {
    set(CURLOPT_TIMEOUT_MS,
        std::max(1L, static_cast<long>(std::min(exchange.seconds, 1e6) * 1000)));
  }
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  set(CURLOPT_LOW_SPEED_LIMIT, kLeastBytesASecond);
  set(CURLOPT_LOW_SPEED_TIME, kSlowSeconds);
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(problem));
  set(CURLOPT_HEADERFUNCTION, &on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&state));
  set(CURLOPT_WRITEFUNCTION, &on_data);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&state));
  set(CURLOPT_XFERINFOFUNCTION, &on_progress);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(&state));
  set(CURLOPT_NOPROGRESS, 0L);
  const std::string file = certificates();
  if (!file.empty()) set(CURLOPT_CAINFO, file.c_str());
  const CURLcode code = curl.easy_perform(handle.get());
  if (code == CURLE_OK) (void)state.begin();  // an answer without a body
  result.end = end_of(code, state);
  if (code != CURLE_OK) result.problem = *problem != '\0' ? problem : curl.easy_strerror(code);
  return result;
}

std::optional<Url> parse_url(const std::string& base, const std::string& url) {
  const std::unique_ptr<CURLU, decltype(curl.url_cleanup)> parsed(curl.url(), curl.url_cleanup);
  if (parsed == nullptr) return std::nullopt;
  for (const std::string& part : {base, url}) {
    if (part.empty()) continue;
    if (curl.url_set(parsed.get(), CURLUPART_URL, part.c_str(), 0) != CURLUE_OK) {
      return std::nullopt;
    }
  }
  const auto get = [&](CURLUPart part, unsigned flags) {
    char* text = nullptr;
    if (curl.url_get(parsed.get(), part, &text, flags) != CURLUE_OK) return std::string();
    std::string value = text;
    curl.free(text);
    return value;
  };
  Url result;
  result.whole = get(CURLUPART_URL, 0);
  result.scheme = get(CURLUPART_SCHEME, 0);
  const std::string host = get(CURLUPART_HOST, 0);
  if (result.whole.empty() || host.empty()) return std::nullopt;
  if (result.scheme != "http" && result.scheme != "https") return std::nullopt;
  result.origin = result.scheme + "://" + host + ":" + get(CURLUPART_PORT, CURLU_DEFAULT_PORT);
  for (char& c : result.origin) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return result;
}

}  // namespace infer::hub
