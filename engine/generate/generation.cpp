#include "engine/generate/generation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

namespace infer {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from,
                       std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

SpeculationStatistics statistics_of(const DraftStatistics& from) {
  SpeculationStatistics to{from.drafted,       from.accepted,      from.tokens, from.seconds,
                           from.draft_seconds, from.plain_seconds, {},          {}};
  for (size_t i = 0; i < from.reached.size() && from.reached[i] > 0; ++i) {
    to.places.push_back({from.reached[i], from.held[i]});
  }
  size_t lengths = from.lengths.size();
  while (lengths > 0 && from.lengths[lengths - 1].steps == 0) --lengths;
  for (const DraftStatistics::Length& length : std::span(from.lengths).first(lengths)) {
    to.lengths.push_back({length.steps, length.accepted, length.refused});
  }
  return to;
}

}  // namespace

Generation::Generation(const GenerateOptions& options, const Tokenizer& tokenizer,
                       Grammars& grammars, const SamplingParams& params)
    : options_(options),
      tokenizer_(tokenizer),
      grammars_(grammars),
      params_(params),
      chain_(params),
      greedy_(params.greedy()),
      decoder_(tokenizer, {options.special_text}),
      stops_(options.stop) {
  if (!is_early()) return;
  std::vector<int32_t> ending(options.stop_tokens);
  ending.insert(ending.end(), tokenizer.eog_tokens().begin(), tokenizer.eog_tokens().end());
  std::ranges::sort(ending);
  SamplingParams early = params;
  std::erase_if(early.logit_bias, [&](const LogitBias& bias) {
    return std::ranges::binary_search(ending, bias.token);
  });
  for (const int32_t token : ending) {
    early.logit_bias.push_back({token, -std::numeric_limits<float>::infinity()});
  }
  early_chain_.emplace(early);
}

bool Generation::ends(int32_t token, bool held) const {
  return ((!options_.ignore_end || held) && tokenizer_.is_eog(token)) ||
         std::ranges::find(options_.stop_tokens, token) != options_.stop_tokens.end();
}

void Generation::set_constraint(std::unique_ptr<Constraint> constraint) {
  constraint_ = std::move(constraint);
  if (drafting_) drafting_->constraint = constraint_.get();
}

Drafting* Generation::allow_drafts(int64_t sequence) {
  drafting_.emplace(params_);
  drafting_->id = sequence;
  drafting_->fixed = options_.draft_tokens;
  drafting_->constraint = constraint_.get();
  return &*drafting_;
}

/// The token, and whether the constraint allows it. What a constraint's call may add to its tables
/// is bounded; one call at a time bounds what all add together.
int32_t Generation::choose(const LogitRow& row, bool& allowed) {
  // Draws count on where a shift drops tokens: none is used twice.
  const SampleContext context{row.tokens, static_cast<int64_t>(row.tokens.size()) + row.shifted};
  SamplerChain& chain = is_early() ? *early_chain_ : chain_;
  allowed = true;
  if (constraint_ == nullptr) return chain.sample(row.logits, context, nullptr);
  std::unique_lock lock(grammars_.step_mutex(), std::defer_lock);
  if (!constraint_->mask_is_known()) lock.lock();
  const int32_t token = chain.sample(row.logits, context, constraint_.get());
  if (!lock.owns_lock()) lock.lock();
  allowed = constraint_->accept(token);
  grammars_.trim();
  return token;
}

GenerationStep Generation::step(const LogitRow& row) {
  GenerationStep made;
  if (counts_.generated_tokens == 0) {
    generating_ = Clock::now();
    counts_.prompt_seconds = seconds_between(start_, generating_);
  }
  reason_ = FinishReason::length;
  if (options_.max_tokens == 0) return made;
  bool allowed = true;
  const bool held = constraint_ != nullptr && !constraint_->is_free();
  const int32_t token = choose(row, allowed);
  const auto is_number = [](float x) { return std::isfinite(x); };
  if (token < 0 && std::ranges::any_of(row.logits, is_number)) {
    made.failure = error(StatusCode::invalid_argument, "no token may come next: {} all{}",
                         is_early() ? "logit_bias and min_tokens forbid" : "logit_bias forbids",
                         held ? " that the grammar allows" : "");
    return made;
  }
  if (token < 0 || !allowed) {
    made.failure = error(StatusCode::bad_file, "{}", kBadLogits);
    return made;
  }
  if (ends(token, held)) {
    reason_ = FinishReason::stop;
    return made;
  }
  last_ = token;
  ++counts_.generated_tokens;
  const bool is_last = counts_.generated_tokens == options_.max_tokens;
  made.made.text = decoder_.push(token);
  if (counts_.generated_tokens > options_.min_tokens) made.made.text = stops_.push(made.made.text);
  const bool complete = constraint_ != nullptr && constraint_->must_end();
  if (is_last || complete) made.made.text += rest();
  if (options_.logprobs >= 0) {
    made.made.log_probabilities = log_probabilities(row.logits, token, options_.logprobs);
  }
  const Clock::time_point now = Clock::now();
  if (counts_.generated_tokens == 1) counts_.first_token_seconds = seconds_between(start_, now);
  counts_.generate_seconds = seconds_between(generating_, now);
  made.has_token = true;
  made.made.token = token;
  made.made.generated_tokens = counts_.generated_tokens;
  made.made.prompt_seconds = counts_.prompt_seconds;
  made.made.generate_seconds = counts_.generate_seconds;
  made.made.first_token_seconds = counts_.first_token_seconds;
  const bool stopped = complete || stops_.found();
  if (stopped) reason_ = FinishReason::stop;
  made.goes_on = !is_last && !stopped;
  if (made.goes_on && drafting_) {
    drafting_->position = static_cast<int64_t>(row.tokens.size()) + row.shifted + 1;
    drafting_->wanted = options_.max_tokens < 0 ? std::numeric_limits<int64_t>::max()
                                                : options_.max_tokens - counts_.generated_tokens;
  }
  return made;
}

std::string Generation::rest() {
  std::string text = stops_.push(decoder_.finish());
  return text += stops_.finish();
}

void Generation::report(GenerateResult& result) const {
  result.reason = reason_;
  if (stops_.found()) result.stop_string = *stops_.found_string();
  result.generated_tokens = counts_.generated_tokens;
  result.prompt_seconds = counts_.prompt_seconds;
  result.generate_seconds = counts_.generate_seconds;
  result.first_token_seconds = counts_.first_token_seconds;
  if (drafting_) result.speculation = statistics_of(drafting_->statistics);
}

}  // namespace infer
