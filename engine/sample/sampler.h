// Chooses a token: a chain of samplers narrows the candidates, then one draw decides.
//
// The draw uses the Gumbel-max method (Gumbel 1954; Maddison et al. 2014): argmax(logit + noise)
// has the distribution of the softmax. The noise of a candidate depends only on (seed, position,
// token). So equal seeds give equal tokens, however tokens are batched. A drafter that uses the
// same noise agrees with the model as often as possible.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/exec/logits_needed.h"
#include "engine/sample/constraint.h"
#include "engine/sample/logit_blocks.h"

namespace infer {

/// Input of the samplers besides the candidates.
struct SampleContext {
  std::span<const int32_t> history;  ///< the sequence's tokens so far
  int64_t position = 0;              ///< of the token to choose; selects the noise
};

/// How the logit x of a token changes: to (x > 0 ? x / repeat : x·repeat) + add.
struct LogitChange {
  int32_t token;
  float repeat = 1.0f;  ///< above 0
  float add = 0.0f;
};

float changed(float logit, const LogitChange& change);

/// Changes the logits of a few tokens, independently of the other logits.
class LogitEdit {
 public:
  virtual ~LogitEdit() = default;
  /// Sets `to` to the changes, ordered by token, each token at most once. Some tokens may be
  /// outside the vocabulary.
  virtual void changes(const SampleContext& context, std::vector<LogitChange>& to) const = 0;
};

// Each in its own file.

struct Penalties {
  float repeat = 1.0f;     ///< divides positive and multiplies negative logits (Keskar et al. 2019)
  float frequency = 0.0f;  ///< subtracted for every occurrence
  float presence = 0.0f;   ///< subtracted once
  int32_t last = 64;       ///< tokens to look back; −1: all
};
/// Makes the tokens of the recent history less likely.
std::unique_ptr<LogitEdit> make_penalties(const Penalties& penalties);

struct LogitBias {
  int32_t token;
  float bias;  ///< −infinity forbids the token; +infinity: see SamplerChain
};
/// Adds to the logits of some tokens. Ignores biases of +infinity, which SamplerChain handles.
std::unique_ptr<LogitEdit> make_logit_bias(std::vector<LogitBias> biases);

/// "Don't repeat yourself" (p-e-w 2024): if the last n ≥ allowed tokens occurred earlier in the
/// history, the token that followed them there loses multiplier·base^(n − allowed).
struct Dry {
  float multiplier = 0.0f;  ///< 0: off
  float base = 1.75f;
  int32_t allowed = 2;  ///< length of a repeat without penalty
  int32_t last = -1;    ///< tokens to look back; −1: all
  /// True for tokens that end a repeated sequence. Empty: no token does.
  std::function<bool(int32_t token)> breaks;
};
std::unique_ptr<LogitEdit> make_dry(Dry dry);

/// One step of the chain. Removes candidates or changes logits; leaves at least one.
class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual void apply(std::vector<Candidate>& candidates, const SampleContext& context) const = 0;
};

// Each in its own file. The candidates may be in any order, before and after.

/// Keeps the k largest.
std::unique_ptr<Sampler> make_top_k(int32_t k);
/// Keeps the smallest set of the most likely whose probability reaches p (Holtzman et al. 2020).
std::unique_ptr<Sampler> make_top_p(float p);
/// Keeps the fewest most likely candidates whose sum of exp(logit − best) reaches `enough`. `best`
/// is the largest logit. `cut`: done. `unsure`: their sum is below `surely`. `open`: the sum of all
/// candidates is below `enough`. After `unsure` and `open` all candidates are still there, in any
/// order.
enum class Nucleus : uint8_t { cut, unsure, open };
Nucleus cut_nucleus(std::vector<Candidate>& candidates, float best, double enough, double surely);
/// Keeps the tokens whose information is nearest the expected one until their probability reaches p
/// (Meister et al. 2023, locally typical sampling).
std::unique_ptr<Sampler> make_typical(float p);
/// Keeps those at least p times as likely as the most likely (Nguyen et al. 2024).
std::unique_ptr<Sampler> make_min_p(float p);
/// Keeps logits within n standard deviations of all logits from the largest (Tang et al. 2024).
std::unique_ptr<Sampler> make_top_n_sigma(float n);
/// "Exclude top choices" (p-e-w 2024): with probability `chance`, removes all tokens that are at
/// least `threshold` likely, except the least likely of them.
struct Xtc {
  float chance = 0.0f;     ///< 0: off
  float threshold = 0.1f;  ///< above one half nothing is ever removed
};
std::unique_ptr<Sampler> make_xtc(const Xtc& xtc, uint64_t seed);

struct Temperature {
  float value = 0.8f;  ///< 0: the most likely token
  /// If above 0, the temperature varies from max(0, value − range), when one token is certain, to
  /// value + range, when all are equally likely. In between it follows (entropy / largest entropy)
  /// to the power of `exponent` (dynamic temperature, kalomaze 2023).
  float range = 0.0f;
  float exponent = 1.0f;
};
/// Divides logits by the temperature. At temperature 0 keeps only the most likely token.
std::unique_ptr<Sampler> make_temperature(const Temperature& temperature);
/// A sampler that applies an edit, for edits that come after other samplers.
std::unique_ptr<Sampler> make_edit_sampler(std::unique_ptr<LogitEdit> edit);

