// The decoder whose layers are one part alone behind a norm: attention or what takes its place, or
// a feed-forward. Nemotron-H, Mamba-2.
#pragma once

#include "engine/model/decoder.h"

namespace infer {

class OnePartModel : public DecoderModel {
 public:
  using DecoderModel::DecoderModel;

  void build(ModelBuilder& m) const override;

 protected:
  /// Whether a layer sees earlier tokens: it is attend() then, else feed_forward().
  virtual bool remembers(int64_t layer) const = 0;
};

}  // namespace infer
