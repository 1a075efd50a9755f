#include "server/trace/traced_sink.h"

#include <algorithm>

namespace infer::server {
namespace {

WallClock::duration seconds(double time) {
  return std::chrono::duration_cast<WallClock::duration>(std::chrono::duration<double>(time));
}

template <typename T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

const char* reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop: return "stop";
    case FinishReason::cancelled: return "cancelled";
    default: return "length";
  }
}

}  // namespace

TracedSink::TracedSink(std::unique_ptr<CompletionSink> sink, TraceExporter& exporter,
                       const ExchangePtr& exchange, const std::string& model,
                       const CompletionRequest& request)
    : sink_(std::move(sink)),
      exporter_(exporter),
      context_(*exchange->request().trace),
      came_(WallClock::now() - seconds(exchange->seconds())) {
  const std::string operation = request.template_source.empty() ? "text_completion" : "chat";
  const GenerateOptions& options = request.options;
  const SamplingOptions& sampling = options.sampling;
  span_ = child_of(context_, context_.span_id, operation + " " + model);
  span_.start = came_;
  const size_t answers = request.prompts.size() * static_cast<size_t>(request.copies);
  reasons_.assign(answers, "");
  begun_.assign(answers, came_);
  span_.attributes = {
      {"gen_ai.operation.name", operation},
      {"gen_ai.provider.name", "infer"},
      {"gen_ai.request.model", model},
      {"gen_ai.response.model", model},
      {"gen_ai.request.choice.count", answers > 1 ? Json(answers) : Json()},
      {"gen_ai.request.max_tokens", options.max_tokens < 0 ? Json() : Json(options.max_tokens)},
      {"gen_ai.request.seed", sampling.seed ? Json(static_cast<int64_t>(*sampling.seed)) : Json()},
      {"gen_ai.request.temperature", known(sampling.temperature)},
      {"gen_ai.request.top_k", known(sampling.top_k)},
      {"gen_ai.request.top_p", known(sampling.top_p)},
      {"gen_ai.request.frequency_penalty", known(sampling.frequency_penalty)},
      {"gen_ai.request.presence_penalty", known(sampling.presence_penalty)},
      {"gen_ai.output.type",
       options.json_schema.empty() && !request.output.or_calls ? "text" : "json"}};
}

TracedSink::~TracedSink() {
  span_.end = WallClock::now();
  if (!ended_) {
    span_.failed = true;
    span_.attributes["error.type"] = any_begun_ ? "cancelled" : "refused";
  }
  try {
    std::vector<Span> all = phases(span_);
    all.push_back(std::move(span_));
    exporter_.put(std::move(all));
  } catch (const std::bad_alloc&) {
    // Without a trace, then.
  }
}

std::vector<Span> TracedSink::phases(const Span& whole) const {
  std::vector<Span> all;
  const auto add = [&](const char* name, Time from, const std::optional<Time>& to) {
    if (!to) return;
    Span phase = child_of(context_, whole.span_id, name);
    phase.start = from;
    phase.end = *to;
    all.push_back(std::move(phase));
  };
  add("queue", came_, computed_);
  if (computed_) add("prompt", *computed_, told_);
  if (told_) add("generation", *told_, last_);
  return all;
}

void TracedSink::begun(int choice, WallClock::time_point at) {
  any_begun_ = true;
  begun_[static_cast<size_t>(choice)] = at;
  sink_->begun(choice, at);
}

void TracedSink::prompt_token(int prompt, const TokenChoices& choices) {
  sink_->prompt_token(prompt, choices);
}

void TracedSink::part(int choice, const OutputEvent& event, std::vector<TokenChoices> tokens) {
  sink_->part(choice, event, std::move(tokens));
}

void TracedSink::finished(int choice, const GenerateResult& result) {
  const auto at = static_cast<size_t>(choice);
  const Time begun = begun_[at];
  const auto first = [](std::optional<Time>& to, Time time) {
    to = to ? std::min(*to, time) : time;
  };
  first(computed_, begun + seconds(result.queue_seconds));
  const Time end = begun + seconds(result.prompt_seconds + result.generate_seconds);
  first(told_, result.generated_tokens > 0 ? begun + seconds(result.first_token_seconds) : end);
  if (result.generated_tokens > 0) last_ = last_ ? std::max(*last_, end) : end;
  reasons_[at] = reason_name(result.reason);
  sink_->finished(choice, result);
}

void TracedSink::done(const CompletionTotals& totals) {
  ended_ = true;
  span_.attributes["gen_ai.response.finish_reasons"] = reasons_;
  span_.attributes["gen_ai.usage.input_tokens"] = totals.prompt_tokens;
  span_.attributes["gen_ai.usage.cache_read.input_tokens"] = totals.cached_tokens;
  span_.attributes["gen_ai.usage.output_tokens"] = totals.generated_tokens;
  sink_->done(totals);
}

void TracedSink::failed(const Status& status, const std::string& field) {
  ended_ = true;
  span_.failed = true;
  span_.attributes["error.type"] = status_code_name(status.code());
  sink_->failed(status, field);
}

}  // namespace infer::server
