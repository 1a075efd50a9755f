// Drafts by a model with another vocabulary: its text, in the tokens of the model that it drafts
// for (Timor et al. 2025, "universal assisted generation").
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/spec/draft_model.h"
#include "engine/spec/draft_sampler.h"
#include "engine/spec/drafter.h"
#include "engine/text/tokenizer.h"

namespace infer {

/// Proposes the most likely text. It cannot share random draws with the model, since draws belong
/// to tokens. The time for a token is bounded even for long texts without spaces.
class RetokenizingDrafter final : public Drafter {
 public:
  /// Bytes for each token of a sequence, here and in the lists of the draft model.
  static constexpr int64_t kTokenBytes = 96;

  RetokenizingDrafter(std::shared_ptr<DraftModel> model,
                      std::shared_ptr<const Tokenizer> draft_tokenizer,
                      std::shared_ptr<const Tokenizer> tokenizer);

  const char* name() const override { return "model"; }
  Status propose(std::span<DraftRequest* const> requests) override;
  double seconds(int64_t id, std::span<const int32_t> history, int64_t tokens) const override;
  void forget(int64_t id) override;
  /// Bytes of text tokenised so far: a measure of the time besides the model's.
  int64_t encoded_bytes() const { return encoded_bytes_; }

 private:
  /// A sequence: the tokens of the same text in both vocabularies.
  struct Held {
    std::vector<int32_t> history;
    std::vector<size_t> history_ends;  ///< bytes of the text up to and with each
    std::string text;
    std::vector<int32_t> tokens;  ///< the draft model's
    std::vector<size_t> ends;     ///< likewise
  };

  Status read(Held& held, std::span<const int32_t> history);
  Status draft(DraftRequest& request, Held& held);
  Status translate(const Held& held, std::string_view drafted, std::span<const DraftToken> draft,
                   DraftRequest& request);

  std::shared_ptr<DraftModel> model_;
  std::shared_ptr<const Tokenizer> draft_tokenizer_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  DraftSampler sampler_;
  std::unordered_map<int64_t, Held> sequences_;
  int64_t encoded_bytes_ = 0;
  // Averages that follow what is measured; 0: not known.
  double read_seconds_ = 0;   ///< of reading a token of a history
  double text_seconds_ = 0;   ///< of turning a draft into tokens, for each token of the draft model
  double model_factor_ = 0;   ///< time of the model's steps over what the model says: tokens that
                              ///< were tokenised otherwise are computed again
  double made_for_each_ = 0;  ///< tokens of the draft model for a token proposed
};

}  // namespace infer
