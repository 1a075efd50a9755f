// Choosing a token: a chain of samplers narrows the candidates, then one draw decides.
//
// Draws are counter-based: the noise of a candidate depends on (seed, position, token) alone, by
// the Gumbel-max method (Gumbel 1954; Maddison et al. 2014): argmax(logit + g) is distributed as
// the softmax. So equal seeds give equal tokens whatever the batching, and a drafter that uses the
// same noise agrees as often as can be.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/sample/logit_blocks.h"

namespace infer {

/// What a sampler may look at besides the candidates.
struct SampleContext {
  std::span<const int32_t> history;  ///< the sequence's tokens so far
};

/// Changes logits before anything is removed; logits[token].
class LogitEdit {
 public:
  virtual ~LogitEdit() = default;
  virtual void apply(std::span<float> logits, const SampleContext& context) const = 0;
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
  float bias;  ///< −infinity forbids the token
};
/// Adds to the logits of some tokens; those outside the vocabulary are passed over.
std::unique_ptr<LogitEdit> make_logit_bias(std::vector<LogitBias> biases);

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
/// Divides logits by t > 0.
std::unique_ptr<Sampler> make_temperature(float t);

/// Settings, all resolved.
struct SamplingParams {
  float temperature = 0.8f;  ///< 0: greedy
  int32_t top_k = 0;         ///< 0: off
  float top_p = 0.95f;       ///< ≥ 1: off
  float min_p = 0.05f;       ///< 0: off
  float typical_p = 1.0f;    ///< ≥ 1: off
  Penalties penalties;
  std::vector<LogitBias> logit_bias;
  uint64_t seed = 0;
};

/// Logit bias and penalties, then top-k, typical, top-p, min-p, temperature, then the draw. What is
/// drawn is what the samplers one after another would leave and gumbel_noise decide; tokens that
/// cannot be drawn are passed over early.
class SamplerChain {
 public:
  explicit SamplerChain(const SamplingParams& params);

  /// The token for `position` of the sequence. Logits that are not a number never win; −1 if none
  /// is a number.
  int32_t sample(std::span<const float> logits, int64_t position, const SampleContext& context);

  uint64_t seed() const { return params_.seed; }

 private:
  /// Fills candidates_ with all that the samplers from the one returned on may leave and the draw
  /// choose.
  size_t choose_candidates();
  bool choose_nucleus(float floor);
  int32_t draw(int64_t position) const;

  SamplingParams params_;
  std::vector<std::unique_ptr<LogitEdit>> edits_;
  std::vector<std::unique_ptr<Sampler>> samplers_;
  std::vector<float> edited_;
  LogitBlocks blocks_;
  std::vector<Candidate> candidates_;
};

/// Standard Gumbel noise of a token at a position.
double gumbel_noise(uint64_t seed, int64_t position, int32_t token);

}  // namespace infer
