#include "server/api/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "platform/folders.h"
#include "platform/sockets.h"
#include "server/trace/traced_sink.h"

namespace infer::server {
namespace {

/// Such a body takes long to read, and so does what it wants.
bool is_large(const Request& request) {
  constexpr size_t kLarge = size_t{1} << 20;
  return request.body.size() > kLarge;
}

/// Takes the same time wherever the two differ.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned differs = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    differs |= static_cast<unsigned char>(a[i]) ^
               static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  }
  return differs == 0;
}

/// A name of a machine as it is compared: letters of both cases mean the same, and so does a dot at
/// the end.
std::string plain_host(std::string_view host) {
  if (host.ends_with('.')) host.remove_suffix(1);
  return lower_case(host);
}

/// "example.org" of "example.org:8080", "::1" of "[::1]:8080".
std::string_view host_of(std::string_view authority) {
  if (authority.starts_with('[')) {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos) return {};
    const std::string_view rest = authority.substr(end + 1);
    return rest.empty() || rest.starts_with(':') ? authority.substr(1, end - 1) : rest;
  }
  return authority.substr(0, authority.find(':'));
}

bool contains(const std::vector<std::string>& all, std::string_view one) {
  return std::ranges::any_of(all,
                             [&](const std::string& item) { return item == "*" || item == one; });
}

/// Before the name of a model in a path.
constexpr const char* kModels = "/v1/models/";

/// "localhost", or a loopback address: digits and points alone are no name.
bool is_this_machine(std::string_view host) {
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos);
}

/// The field that a message of the library begins with, if the request has it.
std::string field_in(const Json& body, const std::string& message) {
  std::string name = message.substr(0, message.find(": "));
  return body.contains(name) ? name : "";
}

/// Whether a model that cannot be had for this reason cannot be had later either.
bool lasts(StatusCode code) {
  return code == StatusCode::does_not_fit || code == StatusCode::bad_file ||
         code == StatusCode::unsupported || code == StatusCode::invalid_argument;
}

}  // namespace

void send_json(Exchange& exchange, const Json& json, int status) {
  exchange.send(status, "application/json", write_json(json));
}

Json error_code(const std::string& path, int status) {
  if (!path.starts_with("/v1/")) return status;
  return status == 401 ? Json("invalid_api_key") : Json(nullptr);
}

void send_problem(Exchange& exchange, const Problem& problem) {
  const std::string& path = exchange.request().path;
  const std::string& message = problem.message();
  const int status = problem.status();
  Json code = error_code(path, status);
  if (code.is_null() && problem.code() != nullptr) code = problem.code();
  Json error = {{"message", message},
                {"type", error_type(status)},
                {"param", problem.field().empty() ? Json(nullptr) : Json(problem.field())},
                {"code", std::move(code)}};
  Json json = {{"error", std::move(error)}};
  if (path.starts_with("/api/")) json = {{"error", message}};
  if (path.starts_with("/v1/messages")) {
    json = {{"type", "error"},
            {"error", {{"type", anthropic_error_type(status)}, {"message", message}}}};
  }
  Headers more;
  if (!problem.lasts() && (status == 429 || status == 503)) more.emplace_back("Retry-After", "1");
  if (status == 401) more.emplace_back("WWW-Authenticate", "Bearer");
  exchange.send(status, "application/json", write_json(json), std::move(more));
}

void send_problem(Exchange& exchange, int status, const std::string& message) {
  send_problem(exchange, Problem(status, message));
}

void require_generating(const ServedModel& model) {
  if (!model.engine().makes_embeddings()) return;
  throw Problem(400,
                fmt::format("{} makes vectors or scores of texts and generates none", model.name()),
                "model");
}

std::shared_ptr<void> take_place(const Call& call) {
  if (!call.model->take_place()) {
    throw Problem(429,
                  "the server is busy: its queue is full; try again later, or start it with a "
                  "larger --queue");
  }
  return {nullptr, [model = call.model](void*) { model->give_place_back(); }};
}

void require_context(size_t tokens, int64_t context, const char* field) {
  if (tokens <= static_cast<size_t>(context)) return;
  throw Problem(400, fmt::format("{} tokens do not fit: the context holds {}", tokens, context),
                field, true, "context_length_exceeded");
}

const char* prompt_field(const Json& body) {
  for (const char* name : {"messages", "input", "input_prefix"}) {
    if (body.contains(name)) return name;
  }
  return "prompt";
}

