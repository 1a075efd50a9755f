// How many tokens to propose: as many as make the most tokens a second, none among them.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/spec/drafter.h"
#include "engine/spec/step_costs.h"

namespace infer {

/// Tokens proposed at most for one sequence in one step.
inline constexpr int64_t kMostDrafted = 32;

/// How often something came true; what lies back counts less.
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
  /// As if `weight` more had been tried, `prior` of which came true.
  double value(double prior, double weight) const {
    return (accepted + prior * weight) / (tried + weight);
  }
};

/// How often tokens of one drafter are accepted if all before them were: by their sign, and by
/// their place in the proposal.
class DraftAcceptance {
 public:
  /// `keep`: what an observation still counts when the next proposal has been verified, whether or
  /// not that tells more of the same: what is not tried any more is forgotten, and so tried again.
  explicit DraftAcceptance(double keep = 0.97) : keep_(keep) {}

  /// Of the proposal the first `accepted` tokens were right, and the next one, if any, wrong.
  void add(std::span<const DraftToken> proposal, int64_t accepted);
  const DraftRate& sign(int32_t sign) const { return signs_[static_cast<size_t>(sign)]; }
  /// From 0.
  const DraftRate& place(int64_t place) const { return places_[static_cast<size_t>(place)]; }

 private:
  double keep_;
  std::array<DraftRate, kDraftSigns> signs_{};
  std::array<DraftRate, kMostDrafted> places_{};
};

/// What one sequence and all of them together have shown.
class DraftOdds {
 public:
  DraftOdds(const DraftAcceptance& own, const DraftAcceptance& all) : own_(own), all_(all) {}
  double of_sign(int32_t sign) const;
  /// Of a place, given that of the one before it (anything for the first).
  double of_place(int64_t place, double before) const;

 private:
  const DraftAcceptance& own_;
  const DraftAcceptance& all_;
};

/// A step as it stands: `rows` rows, which give `tokens` tokens and take `seconds`, drafting
/// included.
struct DraftStep {
  int64_t rows = 0;
  double tokens = 0;
  double seconds = 0;

  double rate() const { return tokens / seconds; }
};

/// The step with some tokens more to verify: joint[i] is the chance that the first i + 1 of them
/// are right, drafting[i] the seconds that proposing the first i + 1 takes (empty: none).
struct DraftChoice {
  int64_t count = 0;
  DraftStep step;
};
DraftChoice best_draft(const DraftStep& step, const StepCosts& costs, std::span<const double> joint,
                       std::span<const double> drafting);

}  // namespace infer
