#include "server/generation/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "server/json.h"
#include "server/models/model.h"

namespace infer::server {
namespace {

/// What the reader may leave before the generation waits for it.
constexpr size_t kMostUnsent = 256 << 10;

/// What follows `"arguments":` in the beginning of {"name", "arguments"}; empty if it ends before.
/// The name, whose quotes are escaped, has no such text.
std::string arguments_in(std::string_view text) {
  constexpr std::string_view kName = "\"arguments\"";
  constexpr const char* kSpaces = " \t\r\n";
  for (size_t at = text.find(kName); at != text.npos; at = text.find(kName, at + 1)) {
    const size_t colon = text.find_first_not_of(kSpaces, at + kName.size());
    if (colon == text.npos || text[colon] != ':') continue;
    const size_t begin = text.find_first_not_of(kSpaces, colon + 1);
    return std::string(text.substr(std::min(begin, text.size())));
  }
  return {};
}

}  // namespace

Completion::Completion(std::shared_ptr<Engine> engine, CompletionWorkers workers,
                       ExchangePtr exchange, CompletionRequest request,
                       std::unique_ptr<CompletionSink> sink)
    : engine_(std::move(engine)),
      workers_(workers),
      exchange_(std::move(exchange)),
      request_(std::move(request)),
      sink_(std::move(sink)) {}

Status Completion::start(std::shared_ptr<Engine> engine, CompletionWorkers workers,
                         ExchangePtr exchange, CompletionRequest request,
                         std::unique_ptr<CompletionSink> sink) {
  const std::shared_ptr<Completion> job(new Completion(
      std::move(engine), workers, std::move(exchange), std::move(request), std::move(sink)));
  const std::lock_guard lock(job->mutex_);
  const size_t count = job->request_.prompts.size() * static_cast<size_t>(job->request_.copies);
  for (size_t i = 0; i < count; ++i) {
    Choice choice;
    auto session = job->engine_->open_session({.adapters = job->request_.adapters});
    if (!session) return session.error();
    choice.session = *std::move(session);
    job->choices_.push_back(std::move(choice));
  }
  if (const Status begun = job->begin_more(); !begun.ok()) {
    if (!job->choices_[0].started) return begun;
    job->fail(begun);
  }
  job->alive_ = job;
  // The network's thread must not be the one that ends it: only a worker holds it.
  job->exchange_->watch([weak = std::weak_ptr(job), paused = job->paused_, quiet = job->quiet_,
                         &events = workers.events](Notice notice) {
    if (notice == Notice::taken && !*paused) return;
    if (notice == Notice::quiet) *quiet = true;
    events.post([weak] {
      if (const auto alive = weak.lock()) alive->wake();
    });
  });
  job->wake();
  return {};
}

/// The first answer to a prompt begins alone: the others then find the prompt in the cache.
Status Completion::begin_more() {
  const auto copies = static_cast<size_t>(request_.copies);
  while (begun_ < choices_.size() && choices_[begun_].started) ++begun_;
  for (size_t i = begun_; i < choices_.size() && running_ < request_.at_once; ++i) {
    if (choices_[i].started || (i % copies != 0 && !choices_[i - i % copies].told)) continue;
    if (Status begun = begin(i); !begun.ok()) return begun;
  }
  return {};
}

Status Completion::begin(size_t at) {
  Choice& choice = choices_[at];
  if (!request_.template_source.empty()) {
    auto parser =
        OutputParser::create(request_.template_source, request_.prompt_text, request_.output);
    if (!parser) return parser.error();
    choice.parser = *std::move(parser);
  }
  GenerateOptions options = request_.options;
  const auto copies = static_cast<size_t>(request_.copies);
  if (options.sampling.seed) *options.sampling.seed += at % copies;  // else all would be the same
  if (at % copies != 0) options.prompt_logprobs = -1;  // the first answer's session tells them
  const auto called = std::chrono::system_clock::now();
  const Status begun =
      choice.session->start(request_.prompts[at / copies], options, [weak = weak_from_this()] {
        if (const auto alive = weak.lock()) alive->wake();
      });
  choice.started = begun.ok();
  running_ += choice.started ? 1 : 0;
  if (choice.started) sink_->begun(static_cast<int>(at), called);
  return begun;
}

void Completion::wake() {
  if (scheduled_.exchange(true)) return;
  workers_.events.post([self = shared_from_this()] { self->drain(); });
}

void Completion::drain() {
  const std::lock_guard lock(mutex_);
  scheduled_ = false;
  if (alive_ == nullptr) return;
  try {
    take_events();
  } catch (const std::exception& failure) {
    // What could not be sent ends this request alone.
    try {
      fail({StatusCode::internal, failure.what()});
    } catch (const std::exception&) {
      exchange_->end();
    }
    wake();
  }
}

void Completion::take_events() {
  if (exchange_->closed() && !cancelled_) {
    cancelled_ = true;
    for (Choice& choice : choices_) {
      if (choice.session != nullptr) choice.session->cancel();
    }
  }
  if (workers_.ending && !cancelled_) fail({StatusCode::cancelled, "the server is ending"});
  if (quiet_->exchange(false) && !cancelled_ && !failed_) sink_->quiet();
  const auto may_send = [&] {
    if (cancelled_ || failed_ || exchange_->unsent() < kMostUnsent) return true;
    *paused_ = true;
    return exchange_->unsent() < kMostUnsent;  // if the reader has just caught up
  };
  *paused_ = false;
  for (size_t i = 0; i < choices_.size(); ++i) {
    while (may_send() && take_event(i)) {
    }
    // So that answers that are yet to begin find its pages free.
    if (choices_[i].ended) close(choices_[i]);
  }
  if (!failed_ && !cancelled_) {
    if (const Status begun = begin_more(); !begun.ok()) fail(begun);
  }
  if (running_ > 0) return;
  request_.place.reset();  // before a client that waits for the end can ask again
  if (!failed_ && !cancelled_) sink_->done(totals_);
  exchange_->watch({});
  for (Choice& choice : choices_) close(choice);
  alive_.reset();
}

void Completion::close(Choice& choice) {
  if (choice.session == nullptr) return;
  std::shared_ptr<Session> session = std::move(choice.session);
  workers_.handlers.post(
      [engine = engine_, exchange = exchange_, session]() mutable { session.reset(); });
}

bool Completion::take_event(size_t at) {
  Choice& choice = choices_[at];
  if (!choice.started || choice.ended) return false;
  auto next = choice.session->next(0);
  const auto end = [&] {
    choice.ended = true;
    --running_;
  };
  if (!next) {
    end();
    fail(next.error());
    return false;
  }
  if (!*next) return false;
  GenerateEvent& event = **next;
  const auto copies = static_cast<size_t>(request_.copies);
  if (event.of_prompt) {
    if (!failed_ && !cancelled_) {
      sink_->prompt_token(static_cast<int>(at / copies), event.log_probabilities);
    }
    return true;
  }
  const bool begins = !std::exchange(choice.told, true);
  values_ += event.log_probabilities.size();
  if (!event.log_probabilities.empty()) choice.tokens.push_back(std::move(event.log_probabilities));
  if (values_ > request_.most_values) {
    fail({StatusCode::invalid_argument,
          fmt::format("the answers have more than {} log-probabilities: ask for fewer, or for a "
                      "stream, which has no such limit",
                      request_.most_values)});
  }
  if (event.token >= 0) ++choice.held_tokens;
  if (event.token >= 0 && !choice.called) ++choice.tokens_to_call;
  if (!event.finished) {
    if (choice.parser == nullptr) {
      std::vector<OutputEvent> events;
      if (!event.text.empty() || !choice.tokens.empty()) {
        events.push_back({OutputEvent::Kind::content, std::move(event.text), {}});
      }
      deliver(at, std::move(events));
    } else if (auto events = choice.parser->push(event.text)) {
      deliver(at, *std::move(events));
    } else {
      fail(events.error());
    }
    return true;
  }
  end();
  if (!event.status.ok()) {
    fail(event.status, begins ? wrong_field(event.status) : "");
    return false;
  }
  if (choice.parser != nullptr) {
    if (auto events = choice.parser->finish()) deliver(at, *std::move(events));
    // Tokens without text: those of a stop string.
    if (request_.forced.empty() && !choice.tokens.empty()) {
      deliver(at, {{OutputEvent::Kind::content, "", {}}});
    }
  }
  if (!request_.forced.empty()) deliver_forced(at);
  if (choice.called) {
    event.result.reason = FinishReason::stop;
    event.result.stop_string.clear();
    // What was generated before the answer was cancelled depends on the time.
    event.result.generated_tokens = choice.tokens_to_call;
  }
  totals_.prompt_seconds = std::max(totals_.prompt_seconds, event.result.prompt_seconds);
  totals_.generate_seconds = std::max(totals_.generate_seconds, event.result.generate_seconds);
  totals_.generated_tokens += event.result.generated_tokens;
  if (at % copies == 0) {  // several answers to a prompt are one prompt
    totals_.cached_tokens += event.result.reused_tokens;
    totals_.prompt_tokens += event.result.prompt_tokens;
  }
  if (!failed_ && !cancelled_) sink_->finished(static_cast<int>(at), event.result);
  return false;
}

void Completion::deliver(size_t at, std::vector<OutputEvent> events) {
  if (failed_ || cancelled_) return;
  Choice& choice = choices_[at];
  for (const OutputEvent& event : events) {
    if (choice.called) return;
    const int64_t tokens = std::exchange(choice.held_tokens, 0);
    if (event.kind == OutputEvent::Kind::reasoning) totals_.reasoning_tokens += tokens;
    if (!request_.forced.empty() && event.kind == OutputEvent::Kind::content) {
      choice.forced += event.text;
      continue;
    }
    sink_->part(static_cast<int>(at), event, std::exchange(choice.tokens, {}));
    if (request_.one_call && event.kind == OutputEvent::Kind::tool_call) {
      choice.called = true;
      choice.session->cancel();
    }
  }
}

void Completion::deliver_forced(size_t at) {
  if (failed_ || cancelled_) return;
  Choice& choice = choices_[at];
  OutputEvent made{OutputEvent::Kind::content, "", {}};
  if (auto call = forced_call(choice.forced)) {
    made = {OutputEvent::Kind::tool_call, "", *std::move(call)};
  } else {
    made.text = request_.forced == "*" ? arguments_in(choice.forced) : choice.forced;
    if (made.text.empty() && choice.tokens.empty()) return;
  }
  sink_->part(static_cast<int>(at), made, std::exchange(choice.tokens, {}));
}

std::optional<ToolCall> Completion::forced_call(const std::string& text) const {
  const Json json = parse_json(text);
  if (!json.is_object()) return std::nullopt;
  if (request_.forced != "*") return ToolCall{"", request_.forced, text};
  const auto name = json.find("name");
  if (name == json.end() || !name->is_string()) return std::nullopt;
  const auto arguments = json.find("arguments");
  return ToolCall{"", name->get<std::string>(),
                  arguments == json.end() ? "{}" : write_json(*arguments)};
}

/// A grammar is looked at after the answer has begun.
std::string Completion::wrong_field(const Status& status) const {
  const bool refused =
      status.code() == StatusCode::invalid_argument || status.code() == StatusCode::unsupported;
  if (!refused) return "";
  return status.message().starts_with("the tool ") ? "tools" : request_.constraint_field;
}

void Completion::fail(const Status& status, const std::string& field) {
  if (std::exchange(failed_, true)) return;
  for (Choice& choice : choices_) {
    if (choice.started && !choice.ended) choice.session->cancel();
  }
  request_.place.reset();
  if (cancelled_) return;
  const Status shown = for_clients(status, engine_->model().path, request_.model);
  if (field.empty()) return sink_->failed(shown, field);
  sink_->failed({shown.code(), field + ": " + shown.message()}, field);
}

}  // namespace infer::server
