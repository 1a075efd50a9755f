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

/// Proposes the most likely text. Draws cannot be shared: they belong to tokens.
class RetokenizingDrafter final : public Drafter {
 public:
  RetokenizingDrafter(std::shared_ptr<DraftModel> model,
                      std::shared_ptr<const Tokenizer> draft_tokenizer,
                      std::shared_ptr<const Tokenizer> tokenizer);

  const char* name() const override { return "model"; }
  Status propose(std::span<DraftRequest* const> requests) override;
  double seconds(int64_t id, std::span<const int32_t> history, int64_t tokens) const override;
  void forget(int64_t id) override;

 private:
  /// What is known of a sequence: both kinds of tokens of the same text.
  struct Held {
    std::vector<int32_t> history;
    std::vector<size_t> history_ends;  ///< bytes of the text up to and with each
    std::string text;
    std::vector<int32_t> tokens;  ///< the draft model's
    std::vector<size_t> ends;     ///< likewise
  };

  Status read(Held& held, std::span<const int32_t> history) const;
  Status draft(DraftRequest& request, Held& held);
  Status translate(const Held& held, std::string_view drafted, std::span<const DraftToken> draft,
                   DraftRequest& request) const;

  std::shared_ptr<DraftModel> model_;
  std::shared_ptr<const Tokenizer> draft_tokenizer_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  DraftSampler sampler_;
  std::unordered_map<int64_t, Held> sequences_;
};

}  // namespace infer