void generate(const Call& call, CompletionRequest request, std::unique_ptr<CompletionSink> sink) {
  require_generating(*call.model);
  if (!request.options.grammar.empty() && !request.options.json_schema.empty()) {
    throw Problem(400, "grammar: expected none beside a JSON schema or a call that is required",
                  "grammar");
  }
  const int64_t context = call.model->engine().memory().longest;
  for (const std::vector<int32_t>& prompt : request.prompts) {
    require_context(prompt.size(), context, prompt_field(call.body));
  }
  if (request.place == nullptr) request.place = take_place(call);
  request.model = call.model->name();
  // Many use the machine better, but a request is not to have all of it.
  constexpr int32_t kAtOnce = 64;
  request.at_once = static_cast<size_t>(std::max(kAtOnce, call.model->slots()));
  TraceExporter* const traces = call.api.traces();
  if (traces != nullptr && call.exchange->request().trace) {
    sink = std::make_unique<TracedSink>(std::move(sink), *traces, call.exchange, call.model->name(),
                                        request);
  }
  const Status started =
      Completion::start({call.model, &call.model->engine()},
                        {call.api.workers(), call.api.handlers(), call.api.ending()}, call.exchange,
                        std::move(request), std::move(sink));
  if (started.ok()) return;
  throw Problem(http_status(started.code()), started.message(),
                field_in(call.body, started.message()));
}

void require_wanted(const Call& call) {
  if (call.exchange->closed()) throw Problem(400, "the client has closed the connection");
  if (call.api.ending()) throw Problem(503, "the server is ending");
}

void must_have(const Result<ModelLease>& model) {
  if (model) return;
  const Status& status = model.error();
  // That models take turns, or cannot be loaded, is no fault of the client.
  const bool absent = status.code() == StatusCode::not_found;
  throw Problem(absent ? 404 : 503, status.message(), absent ? "model" : "", lasts(status.code()));
}

Api::Api(ModelPool& pool, Workers& workers, ApiOptions options)
    : pool_(pool), workers_(workers), options_(std::move(options)) {
  const auto add = [&](const char* method, std::initializer_list<const char*> paths,
                       Function function, Needs needs) {
    for (const char* path : paths) routes_.emplace(path, Route{method, function, needs});
  };
  add("POST", {"/v1/chat/completions", "/chat/completions"}, chat_completions, Needs::model);
  add("POST", {"/completion", "/completions", "/infill"}, llama_completion, Needs::model);
  add("GET", {"/slots"}, slots, Needs::key);
  add("GET", {"/lora-adapters"}, adapters, Needs::key);
  add("POST", {"/lora-adapters"}, set_adapters, Needs::key);
  add("POST", {"/v1/completions"}, completions, Needs::model);
  add("POST", {"/v1/embeddings", "/embeddings"}, embeddings, Needs::model);
  add("POST", {"/v1/rerank", "/rerank", "/v1/reranking", "/reranking"}, rerank_texts, Needs::model);
  add("POST", {"/v1/responses"}, responses, Needs::model);
  add("POST", {"/v1/messages"}, messages, Needs::model);
  add("POST", {"/v1/messages/count_tokens"}, count_tokens, Needs::model);
  add("POST", {"/api/chat"}, ollama_chat, Needs::model);
  add("POST", {"/api/generate"}, ollama_generate, Needs::model);
  add("POST", {"/api/embed"}, ollama_embed, Needs::model);
  add("POST", {"/api/embeddings"}, ollama_embeddings, Needs::model);
  add("GET", {"/api/tags"}, ollama_tags, Needs::key);
  add("GET", {"/api/ps"}, ollama_ps, Needs::key);
  add("POST", {"/api/show"}, ollama_show, Needs::body);
  add("GET", {"/api/version"}, ollama_version, Needs::key);
  add("GET", {"/v1/models", "/models"}, list_models, Needs::key);
  add("GET", {kModels}, retrieve_model, Needs::key);
  add("POST", {"/v1/models/load", "/models/load"}, load_model, Needs::model);
  add("POST", {"/v1/models/unload", "/models/unload"}, unload_model, Needs::body);
  add("GET", {"/"}, page_html, Needs::nothing);
  add("GET", {"/page.css"}, page_css, Needs::nothing);
  add("GET", {"/markdown.js"}, markdown_js, Needs::nothing);
  add("GET", {"/page.js"}, page_js, Needs::nothing);
  add("GET", {"/health", "/health/live"}, health, Needs::nothing);
  add("GET", {"/health/ready"}, ready, Needs::nothing);
  add("GET", {"/props"}, props, Needs::key);
  add("GET", {"/openapi.json"}, openapi, Needs::key);
  add("GET", {"/metrics"}, server::metrics, Needs::key);
  add("POST", {"/tokenize"}, server::tokenize, Needs::model);
  add("POST", {"/detokenize"}, server::detokenize, Needs::model);
  add("POST", {"/apply-template"}, apply_template, Needs::model);
}

