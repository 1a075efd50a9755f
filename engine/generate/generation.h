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

/// What is wrong with a row of logits that holds no number; a message puts the model before it.
inline constexpr const char* kBadLogits =
    "the model's logits are not numbers: its weights are damaged, or hold values beyond what "
    "float32 "
    "can compute with; --check-tensors says whether the weights are numbers";

/// A generated token, and the state of the generation after it.
struct GeneratedToken {
  int32_t token = -1;
  bool of_prompt = false;  ///< it was given: only `log_probabilities` is set besides
  std::string text;        ///< the text that it completes: whole UTF-8 characters, possibly none
  std::vector<LogProbability> log_probabilities;
  int64_t generated_tokens = 0;
  double prompt_seconds = 0;
  double generate_seconds = 0;
  double first_token_seconds = 0;
};

/// The result of one row of logits.
struct GenerationStep {
  bool has_token = false;  ///< `made` holds a token for the reader
  GeneratedToken made;
  bool goes_on = false;  ///< true: the token is computed next, and another one follows
  Status failure;
};

/// Samples, applies the grammar, decodes, looks for stop strings and counts. One thread at a time.
/// Different generations of one engine may be on different threads.
class Generation {
 public:
  /// All references must outlive the object.
  Generation(const GenerateOptions& options, const Tokenizer& tokenizer, Grammars& grammars,
             const SamplingParams& params);

  /// Called before the first step. Null: no constraint.
  void set_constraint(std::unique_ptr<Constraint> constraint);
  Constraint* constraint() { return constraint_.get(); }
  /// True if the next step will need the constraint's mask. Greedy decoding needs it only if the
  /// most likely token is not allowed.
  bool wants_mask() const { return constraint_ != nullptr && !greedy_ && !constraint_->is_free(); }
  /// What of a row decides the next token.
  LogitsNeeded needed() const {
    return is_held() || is_early() || options_.logprobs >= 0 ? LogitsNeeded() : chain_.needed();
  }
  /// Allows drafted tokens for this generation. `sequence`: its id for the drafters. Returns the
  /// state of the drafts, which lives as long as the generation.
  Drafting* allow_drafts(int64_t sequence);

  /// Chooses the token after the last of row.tokens.
  GenerationStep step(const LogitRow& row);
  /// At the end: the text that was held back.
  std::string rest();

  FinishReason reason() const { return reason_; }
  int64_t generated_tokens() const { return counts_.generated_tokens; }
  /// The last token of step(). If the sequence ended with it, it is not part of the sequence.
  int32_t last() const { return last_; }
  /// Writes the counts, the times and the statistics of speculation.
  void report(GenerateResult& result) const;

 private:
  /// Whether the constraint may have a say in one of the next step's tokens. A free text becomes a
  /// held one only behind a mark, which one token seldom spells.
  bool is_held() const {
    return constraint_ != nullptr &&
           (!constraint_->is_free() || !constraint_->mask_is_known() || drafting_);
  }
  /// Whether the text may not end yet.
  bool is_early() const { return counts_.generated_tokens < options_.min_tokens; }
  /// Whether the text ends before this token.
  bool ends(int32_t token, bool held) const;
  int32_t choose(const LogitRow& row, bool& allowed);

  const GenerateOptions& options_;
  const Tokenizer& tokenizer_;
  Grammars& grammars_;
  SamplingParams params_;
  SamplerChain chain_;
  std::optional<SamplerChain> early_chain_;  ///< in place of chain_ while is_early()
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
