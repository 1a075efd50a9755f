// The server's interfaces: which function answers which path, who may ask, and what is counted.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/api/fields.h"
#include "server/generation/completion.h"
#include "server/http/exchange.h"
#include "server/metrics.h"
#include "server/models/model_pool.h"
#include "server/trace/trace_exporter.h"
#include "server/workers.h"

namespace infer::server {

struct ApiOptions {
  std::vector<std::string> keys;  ///< empty: everybody may ask
  std::vector<std::string>
      allowed_hosts;                     ///< names in Host besides those of this machine; "*": all
  std::vector<std::string> origins;      ///< pages that may ask from a browser; "*": all
  std::function<void(std::string)> log;  ///< gets a line of JSON for each request; returns at once
  TraceExporter* traces = nullptr;  ///< gets the spans of requests; null: they are not recorded
};

class Api;

/// Images that were read, by their files.
using ReadImages = std::map<std::string, ModelImage>;

/// A request that a function answers.
struct Call {
  Api& api;
  ExchangePtr exchange;
  Json body;                                ///< an object; null if the path takes none
  ModelLease model;                         ///< null if the path needs none
  bool slow = false;                        ///< it runs beside the threads for usual requests
  std::shared_ptr<ReadImages> images = {};  ///< those of the request so far; null: none is read yet
};

/// Thrown before a call's answer has begun: it takes long, and is to be called again, behind others
/// that take long.
struct TakesLong {};

/// What handlers use. It outlives all exchanges.
class Api {
 public:
  Api(ModelPool& pool, Workers& workers, ApiOptions options);

  /// Answers a request on a worker. Any thread.
  void take(ExchangePtr exchange);
  /// Whether a request with these headers may be answered, if it has a body: else take() refuses
  /// it. Any thread.
  bool admits(const Request& request) const;
  /// Answers a request that the network refuses, in its interface's form. Any thread.
  void refuse(Exchange& exchange, int status, const std::string& message) const;
  /// Of a server that only this machine can reach, at `host`: requests whose Host is another name
  /// are refused. Called before requests come.
  void take_only_local_names(const std::string& host);
  /// Calls `answer`; what it throws becomes an error in the answer.
  static void guard(Exchange& exchange, const std::function<void()>& answer);
  /// Counts an answer that has ended, and writes it to the access log. On the network's thread.
  void finished(const Exchange& exchange);
  /// Refuses new work from now on, and /health/ready says so.
  void drain() { draining_ = true; }
  /// Ends what is being generated, each with an error in its interface's form.
  void end_answers() { ending_ = true; }

  /// Whether only those who have a key may ask.
  bool wants_key() const;
  void set_keys(std::vector<std::string> keys);

  Workers& workers() const { return workers_; }
  /// For what requests want, apart from the threads that pass on what was generated.
  Workers& handlers() { return handlers_; }
  /// For functions of the library that return only when they are done. `large`: those that take
  /// long, which keep no others waiting.
  Workers& blocking(bool large) { return large ? blocking_large_ : blocking_; }
  Metrics& metrics() { return metrics_; }
  /// Null: traces are not recorded.
  TraceExporter* traces() const { return options_.traces; }
  ModelPool& pool() const { return pool_; }
  /// The name of the model that a request's field `model` means. Throws Problem if there is none.
  std::string model_name(const Json& body) const;
  bool draining() const { return draining_; }
  const std::atomic<bool>& ending() const { return ending_; }

 private:
  using Function = void (*)(const Call&);
  enum class Needs {
    nothing,  ///< not even a key
    key,
    body,
    model,  ///< which the body names
  };
  struct Route {
    const char* method;
    Function function;
    Needs needs;
  };

  void handle(const ExchangePtr& exchange);
  /// Calls the function of a path that needs a model, on another thread.
  void post_answer(Function function, Call call);
  void answer(Function function, Call call);
  /// Whether the path is answered without a key.
  bool is_open(const Request& request) const;
  /// Throws Problem if the request may not be answered. `open`: no key is needed.
  void authorise(const Request& request, bool open) const;
  void allow_origin(Exchange& exchange) const;
  void trace(const Exchange& exchange, const std::string& route);