void Api::take(ExchangePtr exchange) {
  // Workers may be busy for long, which is no reason to call the server dead.
  if (is_open(exchange->request())) return guard(*exchange, [&] { handle(exchange); });
  Workers& workers = is_large(exchange->request()) ? large_ : workers_;
  workers.post([this, exchange = std::move(exchange)] {
    if (exchange->closed()) return;  // no reader waits for it any more
    guard(*exchange, [&] { handle(exchange); });
  });
}

void Api::post_answer(Function function, Call call) {
  Workers& workers = call.slow ? large_ : handlers_;
  workers.post([this, function, slow = call.slow, call = std::move(call)]() mutable {
    answer(function, std::move(call));
    if (slow) platform::give_back_memory();
  });
}

void Api::answer(Function function, Call call) {
  if (call.exchange->closed()) return;
  bool again = false;
  guard(*call.exchange, [&] {
    if (call.body.is_null()) call.body = read_object(call.exchange->request().body);
    try {
      function(call);
    } catch (const TakesLong&) {
      again = true;
    }
  });
  if (!again) return;
  call.slow = true;
  if (call.images == nullptr) call.images = std::make_shared<ReadImages>();
  post_answer(function, std::move(call));
}

void Api::guard(Exchange& exchange, const std::function<void()>& answer) {
  try {
    answer();
  } catch (const Problem& problem) {
    send_problem(exchange, problem);
  } catch (const std::bad_alloc&) {
    send_problem(exchange, 503, "there is not enough memory for the request");
  } catch (const std::exception& failure) {
    send_problem(exchange, 500, failure.what());
  }
}

void Api::handle(const ExchangePtr& exchange) {
  const Request& request = exchange->request();
  const auto [first, last] = routes_at(request.path);
  const bool preflight = request.method == "OPTIONS";
  allow_origin(*exchange);  // a page may read a refusal as well
  authorise(request, is_open(request));
  if (first == last) throw Problem(404, fmt::format("there is nothing at {}", request.path));
  if (preflight) return exchange->send(204, "", "");
  const auto found = std::find_if(first, last, [&](const auto& entry) {
    return request.method == entry.second.method ||
           (request.method == "HEAD" && std::string_view(entry.second.method) == "GET");
  });
  if (found == last) {
    std::string methods;
    for (auto route = first; route != last; ++route) {
      methods += (methods.empty() ? "" : ", ") + std::string(route->second.method);
    }
    exchange->add_header("Allow", methods);
    throw Problem(405, fmt::format("{} accepts only {}", request.path, methods));
  }
  Call call{*this, exchange, nullptr, nullptr};
  if (const std::string_view coding = request.header("content-encoding");
      !coding.empty() && coding != "identity") {
    throw Problem(415, "compressed bodies are not accepted", "Content-Encoding");
  }
  if (found->second.needs >= Needs::body) {
    if (draining_) throw Problem(503, "the server is ending and takes no more requests");
    call.body = read_object(request.body);
  }
  if (found->second.needs < Needs::model) return found->second.function(call);
  if (ollama_unloads(call)) return ollama_unload(call);
  const std::string name = model_name(call.body);
  call.slow = is_large(request);
  // It may wait long for another model: its text takes less memory meanwhile.
  if (!pool_.single()) call.body = nullptr;
  pool_.acquire(
      name, [exchange] { return !exchange->closed(); },
      [this, function = found->second.function, call = std::move(call)](auto model) mutable {
        const ExchangePtr waiting = call.exchange;
        guard(*waiting, [&] {
          must_have(model);
          call.model = *std::move(model);
          post_answer(function, std::move(call));
        });
      });
}

std::pair<Api::Routes::const_iterator, Api::Routes::const_iterator> Api::routes_at(
    std::string_view path) const {
  const auto found = routes_.equal_range(path);
  if (found.first != found.second || !path.starts_with(kModels)) return found;
  return routes_.equal_range(kModels);
}

bool Api::is_open(const Request& request) const {
  const auto route = routes_.find(request.path);
  return request.method == "OPTIONS" ||
         (route != routes_.end() && route->second.needs == Needs::nothing);
}

bool Api::admits(const Request& request) const {
  if (draining_) return false;
  try {
    authorise(request, is_open(request));
    return true;
  } catch (const Problem&) {
    return false;
  }
}

void Api::refuse(Exchange& exchange, int status, const std::string& message) const {
  allow_origin(exchange);
  send_problem(exchange, status, message);
}

void Api::take_only_local_names(const std::string& host) {
  local_names_ = true;
  options_.allowed_hosts.push_back(host);
  for (std::string& name : options_.allowed_hosts) name = plain_host(name);
}

std::string Api::model_name(const Json& body) const {
  Fields fields(body);
  const std::string given = fields.text("model").value_or("");
  const std::optional<std::string> name = pool_.resolve(given);
  if (!name) throw Problem(404, fmt::format("there is no model '{}' here", given), "model");
  return *name;
}

