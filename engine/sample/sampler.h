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
  int64_t vocabulary = 0;            ///< number of logits; SamplerChain sets it
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

struct LogitBias {
  int32_t token;
  float bias;  ///< −infinity forbids the token; +infinity: see SamplerChain
};
/// Adds to the logits of some tokens. Ignores biases of +infinity, which SamplerChain handles.
std::unique_ptr<LogitEdit> make_logit_bias(std::vector<LogitBias> biases);

/// Removes candidates or changes logits; leaves at least one. The candidates may be in any order,
/// before and after.
class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual void apply(std::vector<Candidate>& candidates, const SampleContext& context) = 0;
  /// `token` was drawn from the candidates that the whole chain left. For samplers that learn from
  /// it.
  virtual void drawn(const std::vector<Candidate>& candidates, int32_t token) {
    static_cast<void>(candidates);
    static_cast<void>(token);
  }
};

/// Steps of the chain that can be put in any order.
enum class Step : uint8_t {
#define INFER_SAMPLER(name, makes, with_mirostat) name,
#include "infer/samplers.def"
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
#define INFER_SAMPLING(type, name, preset, ...) type name = preset;
#include "infer/samplers.def"
  /// True for tokens that end a sequence that DRY looks for. Empty: no token does.
  std::function<bool(int32_t token)> dry_breaks;
  std::vector<LogitBias> logit_bias;
  uint64_t seed = 0;

  /// The most likely token is always taken.
  bool greedy() const { return temperature <= 0 && dynamic_range <= 0; }
};

// The steps, each in its own file: top_k_step() and so on. Null if the settings turn the step off.
#define INFER_SAMPLER(name, makes, with_mirostat) \
  std::unique_ptr<makes> name##_step(const SamplingParams& params);
#include "infer/samplers.def"

/// The last sampler if params.mirostat is not 0; otherwise null.
std::unique_ptr<Sampler> make_mirostat(const SamplingParams& params);
/// A sampler that applies an edit, for edits that come after other samplers.
std::unique_ptr<Sampler> make_edit_sampler(std::unique_ptr<LogitEdit> edit);

/// Keeps the fewest most likely candidates whose sum of exp(logit − best) reaches `enough`. `best`
/// is the largest logit. `cut`: done. `unsure`: their sum is below `surely`. `open`: the sum of all
/// candidates is below `enough`. After `unsure` and `open` all candidates are still there, in any
/// order.
enum class Nucleus : uint8_t { cut, unsure, open };
Nucleus cut_nucleus(std::vector<Candidate>& candidates, float best, double enough, double surely);

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

  void add(Step step, std::unique_ptr<LogitEdit> edit);
  void add(Step step, std::unique_ptr<Sampler> sampler);
  bool has(Step step) const;
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
  std::vector<Step> active_;  ///< the steps of samplers_, without mirostat
  Shortcut shortcut_ = Shortcut::none;
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
