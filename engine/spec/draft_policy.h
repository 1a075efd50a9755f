// How many tokens to draft: the number, possibly 0, with the most expected tokens a second.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/spec/drafter.h"
#include "engine/spec/step_costs.h"

namespace infer {

/// Most tokens drafted for one sequence in one step.
inline constexpr int64_t kMostDrafted = 32;

/// A success rate in which older observations count less.
struct DraftRate {
  double accepted = 0;
  double tried = 0;

  void add(bool success) {
    accepted += success ? 1 : 0;
    tried += 1;
  }
  void fade(double keep) {
    accepted *= keep;
    tried *= keep;
  }
  /// The rate, with `weight` more tries of success rate `prior` added.
  double value(double prior, double weight) const {
    return (accepted + prior * weight) / (tried + weight);
  }
};

/// How often a drafter's token is accepted if all tokens before it were. Kept by the token's
/// confidence (DraftToken) and by its place in the proposal.
class DraftAcceptance {
 public:
  /// `keep`: factor by which the weight of all observations falls with each verified proposal. Old
  /// observations fade even if nothing new is observed for their confidence or place, so that it is
  /// tried again some time.
  explicit DraftAcceptance(double keep = 0.97) : keep_(keep) {}

  /// The first `accepted` tokens of the proposal were right, and the next one, if any, was wrong.
  void add(std::span<const DraftToken> proposal, int64_t accepted);
  const DraftRate& confidence(int32_t confidence) const {
    return confidences_[static_cast<size_t>(confidence)];
  }
  /// From 0.
  const DraftRate& place(int64_t place) const { return places_[static_cast<size_t>(place)]; }

 private:
  double keep_;
  std::array<DraftRate, kConfidenceLevels> confidences_{};
  std::array<DraftRate, kMostDrafted> places_{};
};

/// Estimates of acceptance from the observations of one sequence and of all sequences together.
class DraftOdds {
 public:
  DraftOdds(const DraftAcceptance& own, const DraftAcceptance& all) : own_(own), all_(all) {}
  double of_confidence(int32_t confidence) const;
  /// The estimate for a place. `before`: the estimate for the place before it; unused for place 0.
  double of_place(int64_t place, double before) const;

 private:
  const DraftAcceptance& own_;
  const DraftAcceptance& all_;
};

/// A planned step.
struct DraftStep {
  int64_t rows = 0;
  double tokens = 0;   ///< expected
  double seconds = 0;  ///< expected, drafting included

  double rate() const { return tokens / seconds; }
};

struct DraftChoice {
  int64_t count = 0;  ///< tokens to draft
  DraftStep step;     ///< the step with them
};
/// Chooses how many drafted tokens to add to a step. joint[i]: probability that the first i + 1
/// tokens are right. drafting[i]: seconds to draft the first i + 1 tokens; empty: no time.
DraftChoice best_draft(const DraftStep& step, const StepCosts& costs, std::span<const double> joint,
                       std::span<const double> drafting);

}  // namespace infer
