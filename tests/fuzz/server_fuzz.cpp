// libFuzzer: a request with any body gets an answer, and leaves nothing behind.
//
// The first byte chooses the path, and whether the reader goes away; the rest is the body. Bodies
// that are right are computed, by the built-in model, unless the reader goes away.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "demo/demo_model.h"
#include "infer/infer.hpp"
#include "server/api/api.h"
#include "server/trace/trace_context.h"

namespace {

using namespace infer;
using namespace infer::server;

constexpr const char* kPaths[] = {"/v1/chat/completions",
                                  "/v1/completions",
                                  "/v1/responses",
                                  "/v1/messages",
                                  "/v1/messages/count_tokens",
                                  "/completion",
                                  "/api/chat",
                                  "/api/generate",
                                  "/api/show",
                                  "/v1/embeddings",
                                  "/v1/rerank",
                                  "/api/embed",
                                  "/tokenize",
                                  "/detokenize",
                                  "/apply-template",
                                  "/v1/models/unload"};
constexpr size_t kPathCount = std::size(kPaths);
/// What an answer may take: computing it, in a build that is slow.
constexpr std::chrono::seconds kLongest{120};

[[noreturn]] void wrong(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

/// An answer whose reader takes all at once, or has gone away once it has begun.
class FuzzedExchange final : public Exchange {
 public:
  FuzzedExchange(Request request, bool leaves) : request_(std::move(request)), leaves_(leaves) {}
  ~FuzzedExchange() override {
    if (!leaves_ && !ended_) wrong("a request has no answer");
  }

  const Request& request() const override { return request_; }
  void add_header(std::string, std::string) override {}
  void send(int status, std::string_view, std::string body, Headers) override {
    begin_answer(status);
    sent_ += body.size();
    if (status >= 500 && status != 503) wrong(body.c_str());
    ended_ = true;
  }
  void begin(int status, std::string_view, Headers) override { begin_answer(status); }
  void write(std::string part) override {
    if (status_ == 0 || ended_) wrong("a part outside of an answer");
    sent_ += part.size();
  }
  void end() override {
    if (ended_) wrong("an answer ends twice");
    ended_ = true;
  }
  size_t unsent() const override { return 0; }
  bool closed() const override { return leaves_ && asked_++ > 1; }
  void watch(std::function<void(Notice)>) override {}
  double seconds() const override { return 0; }
  int status() const override { return status_; }
  size_t sent() const override { return sent_; }

 private:
  void begin_answer(int status) {
    if (status_.exchange(status) != 0) wrong("an answer begins twice");
  }

  Request request_;
  bool leaves_;
  mutable std::atomic<int> asked_{0};
  std::atomic<int> status_{0};
  std::atomic<size_t> sent_{0};
  std::atomic<bool> ended_{false};
};

/// The interfaces, with the built-in model behind them.
struct Served {
  ModelPool pool;
  Workers workers{2};
  Api api{pool, workers, {}};

  static std::unique_ptr<ServedModel> load() {
    LoadOptions options;
    options.context = 256;
    options.threads = 1;
    auto engine = Engine::load(demo::model_path(), options);
    if (!engine) wrong(engine.error().message().c_str());
    auto model = ServedModel::create(*std::move(engine), "demo", "", 4);
    if (!model) wrong(model.error().message().c_str());
    return *std::move(model);
  }
  Served() : pool(load()) {}
};

void check_trace(std::string_view text) {
  const auto context =
      trace_context(text.substr(0, 60), text.substr(std::min<size_t>(60, text.size())));
  if (context && (context->trace_id.size() != 32 || context->caller_id.size() != 16)) {
    wrong("ids of another size");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Served& served = *new Served();  // its threads run until the process ends
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  check_trace(body);
  Request request;
  request.method = "POST";
  request.path = kPaths[data[0] % kPathCount];
  request.body = body;
  request.id.push_back('1');
  std::weak_ptr<Exchange> watched;
  {
    const auto exchange =
        std::make_shared<FuzzedExchange>(std::move(request), data[0] / kPathCount % 2 == 1);
    watched = exchange;
    served.api.take(exchange);
  }
  const auto end = std::chrono::steady_clock::now() + kLongest;
  while (!watched.expired()) {
    if (std::chrono::steady_clock::now() > end) wrong("an answer takes too long");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return 0;
}
