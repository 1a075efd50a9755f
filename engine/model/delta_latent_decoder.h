// The decoder whose layers are Kimi delta attention, or latent attention where a layer has
// key-value heads; experts as DeepSeek V3's, beside shared ones.
#pragma once

#include "engine/model/kimi_delta.h"
#include "engine/model/latent_attention.h"
#include "engine/model/limited_decoder.h"

namespace infer {

class DeltaLatentModel : public LimitedModel {
 public:
  /// `turns`: DecoderModel.
  explicit DeltaLatentModel(HparamReader& reader, bool turns = true);

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override;

  LatentBlock latent;
  KimiDelta delta;
};

}  // namespace infer