/// The span of a request whose caller records its trace. `route`: the path, if it is one of the
/// server's; without the name of a model in it.
void Api::trace(const Exchange& exchange, const std::string& route) {
  const Request& request = exchange.request();
  if (options_.traces == nullptr || !request.trace) return;
  const int status = exchange.status();
  // Other methods are any text, as a caller likes.
  constexpr std::string_view kMethods[] = {"GET", "HEAD", "OPTIONS", "POST"};
  const bool usual = std::ranges::find(kMethods, request.method) != std::end(kMethods);
  Span span = child_of(*request.trace, request.trace->caller_id, usual ? request.method : "HTTP");
  span.span_id = request.trace->span_id;
  span.kind = Span::Kind::server;
  span.end = WallClock::now();
  span.start = span.end - std::chrono::duration_cast<WallClock::duration>(
                              std::chrono::duration<double>(exchange.seconds()));
  if (!route.empty()) span.name += " " + route;
  span.failed = status >= 500 || exchange.closed();
  span.attributes = {{"http.request.method", usual ? request.method : "_OTHER"},
                     {"http.route", route.empty() ? Json() : Json(route)},
                     {"http.response.status_code", status > 0 ? Json(status) : Json()},
                     {"client.address", request.peer},
                     {"infer.request.id", request.id},
                     {"error.type", exchange.closed() ? Json("cancelled")
                                    : status >= 500   ? Json(std::to_string(status))
                                                      : Json()}};
  std::vector<Span> spans;
  spans.push_back(std::move(span));
  options_.traces->put(std::move(spans));
}

void Api::finished(const Exchange& exchange) {
  const Request& request = exchange.request();
  const auto [first, last] = routes_at(request.path);
  const std::string route = first == last ? "" : first->first;
  metrics_.count_request(route.empty() ? "other" : route, exchange.status());
  trace(exchange, route);
  if (!options_.log) return;
  options_.log(write_json({{"time", platform::utc_text()},
                           {"id", request.id},
                           {"peer", request.peer},
                           {"method", request.method},
                           {"path", request.path},
                           {"status", exchange.status()},
                           {"bytes", exchange.sent()},
                           {"seconds", std::round(exchange.seconds() * 1e6) / 1e6},
                           {"complete", !exchange.closed()}}));
}

void Api::authorise(const Request& request, bool open) const {
  // A page of another site can make a browser ask, also by a name that it makes mean this machine.
  // Browsers always send Host. Probes that speak HTTP/1.0 do not.
  const bool is_probe = open && request.is_http_1_0 && !request.has_header("host");
  const std::string host = plain_host(host_of(request.header("host")));
  if (local_names_ && !is_probe && !is_this_machine(host) &&
      !contains(options_.allowed_hosts, host)) {
    throw Problem(403, "the name in Host is not one of this server's; see --allow-host");
  }
  const std::string_view origin = request.header("origin");
  if (!origin.empty() && !contains(options_.origins, origin)) {
    const size_t at = origin.find("://");
    const std::string_view from = at == std::string_view::npos ? origin : origin.substr(at + 3);
    if (lower_case(from) != lower_case(request.header("host"))) {
      throw Problem(403, "pages of other sites may not use this server; see --allow-origin");
    }
  }
  if (open || !wants_key()) return;
  std::string_view key = request.header("x-api-key");
  constexpr std::string_view kBearer = "bearer ";
  if (const std::string_view given = request.header("authorization");
      given.size() > kBearer.size() && lower_case(given.substr(0, kBearer.size())) == kBearer) {
    key = given.substr(kBearer.size());
  }
  const std::lock_guard lock(keys_mutex_);
  bool known = false;
  for (const std::string& each : options_.keys) known = same_secret(each, key) || known;
  if (!known) throw Problem(401, "the API key is missing or wrong");
}

bool Api::wants_key() const {
  const std::lock_guard lock(keys_mutex_);
  return !options_.keys.empty();
}

void Api::set_keys(std::vector<std::string> keys) {
  const std::lock_guard lock(keys_mutex_);
  options_.keys = std::move(keys);
}

void Api::allow_origin(Exchange& exchange) const {
  const std::string_view origin = exchange.request().header("origin");
  if (origin.empty() || !contains(options_.origins, origin)) return;
  exchange.add_header("Access-Control-Allow-Origin", std::string(origin));
  exchange.add_header("Vary", "Origin");
  if (exchange.request().method != "OPTIONS") return;
  exchange.add_header("Access-Control-Allow-Methods", "GET, POST");
  // The clients of browsers send headers of their own.
  const std::string_view wanted = exchange.request().header("access-control-request-headers");
  exchange.add_header("Access-Control-Allow-Headers", wanted.empty()
                                                          ? "authorization, content-type, x-api-key"
                                                          : std::string(wanted));
  exchange.add_header("Access-Control-Max-Age", "600");
}

}  // namespace infer::server
