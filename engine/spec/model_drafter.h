// Drafts by a model with the same vocabulary.
#pragma once

#include <memory>

#include "engine/spec/draft_model.h"
#include "engine/spec/drafter.h"

namespace infer {

/// Computes the tokens of a sequence only when it is asked for a proposal: first all tokens added
/// since the last one.
class ModelDrafter final : public Drafter {
 public:
  /// `vocabulary`: size of the main model's vocabulary. Tokens beyond it are never proposed.
  ModelDrafter(std::shared_ptr<DraftModel> model, int64_t vocabulary)
      : model_(std::move(model)), vocabulary_(vocabulary) {}

  const char* name() const override { return "model"; }
  Status propose(std::span<DraftRequest* const> requests) override;
  double seconds(int64_t id, std::span<const int32_t> history, int64_t tokens) const override {
    return model_->seconds(id, std::ssize(history), tokens);
  }
  void forget(int64_t id) override { model_->forget(id); }

 private:
  Status propose_some(std::span<DraftRequest* const> requests);

  std::shared_ptr<DraftModel> model_;
  int64_t vocabulary_;
};

}  // namespace infer
