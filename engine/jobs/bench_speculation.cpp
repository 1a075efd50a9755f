// What drafters gain, on real text: generations with and without them in turns.
#include <cmath>
#include <numeric>

#include "engine/session/engine_impl.h"
#include "infer/jobs.hpp"

namespace infer {
namespace {

struct Generated {
  std::vector<int32_t> tokens;
  GenerateResult result;

  double rate() const {
    return static_cast<double>(result.generated_tokens - 1) / result.generate_seconds;
  }
};

Result<Generated> generate(Engine& engine, std::span<const int32_t> prompt,
                           const GenerateOptions& options) {
  Generated done;
  INFER_TRY(const std::unique_ptr<Session> session, engine.open_session());
  // The text has been generated before, which is not what is measured.
  Engine::Impl& impl = EngineAccess::impl(engine);
  impl.thread->call([&] {
    if (impl.speculator) impl.speculator->unlearn();
  });
  INFER_TRY(done.result, session->generate(prompt, options, [&](int32_t token, std::string_view) {
    if (token >= 0) done.tokens.push_back(token);
    return true;
  }));
  if (done.result.generated_tokens < 2) {
    return fail(StatusCode::invalid_argument, "the model ends a text at once: nothing to measure");
  }
  return done;
}

void add(SpeculationStatistics& sum, const SpeculationStatistics& s) {
  sum.drafted += s.drafted;
  sum.accepted += s.accepted;
  sum.tokens += s.tokens;
  sum.seconds += s.seconds;
  sum.draft_seconds += s.draft_seconds;
  sum.plain_seconds += s.plain_seconds;
  if (sum.places.size() < s.places.size()) sum.places.resize(s.places.size());
  for (size_t i = 0; i < s.places.size(); ++i) {
    sum.places[i].reached += s.places[i].reached;
    sum.places[i].accepted += s.places[i].accepted;
  }
  if (sum.lengths.size() < s.lengths.size()) sum.lengths.resize(s.lengths.size());
  for (size_t i = 0; i < s.lengths.size(); ++i) {
    sum.lengths[i].steps += s.lengths[i].steps;
    sum.lengths[i].accepted += s.lengths[i].accepted;
    sum.lengths[i].refused += s.lengths[i].refused;
  }
}

/// Σ (1 − α^(γ+1)) / (1 − α) tokens over the steps (Leviathan et al. 2023, section 3.1), with the
/// acceptance α of proposals of each length γ, over the seconds that they took; a plain step takes
/// `plain_step`. One α for all would not do: long proposals are made where they are likely to be
/// right.
double expected_speedup(const SpeculationStatistics& s, double seconds, double plain_step) {
  if (s.tokens == 0 || seconds <= 0) return 1;
  double tokens = 0;
  for (size_t gamma = 0; gamma < s.lengths.size(); ++gamma) {
    const SpeculationStatistics::Length& length = s.lengths[gamma];
    const auto accepted = static_cast<double>(length.accepted);
    const auto refused = static_cast<double>(length.refused);
    const double each =
        refused == 0
            ? static_cast<double>(gamma) + 1
            : (1 - std::pow(accepted / (accepted + refused), static_cast<double>(gamma) + 1)) /
                  (refused / (accepted + refused));
    tokens += each * static_cast<double>(length.steps);
  }
  return tokens * plain_step / seconds;
}

Result<SpeculationBenchResult> measure(Engine& engine, std::span<const int32_t> prompt,
                                       const SpeculationBenchOptions& options) {
  GenerateOptions drafted = options.generate;
  drafted.max_tokens = options.tokens;
  drafted.ignore_end = true;
  if (!drafted.sampling.seed) drafted.sampling.seed = 1;
  GenerateOptions plain = drafted;
  plain.draft_tokens = 0;
  // Once for the cache of prompts and the programs.
  INFER_TRY(const Generated first, generate(engine, prompt, plain));
  SpeculationBenchResult result;
  std::vector<double> ratios;
  double seconds = 0;
  double plain_seconds = 0;
  int64_t plain_steps = 0;
  for (int32_t r = 0; r < options.repeats; ++r) {
    // By turns first and second, lest a machine that grows slower favours one of them.
    const bool drafted_first = r % 2 == 0;
    INFER_TRY(Generated with, generate(engine, prompt, drafted_first ? drafted : plain));
    INFER_TRY(Generated without, generate(engine, prompt, drafted_first ? plain : drafted));
    if (!drafted_first) std::swap(with, without);
    if (with.tokens != without.tokens) {
      return fail(StatusCode::internal, "the text with drafters differs from the one without");
    }
    ratios.push_back(with.rate() / without.rate());
    result.tokens_per_s += with.rate() / options.repeats;
    result.plain_tokens_per_s += without.rate() / options.repeats;
    add(result.statistics, with.result.speculation);
    seconds += with.result.generate_seconds;
    plain_seconds += without.result.generate_seconds;
    plain_steps += without.result.generated_tokens - 1;
  }
  const auto count = static_cast<double>(ratios.size());
  result.speedup = std::accumulate(ratios.begin(), ratios.end(), 0.0) / count;
  double squares = 0;
  for (const double x : ratios) squares += (x - result.speedup) * (x - result.speedup);
  if (count > 1) result.spread = std::sqrt(squares / (count - 1)) / result.speedup;
  result.expected = expected_speedup(result.statistics, seconds,
                                     plain_seconds / static_cast<double>(plain_steps));
  return result;
}

}  // namespace

Result<std::vector<SpeculationBenchResult>> bench_speculation(
    const std::string& path, const SpeculationBenchOptions& options) {
  return guarded([&]() -> Result<std::vector<SpeculationBenchResult>> {
    if (options.prompts.empty() || options.tokens < 2 || options.repeats < 1 ||
        (options.load.drafters.empty() && options.load.draft_model.empty())) {
      return fail(StatusCode::invalid_argument,
                  "expected drafters, at least one prompt, two tokens and one repeat");
    }
    INFER_TRY(const std::unique_ptr<Engine> engine, Engine::load(path, options.load));
    std::vector<SpeculationBenchResult> results;
    for (const std::string& prompt : options.prompts) {
      INFER_TRY(const std::vector<int32_t> tokens, engine->tokenize(prompt, {}));
      INFER_TRY(results.emplace_back(), measure(*engine, tokens, options));
    }
    return results;
  });
}

}  // namespace infer
