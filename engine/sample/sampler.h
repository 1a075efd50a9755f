// Choosing a token: a chain of samplers narrows the candidates, then one draw decides.
//
// Draws are counter-based: the noise of a candidate depends on (seed, position, token) alone, by
// the Gumbel-max method (Gumbel 1954; Maddison et al. 2014): argmax(logit + g) is distributed as
// the softmax. So equal seeds give equal tokens whatever the batching, and a drafter that uses the
// same noise agrees as often as can be.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/sample/constraint.h"
#include "engine/sample/logit_blocks.h"

namespace infer {

/// What a sampler may look at besides the candidates.
struct SampleContext {
  std::span<const int32_t> history;  ///< the sequence's tokens so far
  int64_t position = 0;              ///< of the token to choose, which its draws depend on
};

/// How the logit x of a token changes: to (x > 0 ? x / repeat : x·repeat) + add.
struct LogitChange {
  int32_t token;
  float repeat = 1.0f;  ///< above 0
  float add = 0.0f;
};

float changed(float logit, const LogitChange& change);

/// Changes the logits of a few tokens, whatever the others are.
class LogitEdit {
 public:
  virtual ~LogitEdit() = default;
  /// Replaces `to`: in order of tokens, none twice; some may be outside the vocabulary.
  virtual void changes(const SampleContext& context, std::vector<LogitChange>& to) const = 0;
};

// Each in its own file.

struct Penalties {
  float repeat = 1.0f;     ///< divides positive and multiplies negative logits (Keskar et al. 2019)
  float frequency = 0.0f;  ///< subtracted for every occurrence
  float presence = 0.0f;   ///< subtracted once
  int32_t last = 64;       ///< tokens looked back on; −1: all
};
/// Makes the tokens of the recent history less likely.
std::unique_ptr<LogitEdit> make_penalties(const Penalties& penalties);

struct LogitBias {
  int32_t token;
  float bias;  ///< −infinity forbids the token; +infinity: see SamplerChain
};
/// Adds to the logits of some tokens. Biases of +infinity are passed over.
std::unique_ptr<LogitEdit> make_logit_bias(std::vector<LogitBias> biases);

/// "Don't repeat yourself" (p-e-w 2024): where the last n tokens stood in the history before, what
/// followed them there loses multiplier·base^(n − allowed) for n ≥ allowed.
struct Dry {
  float multiplier = 0.0f;  ///< 0: off
  float base = 1.75f;
  int32_t allowed = 2;  ///< tokens that may be repeated freely
  int32_t last = -1;    ///< tokens looked back on; −1: all
  /// Whether repetitions are not followed across a token; empty: across all.
  std::function<bool(int32_t token)> breaks;
};
std::unique_ptr<LogitEdit> make_dry(Dry dry);

/// One step of the chain. Removes candidates or changes logits; leaves at least one.
class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual void apply(std::vector<Candidate>& candidates, const SampleContext& context) const = 0;
};

// Each in its own file. They need no order among the candidates and promise none.

/// Keeps the k largest.
std::unique_ptr<Sampler> make_top_k(int32_t k);
/// Keeps the smallest set of the most likely whose probability reaches p (Holtzman et al. 2020).
std::unique_ptr<Sampler> make_top_p(float p);
/// Cuts candidates, of which `best` is the largest logit, after the most likely whose sum of
/// exp(logit − best) reaches `enough`. `unsure` if `surely` as well is not reached there, and where
/// the sum does not even reach `enough`, `open`; either leaves all candidates, in some order.
enum class Nucleus : uint8_t { cut, unsure, open };
Nucleus cut_nucleus(std::vector<Candidate>& candidates, float best, double enough, double surely);
/// Keeps the tokens whose information is nearest the expected one until their probability reaches p
/// (Meister et al. 2023, locally typical sampling).
std::unique_ptr<Sampler> make_typical(float p);
/// Keeps those at least p times as likely as the most likely (Nguyen et al. 2024).
std::unique_ptr<Sampler> make_min_p(float p);
/// Keeps logits within n standard deviations of all logits from the largest (Tang et al. 2024).
std::unique_ptr<Sampler> make_top_n_sigma(float n);
/// "Exclude top choices" (p-e-w 2024): with probability `chance`, of the tokens that are at least
/// `threshold` likely only the least likely stays.
struct Xtc {
  float chance = 0.0f;     ///< 0: off
  float threshold = 0.1f;  ///< above one half there is nothing to remove
};
std::unique_ptr<Sampler> make_xtc(const Xtc& xtc, uint64_t seed);

