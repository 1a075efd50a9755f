#include "server/trace/trace_exporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "hub/curl.h"

namespace infer::server {
namespace {

using Clock = std::chrono::steady_clock;

/// A batch is sent when it is full, or so long after its first span.
constexpr std::chrono::milliseconds kDelay{1000};
constexpr std::chrono::milliseconds kFirstPause{500};
constexpr int kMostAttempts = 4;
constexpr std::chrono::seconds kLastWait{2};
constexpr std::chrono::minutes kBetweenWarnings{1};
/// Of an answer, of which only the number of refused spans counts.
constexpr size_t kMostAnswer = 64 << 10;

/// Statuses after which OTLP/HTTP says to try again.
bool may_pass(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

/// How many spans of a batch the collector says that it has refused.
int64_t refused_spans(const std::string& answer, size_t sent) {
  const Json json = parse_json(answer);
  if (!json.is_object() || !json.contains("partialSuccess")) return 0;
  const Json& partial = json["partialSuccess"];
  if (!partial.is_object() || !partial.contains("rejectedSpans")) return 0;
  const Json& count = partial["rejectedSpans"];  // 64 bits: most often a string
  int64_t number = 0;
  if (count.is_number_integer()) {
    number = count.get<int64_t>();
  } else if (count.is_string()) {
    const auto& text = count.get_ref<const std::string&>();
    number = std::strtoll(text.c_str(), nullptr, 10);
  }
  return std::clamp<int64_t>(number, 0, static_cast<int64_t>(sent));
}

}  // namespace

struct TraceExporter::Queue {
  TraceOptions options;
  std::function<void(const std::string&)> warn;
  SpanCounts counts;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Span> spans;
  std::atomic<bool> ends{false};
  Clock::time_point last_wait = Clock::time_point::max();  ///< set with `ends`
  bool ended = false;
  Clock::time_point warned = Clock::now() - kBetweenWarnings;  // the thread's

  void run();
  bool take(std::vector<Span>& batch);
  void send(const std::vector<Span>& batch);
  std::optional<std::string> post(const std::string& body, bool& again, std::string& answer);
  bool pause(std::chrono::milliseconds time);
  void drop(size_t count, const std::string& why);
};

void TraceExporter::Queue::run() {
  std::vector<Span> batch;
  while (take(batch)) {
    try {
      send(batch);
    } catch (const std::exception& failure) {
      drop(batch.size(), failure.what());
    }
  }
  const std::lock_guard lock(mutex);
  ended = true;
  changed.notify_all();
}

/// Waits for a batch. False: there is none, and none will come.
bool TraceExporter::Queue::take(std::vector<Span>& batch) {
  batch.clear();
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return ends || !spans.empty(); });
  changed.wait_for(lock, kDelay, [this] { return ends || spans.size() >= kMostInBatch; });
  if (ends && Clock::now() >= last_wait) {
    counts.dropped += static_cast<int64_t>(spans.size());
    return false;
  }
  const auto count = static_cast<int64_t>(std::min(spans.size(), kMostInBatch));
  std::move(spans.begin(), spans.begin() + count, std::back_inserter(batch));
  spans.erase(spans.begin(), spans.begin() + count);
  return !batch.empty();
}

void TraceExporter::Queue::send(const std::vector<Span>& batch) {
  const std::string body = otlp_request(batch, options.resource);
  std::chrono::milliseconds wait = kFirstPause;
  for (int attempt = 1;; ++attempt, wait *= 2) {
    bool again = false;
    std::string answer;
    const std::optional<std::string> failure = post(body, again, answer);
    if (!failure) {
      const int64_t refused = refused_spans(answer, batch.size());
      counts.exported += static_cast<int64_t>(batch.size()) - refused;
      if (refused > 0) drop(static_cast<size_t>(refused), "the collector refuses some spans");
      return;
    }
    if (!again || attempt == kMostAttempts || !pause(wait)) return drop(batch.size(), *failure);
  }
}

/// Nothing if the batch was taken, else why not. `again`: it may be taken later.
std::optional<std::string> TraceExporter::Queue::post(const std::string& body, bool& again,
                                                      std::string& answer) {
  hub::Exchange exchange{options.url};
  exchange.body = &body;
  exchange.seconds = options.timeout_seconds;
  exchange.headers = {"Content-Type: application/json", "Expect:"};
  exchange.headers.insert(exchange.headers.end(), options.headers.begin(), options.headers.end());
  exchange.stop = [this] { return ends && Clock::now() >= last_wait; };
  exchange.data = [&](std::span<const char> bytes) {
    answer.append(bytes.data(), std::min(bytes.size(), kMostAnswer - answer.size()));
    return answer.size() < kMostAnswer;
  };
  const hub::Transfer done = hub::transfer(exchange);
  const int status = done.answer.status;
  if (done.end == hub::End::complete || done.end == hub::End::unwanted) {
    if (status >= 200 && status < 300) return std::nullopt;
    again = may_pass(status);
    return fmt::format("the collector answers with status {}", status);
  }
  again = done.end == hub::End::no_connection || done.end == hub::End::interrupted;
  return done.problem;
}

/// False if the server ends meanwhile.
bool TraceExporter::Queue::pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex);
  return !changed.wait_for(lock, time, [this] { return ends.load(); });
}

void TraceExporter::Queue::drop(size_t count, const std::string& why) {
  counts.dropped += static_cast<int64_t>(count);
  if (!warn || ends || Clock::now() - warned < kBetweenWarnings) return;
  warned = Clock::now();
  warn(fmt::format("{}: spans of traces are lost: {}", options.url, why));
}

TraceExporter::TraceExporter(TraceOptions options, std::function<void(const std::string&)> warn)
    : queue_(std::make_shared<Queue>()) {
  queue_->options = std::move(options);
  queue_->warn = std::move(warn);
  thread_ = std::thread([queue = queue_] { queue->run(); });
}

TraceExporter::~TraceExporter() {
  bool ended = false;
  {
    std::unique_lock lock(queue_->mutex);
    queue_->last_wait = Clock::now() + kLastWait;
    queue_->ends = true;
    queue_->changed.notify_all();
    ended = queue_->changed.wait_for(lock, kLastWait, [&] { return queue_->ended; });
  }
  ended ? thread_.join() : thread_.detach();
}

void TraceExporter::put(std::vector<Span> spans) {
  const std::lock_guard lock(queue_->mutex);
  for (Span& span : spans) {
    if (queue_->spans.size() >= kMostWaiting) {
      ++queue_->counts.dropped;
    } else {
      queue_->spans.push_back(std::move(span));
    }
  }
  queue_->changed.notify_all();
}

const SpanCounts& TraceExporter::counts() const { return queue_->counts; }

}  // namespace infer::server
