// One generation: from the logits after each token to the next token and the text that it
// completes.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/generate/grammars.h"
#include "engine/generate/outcome.h"
#include "engine/sample/constraint.h"
#include "engine/sample/logprobs.h"
#include "engine/sample/sampler.h"
#include "engine/spec/speculator.h"
#include "engine/text/stop_strings.h"
#include "engine/text/stream_decoder.h"
#include "engine/text/tokenizer.h"
#include "infer/infer.hpp"

namespace infer {

/// A token, what it completed, and how far the generation is with it.
struct GeneratedToken {
  int32_t token = -1;
  std::string text;  ///< whole UTF-8 characters; may be empty
  std::vector<LogProbability> log_probabilities;
  int64_t generated_tokens = 0;
  double prompt_seconds = 0;
  double generate_seconds = 0;
  double first_token_seconds = 0;
};

/// What one row of logits led to.
struct GenerationStep {
  bool has_token = false;  ///< whether `made` is to be told
  GeneratedToken made;
  bool goes_on = false;  ///< the token is computed next, then comes another
  Status failure;
};

/// Samples, holds the text to a grammar, decodes, looks for stop strings and counts. One thread at
/// a time; different generations of one engine on different threads.
class Generation {
 public:
  /// What it refers to outlives it.
  Generation(const GenerateOptions& options, const Tokenizer& tokenizer, Grammars& grammars,
             const SamplingParams& params);

  /// Before the first step. Null: no constraint.
  void set_constraint(std::unique_ptr<Constraint> constraint);
  Constraint* constraint() { return constraint_.get(); }
  /// Whether the next step will want the constraint's mask: without sampling it is needed only
  /// where the most likely token is not allowed.
  bool wants_mask() const { return constraint_ != nullptr && !greedy_; }
  /// Where tokens may be proposed for it. Null: no drafters are asked.
  Drafting* allow_drafts(int64_t sequence);

  /// Chooses the token after the last of row.tokens.
  GenerationStep step(const LogitRow& row);
  /// The text that is held back, at the end.
  std::string rest();

  FinishReason reason() const { return reason_; }
  int64_t generated_tokens() const { return counts_.generated_tokens; }
  /// The last token that a step made: not part of the sequence yet if the sequence ended with it.
  int32_t last() const { return last_; }
  /// Writes the counts, times and what speculation did.
  void report(GenerateResult& result) const;

 private:
  int32_t choose(const LogitRow& row, bool& allowed);

  const GenerateOptions& options_;
  const Tokenizer& tokenizer_;
  Grammars& grammars_;
  SamplingParams params_;
  SamplerChain chain_;
  bool greedy_;
  std::unique_ptr<Constraint> constraint_;
  StreamDecoder decoder_;
  StopStrings stops_;
  std::optional<Drafting> drafting_;
  FinishReason reason_ = FinishReason::length;
  GeneratedToken counts_;
  int32_t last_ = -1;
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  Clock::time_point generating_ = start_;
};

}  // namespace infer
