// Texts that are being generated for one request.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "infer/infer.hpp"
#include "server/http/exchange.h"
#include "server/workers.h"

namespace infer::server {

/// One token with the most likely ones in its place, each with its log-probability.
using TokenChoices = std::vector<std::pair<int32_t, float>>;

/// What a request asks for.
struct CompletionRequest {
  std::string model;                          ///< what clients call it
  std::shared_ptr<void> place;                ///< let go of before the end of the answer is sent
  std::vector<std::vector<int32_t>> prompts;  ///< at least one
  int copies = 1;                             ///< answers to each
  size_t at_once = 1;                         ///< answers that are generated together
  GenerateOptions options;
  size_t most_values = SIZE_MAX;  ///< log-probabilities of all answers; more of them are an error
  /// Path of the field that options.grammar or options.json_schema is from. Schemas of tools are in
  /// "tools" in any case.
  std::string constraint_field;
  std::vector<float> adapters;  ///< SessionOptions::adapters
  /// With a chat template: the output is taken apart. Its source, and the text that is continued.
  std::string template_source;
  std::string prompt_text;
  OutputOptions output;
  /// The text of an answer is a call: of this function, its arguments; "*": {"name", "arguments"}.
  /// Empty: it is no call.
  std::string forced;
  bool one_call = false;  ///< an answer ends with its first call
};

struct CompletionTotals {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t reasoning_tokens = 0;  ///< of these; with the marks before the reasoning
  double prompt_seconds = 0;     ///< of the answer that took longest
  double generate_seconds = 0;
};

/// Gets the answers as they come, on a worker's thread, one call at a time.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  /// The engine was given an answer to generate, at that time.
  virtual void begun(int choice, std::chrono::system_clock::time_point at) {
    (void)choice;
    (void)at;
  }
  /// A token of a prompt, if GenerateOptions::prompt_logprobs asks for them: all from the second
  /// on, in order, before the parts of the answers to it.
  virtual void prompt_token(int prompt, const TokenChoices& choices) {
    (void)prompt;
    (void)choices;
  }
  /// Nothing was written for a while. A stream tells its reader that the answer is still made.
  virtual void quiet() {}
  /// Text or a call of answer `choice` (prompt · copies + copy). `tokens`: those generated since
  /// the last call, if log-probabilities were asked for.
  virtual void part(int choice, const OutputEvent& event, std::vector<TokenChoices> tokens) = 0;
  virtual void finished(int choice, const GenerateResult& result) = 0;
  /// All answers have finished.
  virtual void done(const CompletionTotals& totals) = 0;
  /// One failed; the others are ended, and nothing more is called. `field`: the one of the request
  /// that is wrong; empty: none in particular.
  virtual void failed(const Status& status, const std::string& field) = 0;
};

/// The threads that it runs on.
struct CompletionWorkers {
  Workers& events;                  ///< takes what was generated
  Workers& handlers;                ///< closes sessions
  const std::atomic<bool>& ending;  ///< nothing is generated any more
};

/// Runs a request. It ends when its answers do, or soon after the exchange has closed. While the
/// reader does not take what was written, the generation pauses.
class Completion : public std::enable_shared_from_this<Completion> {
 public:
  /// invalid_argument and so on, as Session::start(): nothing was begun then.
  static Status start(std::shared_ptr<Engine> engine, CompletionWorkers workers,
                      ExchangePtr exchange, CompletionRequest request,
                      std::unique_ptr<CompletionSink> sink);

 private:
  struct Choice {
    std::unique_ptr<Session> session;
    std::unique_ptr<OutputParser> parser;
    std::vector<TokenChoices> tokens;  ///< not yet given to the sink
    std::string forced;                ///< text of a forced call
    int64_t held_tokens = 0;           ///< without a part of the answer so far
    int64_t tokens_to_call = 0;        ///< up to the end of the first call
    bool called = false;               ///< with CompletionRequest::one_call: nothing follows
    bool told = false;                 ///< it has a token: its prompt is in the cache
    bool started = false;
    bool ended = false;
  };

  Completion(std::shared_ptr<Engine> engine, CompletionWorkers workers, ExchangePtr exchange,
             CompletionRequest request, std::unique_ptr<CompletionSink> sink);
  Status begin(size_t choice);
  /// Begins answers, as many as may be generated together.
  Status begin_more();
  /// Lets a worker take the events that are there. Any thread.
  void wake();
  void drain();
  void take_events();
  /// Whether another event may be there.
  bool take_event(size_t choice);
  /// Ends a session elsewhere, where it may take its time; the exchange tells the server until then
  /// that there is one.
  void close(Choice& choice);
  void deliver(size_t choice, std::vector<OutputEvent> events);
  /// The call that an answer had to be; if the text was cut short, what there is of its arguments.
  void deliver_forced(size_t choice);
  /// None if the text was cut short.
  std::optional<ToolCall> forced_call(const std::string& text) const;
  /// The field that this failure of an answer without any token is about; empty: none.
  std::string wrong_field(const Status& status) const;
  void fail(const Status& status, const std::string& field = "");

  std::shared_ptr<Engine> engine_;  // before the sessions
  CompletionWorkers workers_;
  ExchangePtr exchange_;
  CompletionRequest request_;
  std::unique_ptr<CompletionSink> sink_;
  std::vector<Choice> choices_;
  size_t begun_ = 0;    ///< all before this one have been started
  size_t running_ = 0;  ///< started and not ended
  size_t values_ = 0;   ///< log-probabilities so far
  CompletionTotals totals_;
  bool failed_ = false;
  bool cancelled_ = false;
  std::mutex mutex_;  // of drain()
  std::atomic<bool> scheduled_{false};
  /// Whether the generation waits for the reader. The network's thread reads it.
  std::shared_ptr<std::atomic<bool>> paused_ = std::make_shared<std::atomic<bool>>(false);
  /// Whether the sink is to be told that nothing was written. The network's thread sets it.
  std::shared_ptr<std::atomic<bool>> quiet_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<Completion> alive_;  // until all has ended
};

}  // namespace infer::server
