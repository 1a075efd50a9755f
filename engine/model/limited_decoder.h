// The decoder with limits on what SwiGLU multiplies, in some layers.
#pragma once

#include <vector>

#include "engine/model/decoder.h"

namespace infer {

class LimitedModel : public DecoderModel {
 public:
  using DecoderModel::DecoderModel;

  /// Reads the limits, "swiglu_clamp_exp" of experts and "swiglu_clamp_shexp" of shared experts and
  /// layers without experts. `same`: if there are none for the latter, they are those of the
  /// former. Failures stay in the reader.
  void read_limits(HparamReader& reader, bool same = false);

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override;

 private:
  std::vector<float> limits_;        ///< of experts, by layer; empty: none
  std::vector<float> other_limits_;  ///< of shared experts and layers without experts, likewise
};

}  // namespace infer
