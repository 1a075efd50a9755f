// Speculation for all sequences of an engine. For each step and each sequence the Speculator
// chooses a drafter and a number of tokens to draft. It learns from how many were accepted.
//
// Speculation changes only the speed, never a token: the model itself chooses every token
// (Leviathan et al. 2023; Chen et al. 2023; here the random draws of the sampler are fixed
// beforehand). The number of drafted tokens is the one with the most expected tokens a second,
// estimated from the acceptance and the times seen so far. That number may be 0.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/spec/draft_policy.h"
#include "engine/spec/draft_sampler.h"
#include "engine/spec/drafter.h"
#include "engine/spec/step_costs.h"

namespace infer {

struct DraftStatistics {
  int64_t drafted = 0;   ///< tokens proposed and verified
  int64_t accepted = 0;  ///< drafted tokens that the model chose too
  int64_t tokens = 0;    ///< tokens generated, the accepted ones included
  // `tokens` and the times cover only the steps that propose() was called for. A step of several
  // sequences counts in equal shares.
  double seconds = 0;        ///< of these steps, drafting included
  double draft_seconds = 0;  ///< of the drafting in these steps
  double plain_seconds = 0;  ///< estimate of `seconds` for the same tokens without speculation
  /// By place in the proposal, from 0: how often all tokens before this place were accepted.
  std::array<int64_t, kMostDrafted> reached{};
  /// By place: how often the token at this place was accepted as well.
  std::array<int64_t, kMostDrafted> held{};
  /// By length of the proposal: steps, accepted tokens, and steps that refused a token.
  struct Length {
    int64_t steps, accepted, refused;
  };
  std::array<Length, kMostDrafted + 1> lengths{};
};

/// The state of speculation for one generation. Owned by the code that runs the generation.
struct Drafting {
  int64_t id = 0;        ///< identifies the sequence to the drafters
  int64_t fixed = -1;    ///< tokens to propose in every step if possible; −1: the best number
  int64_t wanted = 0;    ///< tokens that the generation may still make
  int64_t position = 0;  ///< of the next token: it fixes the sampler's random draws
  const Constraint* constraint = nullptr;  ///< state of the grammar after the text so far, or null
  DraftSampler sampler;
  DraftStatistics statistics;
  std::vector<DraftAcceptance> acceptance;  ///< by drafter

  // The step being computed:
  std::vector<DraftToken> proposal;
  size_t drafter = 0;  ///< index of the drafter that made the proposal

  explicit Drafting(const SamplingParams& params) : sampler(params) {}
};

/// Not thread-safe: one thread makes all calls. For each step: propose(), ran(), then verified()
/// for each sequence.
class Speculator {
 public:
  /// Drafters whose proposals take next to no time come first. `costs`: seconds of the model's
  /// steps by rows.
  Speculator(std::vector<std::unique_ptr<Drafter>> drafters, const StepCosts& costs);

  struct Item {
    Drafting* drafting;
    std::span<const int32_t> history;  ///< all tokens of the sequence so far
    int64_t room;                      ///< tokens that the context has left for proposals
  };
  /// Sets Drafting::proposal of every item for one step. In that step each item computes one token
  /// and its proposal, and `others` further rows are computed. The step may have at most `rows`
  /// rows in all. A drafter that fails proposes nothing.
  void propose(std::span<const Item> items, int64_t others, int64_t rows);
  /// The step has been computed: it had this many rows and took this long.
  void ran(int64_t rows, double seconds);
  /// Called for each sequence of the step that has a Drafting: the model chose the first `accepted`
  /// tokens of its proposal.
  void verified(Drafting& drafting, int64_t accepted);
  /// Whether a drafter needs observe().
  bool takes_hidden() const;
  /// Drafter::observe() of all of them.
  void observe(int64_t id, std::span<const int32_t> tokens, std::span<const float> hidden);
  /// A generation has ended. Its own tokens start at history[from].
  void learn(int64_t id, std::span<const int32_t> history, int64_t from);
  /// Forgets everything from learn().
  void unlearn();
  /// The sequence no longer exists.
  void forget(int64_t id);

 private:
  /// A proposal that takes time. Each drafter makes these for all sequences in one call.
  struct Costly {
    Item item;
    size_t drafter;
    int64_t most;
    bool settled;         ///< all tokens proposed are verified, without choosing again
    int64_t planned = 0;  ///< tokens in the plan of the step
    double gain = 0;      ///< planned tokens expected to be accepted
    bool probe = false;   ///< proposed only to measure acceptance
    double reckoned = 0;  ///< estimated seconds of drafting, of a probe
    DraftRequest request{};
  };

  void plan(const Item& item, int64_t most);
  void plan_fixed(const Item& item, int64_t most);
  bool propose_now(const Item& item, size_t drafter, int64_t most);
  void expect(const Drafting& drafting, size_t drafter, std::span<const DraftToken> tokens);
  bool probe(const Item& item, size_t drafter, double drafting);
  void propose_costly();
  bool worth_another(const Costly& costly) const;
  void settle(Costly& costly, int64_t rows);
  DraftOdds odds(const Drafting& drafting, size_t drafter) const {
    return {drafting.acceptance[drafter], acceptance_[drafter]};
  }

  std::vector<std::unique_ptr<Drafter>> drafters_;
  StepCosts costs_;
  std::vector<DraftAcceptance> acceptance_;  ///< by drafter, of all sequences
  double total_seconds_ = 0;                 ///< of all steps
  double probe_seconds_ = 0;                 ///< estimated cost of all probes

  // The step being computed:
  DraftStep step_;
  double draft_seconds_ = 0;
  double step_seconds_ = 0;   ///< share of one sequence
  double plain_seconds_ = 0;  ///< share of one sequence in a step without proposals
  int64_t sequences_ = 0;
  std::vector<Costly> costly_;
  DraftRequest request_;
  std::vector<double> joint_;
  std::vector<double> drafting_;
};

}  // namespace infer
