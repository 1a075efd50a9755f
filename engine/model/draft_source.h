// The file of a head that drafts for another file's model, together with what it takes from that.
#pragma once

#include <memory>
#include <utility>

#include "engine/model/joined_source.h"

namespace infer {

/// Begins the names of the main model's weights in a DraftSource.
inline constexpr const char* kMainPrefix = "main.";

/// The weights of the main model, in its order and under names that begin with kMainPrefix, then
/// those of the head's file. So the main model's weights have the same indices in both sources.
/// Metadata and tokenizer are those of the head's file.
class DraftSource final : public JoinedSource {
 public:
  /// `main` lives longer.
  DraftSource(const WeightSource& main, std::unique_ptr<WeightSource> own) : own_(std::move(own)) {
    add(main, kMainPrefix);
    add(*own_, "");
  }

  const Metadata& metadata() const override { return own_->metadata(); }
  const TokenizerSpec& tokenizer() const override { return own_->tokenizer(); }

  /// The head's file alone.
  const WeightSource& own() const { return *own_; }

 private:
  std::unique_ptr<WeightSource> own_;
};

}  // namespace infer
