#include "engine/model/minicpm_scales.h"

#include <cmath>

#include "engine/core/file.h"

namespace infer {

void read_minicpm_scales(HparamReader& r, DecoderModel& model) {
  const DecoderParams& params = model.params;
  model.embedding_scale = static_cast<float>(r.get_float("embedding_scale", 12.0));
  model.residual_scale = static_cast<float>(
      r.get_float("residual_scale", 1.4 / std::sqrt(static_cast<double>(params.layers))));
  const double divisor = r.get_float("logit_scale", static_cast<double>(params.embedding) / 256);
  if (!(divisor > 0)) {
    r.set_error(error(StatusCode::bad_file, "{}: logit_scale: expected more than 0, found {}",
                      r.metadata().source(), divisor));
  }
  model.logit_scale = static_cast<float>(1.0 / divisor);
  const int32_t factors = weight_index(r.source(), "rope_factors_long.weight");
  if (factors < 0) return;
  RopeSpec& rope = model.mutable_info().ropes[0];
  rope.factors = weight_index(r.source(), "rope_factors_short.weight");
  rope.long_factors = factors;
  rope.original_context = static_cast<double>(
      r.get_int("rope.scaling.original_context_length", params.context, 1, INT32_MAX));
}

void map_minicpm_scales(CheckpointMap& m, const MiniCpmScales& absent) {
  const auto width = static_cast<double>(m.config.need_int("hidden_size", 1, 1 << 20));
  const auto base =
      static_cast<double>(m.config.get_int("dim_model_base", absent.base, 1, 1 << 20));
  m.keys.set_float("embedding_scale", m.config.get_float("scale_emb", absent.embedding));
  m.keys.set_float("residual_scale", m.config.get_float("scale_depth", absent.depth) /
                                         std::sqrt(static_cast<double>(m.layer_count())));
  m.keys.set_float("logit_scale", width / base);
}

}  // namespace infer
