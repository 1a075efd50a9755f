#include "engine/spec/draft_policy.h"

namespace infer {
namespace {

// Before anything is known: the surer the likelier; and a model that somebody chose as drafter
// agrees more often than not. Each counts as a few observations.
constexpr double kFirstPlace = 0.7;
constexpr double kGuess = 2;
/// What all sequences have shown counts for a new one as much as this many of its own.
constexpr double kOthers = 4;

double odds(const DraftRate& own, const DraftRate& all, double guess) {
  return own.value(all.value(guess, kGuess), kOthers);
}

}  // namespace

void DraftAcceptance::add(std::span<const DraftToken> proposal, int64_t accepted) {
  for (DraftRate& rate : confidences_) rate.fade(keep_);
  for (DraftRate& rate : places_) rate.fade(keep_);
  for (size_t i = 0; i < proposal.size() && i < static_cast<size_t>(kMostDrafted); ++i) {
    const bool success = static_cast<int64_t>(i) < accepted;
    confidences_[static_cast<size_t>(proposal[i].confidence)].add(success);
    places_[i].add(success);
    if (!success) break;
  }
}

double DraftOdds::of_confidence(int32_t confidence) const {
  const double guess = (confidence + 1.0) / (kConfidenceLevels + 1.0);
  return odds(own_.confidence(confidence), all_.confidence(confidence), guess);
}

double DraftOdds::of_place(int64_t place, double before) const {
  // Of a place that was hardly ever reached the one before tells the most.
  return odds(own_.place(place), all_.place(place), place == 0 ? kFirstPlace : before);
}

DraftChoice best_draft(const DraftStep& step, const StepCosts& costs, std::span<const double> joint,
                       std::span<const double> drafting) {
  DraftChoice best{0, step};
  DraftStep longer = step;
  const double plain = costs.seconds(step.rows);
  for (size_t i = 0; i < joint.size(); ++i) {
    ++longer.rows;
    longer.tokens += joint[i];
    longer.seconds =
        step.seconds + costs.seconds(longer.rows) - plain + (drafting.empty() ? 0 : drafting[i]);
    if (longer.rate() > best.step.rate()) best = {static_cast<int64_t>(i) + 1, longer};
  }
  return best;
}

}  // namespace infer
