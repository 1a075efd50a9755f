// Speculation over the sequences of an engine: which drafter proposes how many tokens for each in a
// step, and what came of it.
//
// The tokens are those that would come anyhow, since the model itself chooses every one of them
// (Leviathan et al. 2023; Chen et al. 2023, here with the draws fixed beforehand); what is decided
// here is the speed alone. For every step that number of tokens is proposed which promises the most
// tokens a second, by the acceptance seen and the times measured so far; none is such a number.
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
  int64_t drafted = 0;       ///< tokens proposed and verified
  int64_t accepted = 0;      ///< of them
  int64_t tokens = 0;        ///< made in steps without prompts, those accepted among them
  double seconds = 0;        ///< those steps', drafting included; a share where there were several
                             ///< sequences
  double draft_seconds = 0;  ///< of it, drafting
  double plain_seconds = 0;  ///< what they would have taken without, by the measured costs
  /// By place in the proposal, from 0: how often all before it were accepted, and it as well.
  std::array<int64_t, kMostDrafted> reached{};
  std::array<int64_t, kMostDrafted> held{};
  /// By length of the proposal: steps, tokens accepted in them, steps with a token refused.
  struct Length {
    int64_t steps, accepted, refused;
  };
  std::array<Length, kMostDrafted + 1> lengths{};
};

/// What speculation knows of one generation. Owned by who generates.
struct Drafting {
  int64_t id = 0;        ///< of the sequence, for the drafters
  int64_t fixed = -1;    ///< tokens to propose, if there are so many; −1: as many as are best
  int64_t wanted = 0;    ///< tokens that the generation may still have
  int64_t position = 0;  ///< of the next token, for its draws
  const Constraint* constraint = nullptr;  ///< where the text stands
  DraftSampler sampler;
  DraftStatistics statistics;
  std::vector<DraftAcceptance> acceptance;  ///< by drafter

  // Of the step at work.
  std::vector<DraftToken> proposal;
  size_t drafter = 0;  ///< whose it is

  explicit Drafting(const SamplingParams& params) : sampler(params) {}
};

/// One thread.
class Speculator {
 public:
  /// Those that cost nothing come first. `costs`: of the model's steps.
  Speculator(std::vector<std::unique_ptr<Drafter>> drafters, const StepCosts& costs);

  struct Item {
    Drafting* drafting;
    std::span<const int32_t> history;
    int64_t room;  ///< tokens that the context has for proposals
  };
  /// Makes the proposals for a step in which each of these sequences computes one token and what is
  /// proposed for it, `others` compute one each, and that may have `rows` rows in all. Drafters
  /// that fail propose nothing.
  void propose(std::span<const Item> items, int64_t others, int64_t rows);
  /// That step has been computed: it had so many rows.
  void ran(int64_t rows, double seconds);
  /// For each of its sequences: so many of the proposed tokens were what the model chose.
  void verified(Drafting& drafting, int64_t accepted);
  /// A generation has ended, whose tokens begin at history[from].
  void learn(int64_t id, std::span<const int32_t> history, int64_t from);
  /// Forgets what learn() was told.
  void unlearn();
  /// The sequence is gone.
  void forget(int64_t id);

 private:
  /// Proposals that take time: made for all sequences together.
  struct Costly {
    Item item;
    size_t drafter;
    int64_t most;
    bool settled;         ///< whatever comes is verified
    int64_t planned = 0;  ///< tokens of the step's plan
    double gain = 0;      ///< of them, expected
    bool probe = false;   ///< proposed only to learn
    double reckoned = 0;  ///< seconds that a probe's drafting was to take
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
  double probe_seconds_ = 0;                 ///< what was proposed only to learn has taken

  // Of the step at work.
  DraftStep step_;
  double draft_seconds_ = 0;
  double step_seconds_ = 0;   ///< a sequence's share
  double plain_seconds_ = 0;  ///< without proposals, a sequence's share
  int64_t sequences_ = 0;
  std::vector<Costly> costly_;
  DraftRequest request_;
  std::vector<double> joint_;
  std::vector<double> drafting_;
};

}  // namespace infer