/// Keeps the surprise (−log2 of the probability) of the drawn tokens near a target (Basu et al.
/// 2021). Version 1 derives the number of candidates to keep. Version 2 removes candidates whose
/// surprise is above a limit, which is adjusted after each draw.
struct Mirostat {
  int32_t version = 0;  ///< 0: off
  float target = 5.0f;
  float rate = 0.1f;  ///< of learning
};
class MirostatState {
 public:
  explicit MirostatState(const Mirostat& settings)
      : settings_(settings), limit_(2 * settings.target) {}
  /// Removes candidates and sorts the rest, largest logit first. `vocabulary`: number of tokens.
  void cut(std::vector<Candidate>& candidates, int64_t vocabulary) const;
  /// Adjusts the limit: `token` was drawn from the candidates that cut() left.
  void drawn(const std::vector<Candidate>& candidates, int32_t token);

 private:
  Mirostat settings_;
  double limit_;
};

/// Steps of the chain that can be put in any order.
enum class Step : uint8_t {
  penalties,
  dry,
  top_n_sigma,
  top_k,
  typical_p,
  top_p,
  min_p,
  xtc,
  temperature
};
/// The step with this name in options and model files; "typ_p" and "temp" are known too. Nothing if
/// unknown.
std::optional<Step> step_of(std::string_view name);
/// All steps, in the order of the enum.
std::vector<Step> usual_order();

/// All settings of a chain.
struct SamplingParams {
  /// Each step at most once. Steps left out are off, except that a temperature of 0 always applies.
  std::vector<Step> order = usual_order();
  Temperature temperature;
  int32_t top_k = 0;         ///< 0: off
  float top_p = 0.95f;       ///< ≥ 1: off
  float min_p = 0.05f;       ///< 0: off
  float typical_p = 1.0f;    ///< ≥ 1: off
  float top_n_sigma = 0.0f;  ///< 0: off
  Xtc xtc;
  Mirostat mirostat;  ///< replaces all steps except penalties, dry and temperature
  Penalties penalties;
  Dry dry;
  std::vector<LogitBias> logit_bias;
  uint64_t seed = 0;
};

/// Applies the logit bias, then the steps in their order, then draws.
///
/// If some tokens have a bias of +infinity, only these can be drawn; the chain chooses among them
/// by their logits. Such a token does not count if the constraint does not allow it.
///
/// The result equals running the samplers one after another and drawing with gumbel_noise(). The
/// chain only skips tokens early that could not be drawn anyway. Not thread-safe.
class SamplerChain {
 public:
  explicit SamplerChain(const SamplingParams& params);

  /// Chooses the token for context.position. NaN logits are never chosen; −1 if all are NaN. With a
  /// constraint, tokens that it does not allow have probability 0. The caller tells the constraint
  /// about the token (Constraint::accept).
  int32_t sample(std::span<const float> logits, const SampleContext& context,
                 Constraint* constraint = nullptr);

  /// What sample() needs of a row to choose the same token, if there is no constraint.
  LogitsNeeded needed() const;

  uint64_t seed() const { return params_.seed; }
  /// Probability of the last chosen token by the logits after edits and constraint, before any
  /// sampler. The logits given to sample() must still be valid.
  float last_probability() const;

 private:
  /// How tokens can be skipped early.
  enum class Shortcut : uint8_t {
    none,
    top_k,  ///< the first sampler is top-k
    floor,  ///< all samplers are of top-p, min-p and temperature, in this order
  };

  void add(Step step);
  bool has(Step step) const;
  bool greedy() const;
  std::span<const float> edited(std::span<const float> logits, const SampleContext& context);
  std::span<const float> masked(std::span<const float> logits, const TokenMask& mask);
  bool force(std::span<const float>& logits, const Constraint* constraint);
  int32_t choose(std::span<const float> logits, const SampleContext& context,
                 Constraint* constraint);
  /// Fills candidates_ with every token that could be drawn. Returns the index of the first sampler
  /// that still has to run.
  size_t choose_candidates();
  size_t choose_all();
  bool choose_nucleus(float floor);
  int32_t draw(int64_t position) const;

  SamplingParams params_;
  std::vector<std::unique_ptr<LogitEdit>> edits_;  ///< before all samplers
  std::vector<std::unique_ptr<Sampler>> samplers_;
  std::vector<Step> active_;  ///< the steps of samplers_
  Shortcut shortcut_ = Shortcut::none;
  MirostatState mirostat_;
  std::vector<int32_t> forced_;  ///< tokens with a bias of +infinity
  std::vector<float> edited_;
  std::vector<float> only_forced_;
  std::vector<LogitChange> changes_;
  LogitBlocks blocks_;
  std::vector<Candidate> candidates_;
  float chosen_ = 0;  ///< logit of the last token
};

/// Standard Gumbel noise of a token at a position.
double gumbel_noise(uint64_t seed, int64_t position, int32_t token);
/// A uniform number in (0, 1), independent of gumbel_noise(), for a sampler's own decision at a
/// position.
double uniform_draw(uint64_t seed, int64_t position);

}  // namespace infer