  ModelPool& pool_;
  Workers& workers_;
  Workers handlers_{4};
  Workers blocking_{2};
  Workers blocking_large_{2};
  /// For requests with large bodies or images, which take long to read and much memory.
  Workers large_{2};
  ApiOptions options_;
  mutable std::mutex keys_mutex_;  // of options_.keys
  bool local_names_ = false;
  Metrics metrics_;
  std::atomic<bool> draining_{false};
  std::atomic<bool> ending_{false};
  using Routes = std::multimap<std::string, Route, std::less<>>;
  std::pair<Routes::const_iterator, Routes::const_iterator> routes_at(std::string_view path) const;
  Routes routes_;
};

/// Throws Problem if nobody waits for the call's answer any more, or the server ends.
void require_wanted(const Call& call);
/// Throws unless the model came.
void must_have(const Result<ModelLease>& model);
/// An answer in JSON.
void send_json(Exchange& exchange, const Json& json, int status = 200);
/// The content type of streams of events. Some clients take another set of characters if none is
/// named.
inline constexpr const char* kEventStream = "text/event-stream; charset=utf-8";
/// In a stream of events: no event. It keeps who waits for one from giving up.
inline constexpr const char* kComment = ": \n\n";
/// What "code" is in an answer at a path: OpenAI has a name or null there, llama.cpp the status.
Json error_code(const std::string& path, int status);
/// An error in the form of the interface that the request's path belongs to.
void send_problem(Exchange& exchange, const Problem& problem);
void send_problem(Exchange& exchange, int status, const std::string& message);
/// Generates with the call's model; `sink` answers. Throws Problem if nothing was begun.
void generate(const Call& call, CompletionRequest request, std::unique_ptr<CompletionSink> sink);
/// Throws Problem if the model makes vectors or scores of texts.
void require_generating(const ServedModel& model);
/// Throws Problem if so many tokens do not fit. `field`: the one that has the prompt.
void require_context(size_t tokens, int64_t context, const char* field);
/// The field of a request that its prompt is from.
const char* prompt_field(const Json& body);
/// A place for the call's request, which is given back when nobody holds it. Throws Problem if too
/// many requests wait.
std::shared_ptr<void> take_place(const Call& call);
/// The name of the model that `model` in the query means.
std::string model_of_query(const Call& call);
// llama_completion.cpp
void llama_completion(const Call& call);
void slots(const Call& call);
// adapters.cpp
void adapters(const Call& call);
void set_adapters(const Call& call);
// openai_chat.cpp, openai_completions.cpp
void chat_completions(const Call& call);
void completions(const Call& call);
// vectors.cpp
void embeddings(const Call& call);
void rerank_texts(const Call& call);
// responses.cpp
void responses(const Call& call);
// anthropic.cpp
void messages(const Call& call);
void count_tokens(const Call& call);
// ollama.cpp, ollama_models.cpp
void ollama_chat(const Call& call);
void ollama_generate(const Call& call);
/// Whether the request asks for nothing but that a model is unloaded: without a text, and with
/// `keep_alive` 0.
bool ollama_unloads(const Call& call);
void ollama_unload(const Call& call);
void ollama_embed(const Call& call);
void ollama_embeddings(const Call& call);
void ollama_tags(const Call& call);
void ollama_ps(const Call& call);
void ollama_show(const Call& call);
void ollama_version(const Call& call);
// information.cpp
void load_model(const Call& call);
void unload_model(const Call& call);
void list_models(const Call& call);
void retrieve_model(const Call& call);
void health(const Call& call);
void ready(const Call& call);
void props(const Call& call);
void metrics(const Call& call);
// page.cpp
void openapi(const Call& call);
void page_html(const Call& call);
void page_css(const Call& call);
void markdown_js(const Call& call);
void page_js(const Call& call);
// text.cpp
void tokenize(const Call& call);
void detokenize(const Call& call);
void apply_template(const Call& call);

}  // namespace infer::server