struct Temperature {
  float value = 0.8f;  ///< 0: the most likely token
  /// Where above 0 the temperature goes from value − range (not below 0) where one token is certain
  /// to value + range where all are alike, as the entropy's share of its largest to the power of
  /// `exponent` (dynamic temperature, kalomaze 2023).
  float range = 0.0f;
  float exponent = 1.0f;
};
/// Divides logits by the temperature; where that is 0 the most likely token alone stays.
std::unique_ptr<Sampler> make_temperature(const Temperature& temperature);
/// The same for the edits that come after other samplers.
std::unique_ptr<Sampler> make_edit_sampler(std::unique_ptr<LogitEdit> edit);

/// Holds the surprise (−log2 of the probability) of the tokens drawn near a target (Basu et al.
/// 2021): version 1 derives from it how many candidates to keep, version 2 removes those that are
/// more surprising than a limit which follows what was drawn.
struct Mirostat {
  int32_t version = 0;  ///< 0: off
  float target = 5.0f;
  float rate = 0.1f;  ///< of learning
};
class MirostatState {
 public:
  explicit MirostatState(const Mirostat& settings)
      : settings_(settings), limit_(2 * settings.target) {}
  /// Of a vocabulary of that size; the candidates are then in descending order.
  void cut(std::vector<Candidate>& candidates, int64_t vocabulary) const;
  /// Told which of the candidates that cut() left was drawn.
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
/// As written in options and model files ("typ_p" and "temp" count as well); nothing if unknown.
std::optional<Step> step_of(std::string_view name);
/// All of them, as they are listed.
std::vector<Step> usual_order();

/// Settings, all resolved.
struct SamplingParams {
  /// Each at most once; what is not named is left out, except that a temperature of 0 always
  /// counts.
  std::vector<Step> order = usual_order();
  Temperature temperature;
  int32_t top_k = 0;         ///< 0: off
  float top_p = 0.95f;       ///< ≥ 1: off
  float min_p = 0.05f;       ///< 0: off
  float typical_p = 1.0f;    ///< ≥ 1: off
  float top_n_sigma = 0.0f;  ///< 0: off
  Xtc xtc;
  Mirostat mirostat;  ///< instead of all steps but penalties, dry and temperature
  Penalties penalties;
  Dry dry;
  std::vector<LogitBias> logit_bias;
  uint64_t seed = 0;
};

/// Logit bias, the steps in their order, then the draw. Where tokens have a bias of +infinity all
/// others are impossible: of several the chain chooses by their logits. Such tokens that the
/// constraint does not allow do not count. What is drawn is what the samplers one
/// after another would leave and gumbel_noise decide; tokens that cannot be drawn are passed over
/// early.
class SamplerChain {
 public:
  explicit SamplerChain(const SamplingParams& params);

  /// The token for context.position of the sequence. Logits that are not a number never win; −1 if
  /// none is a number. With a constraint, as if the tokens that it does not allow had a probability
  /// of 0; it is not told the token.
  int32_t sample(std::span<const float> logits, const SampleContext& context,
                 Constraint* constraint = nullptr);

  uint64_t seed() const { return params_.seed; }
  /// How likely the token last chosen was by the logits alone, edits and constraint counted, before
  /// any sampler. The logits given then are still there.
  float last_probability() const;

 private:
  /// Which tokens may be passed over.
  enum class Shortcut : uint8_t {
    none,
    top_k,  ///< that sampler is the first
    floor,  ///< the samplers are top-p, min-p and temperature, in this order, or some of them
  };

  void add(Step step);
  bool has(Step step) const;
  bool greedy() const;
  std::span<const float> edited(std::span<const float> logits, const SampleContext& context);
  std::span<const float> masked(std::span<const float> logits, const TokenMask& mask);
  bool force(std::span<const float>& logits, const Constraint* constraint);
  int32_t choose(std::span<const float> logits, const SampleContext& context,
                 Constraint* constraint);
  /// Fills candidates_ with all that the samplers from the one returned on may leave and the draw
  /// choose.
  size_t choose_candidates();
  size_t choose_all();
  bool choose_nucleus(float floor);
  int32_t draw(int64_t position) const;

  SamplingParams params_;
  std::vector<std::unique_ptr<LogitEdit>> edits_;  ///< before all samplers
  std::vector<std::unique_ptr<Sampler>> samplers_;
  std::vector<Step> active_;  ///< what they are
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
/// Even in (0, 1), and independent of the noise: for a sampler's own decision at a position.
double uniform_draw(uint64_t seed, int64_t position);

}  // namespace infer
