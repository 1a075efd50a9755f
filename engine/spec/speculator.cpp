#include "engine/spec/speculator.h"

#include <algorithm>
#include <chrono>

namespace infer {
namespace {

using Clock = std::chrono::steady_clock;

/// What all sequences have shown is forgotten more slowly than what one has.
constexpr double kKeepOfAll = 0.995;
/// The share of the time that may go into proposals which promise nothing, so that it is seen when
/// they would pay again.
constexpr double kProbeShare = 0.005;
/// Tokens less likely than that to be accepted are worth no row, whatever it costs.
constexpr double kLeastChance = 1e-3;

}  // namespace

Speculator::Speculator(std::vector<std::unique_ptr<Drafter>> drafters, const StepCosts& costs)
    : drafters_(std::move(drafters)),
      costs_(costs),
      acceptance_(drafters_.size(), DraftAcceptance(kKeepOfAll)) {}

void Speculator::propose(std::span<const Item> items, int64_t others, int64_t rows) {
  sequences_ = static_cast<int64_t>(items.size()) + others;
  step_ = {sequences_, static_cast<double>(sequences_), costs_.seconds(sequences_)};
  draft_seconds_ = 0;
  costly_.clear();
  for (const Item& item : items) {
    Drafting& drafting = *item.drafting;
    drafting.proposal.clear();
    drafting.acceptance.resize(drafters_.size());
    const int64_t most =
        std::min({item.room, drafting.wanted - 1, kMostDrafted, rows - step_.rows});
    if (most < 1 || drafting.fixed == 0) continue;
    if (drafting.fixed > 0) {
      plan_fixed(item, std::min(most, drafting.fixed));
    } else {
      plan(item, most);
    }
  }
  if (costly_.empty()) return;
  propose_costly();
  for (Costly& costly : costly_) settle(costly, rows);
}

/// Asks a drafter that costs nothing.
bool Speculator::propose_now(const Item& item, size_t drafter, int64_t most) {
  request_.id = item.drafting->id;
  request_.history = item.history;
  request_.most = most;
  request_.sampler = nullptr;
  request_.tokens.clear();
  DraftRequest* const request = &request_;
  return drafters_[drafter]->propose({&request, 1}).ok() && !request_.tokens.empty();
}

/// joint_: the chances of the first i + 1 tokens.
void Speculator::expect(const Drafting& drafting, size_t drafter,
                        std::span<const DraftToken> tokens) {
  const DraftOdds odds = this->odds(drafting, drafter);
  joint_.clear();
  double joint = 1;
  for (const DraftToken& token : tokens)
    joint_.push_back(joint *= odds.of_confidence(token.confidence));
}

void Speculator::plan_fixed(const Item& item, int64_t most) {
  for (size_t i = 0; i < drafters_.size(); ++i) {
    if (drafters_[i]->seconds(item.drafting->id, item.history, 1) > 0) {
      costly_.push_back({item, i, most, true, most});
      step_.rows += most;
      return;
    }
    if (!propose_now(item, i, most)) continue;
    item.drafting->drafter = i;
    item.drafting->proposal = request_.tokens;
    step_.rows += static_cast<int64_t>(request_.tokens.size());
    return;
  }
}

/// Chooses the drafter, and how much it is to propose.
void Speculator::plan(const Item& item, int64_t most) {
  Drafting& drafting = *item.drafting;
  DraftChoice best{0, step_};
  size_t chosen = 0;
  for (size_t i = 0; i < drafters_.size(); ++i) {
    const bool costs = drafters_[i]->seconds(drafting.id, item.history, 1) > 0;
    drafting_.clear();
    if (costs) {
      const DraftOdds odds = this->odds(drafting, i);
      joint_.clear();
      double joint = 1;
      double chance = 0;
      for (int64_t n = 0; n < most && joint > kLeastChance; ++n) {
        chance = odds.of_place(n, chance);
        joint_.push_back(joint *= chance);
        drafting_.push_back(drafters_[i]->seconds(drafting.id, item.history, n + 1));
      }
    } else {
      if (!propose_now(item, i, most)) continue;
      expect(drafting, i, request_.tokens);
    }
    const DraftChoice choice = best_draft(step_, costs_, joint_, drafting_);
    if (choice.count > 0 && choice.step.rate() > best.step.rate()) {
      best = choice;
      chosen = i;
      if (!costs) drafting.proposal = request_.tokens;
    } else if (best.count == 0 && drafting.proposal.empty() && costly_.empty() &&
               probe(item, i, costs ? drafting_[0] : 0)) {
      return;
    }
  }
  drafting.drafter = chosen;
  if (best.count == 0) return;
  if (drafters_[chosen]->seconds(drafting.id, item.history, 1) > 0) {
    drafting.proposal.clear();
    // What it proposes may look better than usual: then it goes on.
    costly_.push_back({item, chosen, std::min(most, 2 * best.count + 2), false, best.count,
                       best.step.tokens - step_.tokens});
  } else {
    drafting.proposal.resize(static_cast<size_t>(best.count));
  }
  step_ = best.step;
}

/// Proposes one token to see whether it would be accepted, if that is affordable.
bool Speculator::probe(const Item& item, size_t drafter, double drafting) {
  const double loss = drafting + costs_.seconds(step_.rows + 1) - costs_.seconds(step_.rows);
  if (probe_seconds_ + loss > kProbeShare * total_seconds_) return false;
  probe_seconds_ += loss;
  item.drafting->drafter = drafter;
  ++step_.rows;
  if (drafting > 0) {
    costly_.push_back({item, drafter, 1, true, 1});
    costly_.back().probe = true;
    costly_.back().reckoned = drafting;
  } else {
    item.drafting->proposal.assign(1, request_.tokens[0]);
  }
  return true;
}

/// Whether one more token would raise the rate. Only its average acceptance is known.
bool Speculator::worth_another(const Costly& costly) const {
  const Drafting& drafting = *costly.item.drafting;
  const DraftRequest& request = costly.request;
  const DraftOdds odds = this->odds(drafting, costly.drafter);
  double chance = 0;
  for (size_t i = 0; i <= request.tokens.size(); ++i) {
    chance = odds.of_place(static_cast<int64_t>(i), chance);
  }
  for (const DraftToken& token : request.tokens) chance *= odds.of_confidence(token.confidence);
  const auto drafted = static_cast<int64_t>(request.tokens.size());
  const Drafter& drafter = *drafters_[costly.drafter];
  const double seconds = drafter.seconds(request.id, request.history, drafted + 1) -
                         drafter.seconds(request.id, request.history, drafted) +
                         costs_.seconds(step_.rows + 1) - costs_.seconds(step_.rows);
  return chance > step_.rate() * seconds;
}

void Speculator::propose_costly() {
  for (size_t i = 0; i < drafters_.size(); ++i) {
    std::vector<DraftRequest*> requests;
    for (Costly& costly : costly_) {
      if (costly.drafter != i) continue;
      Drafting& drafting = *costly.item.drafting;
      DraftRequest& request = costly.request;
      request.id = drafting.id;
      request.history = costly.item.history;
      request.most = costly.most;
      request.sampler = &drafting.sampler;
      drafting.sampler.begin(request.history, drafting.position, drafting.constraint);
      if (!costly.settled) {
        request.go_on = [this, &costly](const DraftRequest&) { return worth_another(costly); };
      }
      requests.push_back(&request);
    }
    if (requests.empty()) continue;
    const Clock::time_point start = Clock::now();
    const Status status = drafters_[i]->propose(requests);
    const double taken = std::chrono::duration<double>(Clock::now() - start).count();
    draft_seconds_ += taken;
    // What was only tried counts with the time that it did take, where that was more.
    const double each = taken / static_cast<double>(requests.size());
    for (const Costly& costly : costly_) {
      if (costly.drafter == i && costly.probe) {
        probe_seconds_ += std::max(0.0, each - costly.reckoned);
      }
    }
    if (status.ok()) continue;
    for (DraftRequest* request : requests) request->tokens.clear();
  }
}

/// Takes of what was proposed as much as is worth verifying, now that it is seen.
void Speculator::settle(Costly& costly, int64_t rows) {
  Drafting& drafting = *costly.item.drafting;
  drafting.drafter = costly.drafter;
  drafting.proposal = std::move(costly.request.tokens);
  DraftStep others = step_;
  others.rows -= costly.planned;
  others.tokens -= costly.gain;
  others.seconds = costs_.seconds(others.rows) + draft_seconds_;
  const auto most = static_cast<size_t>(std::max<int64_t>(0, rows - others.rows));
  if (drafting.proposal.size() > most) drafting.proposal.resize(most);
  step_ = others;
  if (costly.settled) {
    step_.rows += static_cast<int64_t>(drafting.proposal.size());
    return;
  }
  expect(drafting, costly.drafter, drafting.proposal);
  const DraftChoice choice = best_draft(others, costs_, joint_, {});
  drafting.proposal.resize(static_cast<size_t>(choice.count));
  step_ = choice.step;
}

void Speculator::ran(int64_t rows, double seconds) {
  const auto count = static_cast<double>(sequences_);
  costs_.update(rows, seconds);
  total_seconds_ += seconds + draft_seconds_;
  step_seconds_ = (seconds + draft_seconds_) / count;
  // By the same step: whatever made it slow would have made another one slow.
  plain_seconds_ = seconds * costs_.seconds(sequences_) / costs_.seconds(rows) / count;
}

void Speculator::verified(Drafting& drafting, int64_t accepted) {
  const auto drafted = static_cast<int64_t>(drafting.proposal.size());
  DraftStatistics& s = drafting.statistics;
  s.drafted += drafted;
  s.accepted += accepted;
  s.tokens += accepted + 1;
  s.seconds += step_seconds_;
  s.draft_seconds += draft_seconds_ / static_cast<double>(sequences_);
  s.plain_seconds += plain_seconds_ * static_cast<double>(accepted + 1);
  for (int64_t i = 0; i < std::min(drafted, accepted + 1); ++i) {
    ++s.reached[static_cast<size_t>(i)];
    if (i < accepted) ++s.held[static_cast<size_t>(i)];
  }
  DraftStatistics::Length& length = s.lengths[static_cast<size_t>(drafted)];
  ++length.steps;
  length.accepted += accepted;
  if (accepted < drafted) ++length.refused;
  if (drafted == 0) return;
  drafting.acceptance[drafting.drafter].add(drafting.proposal, accepted);
  acceptance_[drafting.drafter].add(drafting.proposal, accepted);
  drafting.proposal.clear();
}

bool Speculator::takes_hidden() const {
  return std::ranges::any_of(drafters_,
                             [](const auto& drafter) { return drafter->takes_hidden(); });
}

void Speculator::observe(int64_t id, std::span<const int32_t> tokens,
                         std::span<const float> hidden) {
  for (const std::unique_ptr<Drafter>& drafter : drafters_) drafter->observe(id, tokens, hidden);
}

void Speculator::learn(int64_t id, std::span<const int32_t> history, int64_t from) {
  for (const std::unique_ptr<Drafter>& drafter : drafters_) drafter->learn(id, history, from);
}

void Speculator::unlearn() {
  for (const std::unique_ptr<Drafter>& drafter : drafters_) drafter->unlearn();
}

void Speculator::forget(int64_t id) {
  for (const std::unique_ptr<Drafter>& drafter : drafters_) drafter->forget(id);
}

}  // namespace infer
