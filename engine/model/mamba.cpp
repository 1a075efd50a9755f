#include "engine/model/mamba.h"

#include "engine/core/portable_math.h"

namespace infer {
namespace {

/// How many channels a mixer has in a checkpoint.
int64_t channels_of(const CheckpointMap& m, int64_t layer, const std::string& part) {
  return m.tensors.shape_of(layer_name(layer, part + ".dt_proj.weight"))[1];
}

}  // namespace

MambaBlock::MambaBlock(HparamReader& r, float epsilon)
    : inner(r.need_int("ssm.inner_size", 1, kMaxWidth)),
      state(r.need_int("ssm.state_size", 1, kMaxWidth)),
      rank(r.need_int("ssm.time_step_rank", 1, kMaxWidth)),
      taps(r.need_int("ssm.conv_kernel", 2, kMostTaps)),
      eps(epsilon) {}

MambaParts mamba_parts(ModelBuilder& m, ValueId x, int64_t layer, const MambaBlock& b,
                       bool low_last) {
  const ValueId all = m.linear(x, block_name(layer, "ssm_x"), b.rank + 2 * b.state);
  const auto part = [&](int64_t begin, int64_t width, const char* norm) {
    const ValueId of = m.g.slice(all, begin, width);
    std::string name = block_name(layer, norm);
    if (!m.has(name)) name += ".weight";
    const ValueId weight = m.optional_weight(name, {width});
    if (weight == kNoValue && !b.normed) return of;
    return m.g.add(op::RmsNorm{b.eps}, {of, weight});
  };
  const int64_t begin = low_last ? 0 : b.rank;
  return {part(low_last ? 2 * b.state : 0, b.rank, "ssm_dt_norm"),
          part(begin, b.state, "ssm_b_norm"), part(begin + b.state, b.state, "ssm_c_norm")};
}

ValueId mamba_block(ModelBuilder& m, ValueId x, int64_t layer, const MambaBlock& b, int32_t cache) {
  GraphBuilder& g = m.g;
  const auto name = [&](const char* part) { return block_name(layer, part); };
  const int64_t embedding = g.value(x).desc.shape[0];
  const ValueId all = m.linear(x, name("ssm_in"), 2 * b.inner);
  const ValueId mixed =
      m.causal_conv(g.slice(all, 0, b.inner), name("ssm_conv1d"), b.taps, cache, true);
  const MambaParts parts = mamba_parts(m, mixed, layer, b);
  const ValueId step = m.linear(parts.low, name("ssm_dt"), b.inner);
  const ValueId scanned =
      g.add(op::SsmScan{cache, b.before_scan(), 0, true},
            {mixed, parts.write, parts.read, step, m.weight(name("ssm_a"), {b.state, b.inner}),
             kNoValue, m.weight(name("ssm_d"), {b.inner}), g.input(StepInput::slots),
             g.input(StepInput::sequences)});
  const ValueId gated = g.add(op::Glu{}, {g.slice(all, b.inner, b.inner), scanned});
  return m.linear(gated, name("ssm_out"), embedding);
}

void map_mamba(CheckpointMap& m, int64_t layer, const std::string& part, int64_t state,
               int64_t taps) {
  m.keys.set_int("ssm.conv_kernel", taps);
  m.keys.set_int("ssm.inner_size", channels_of(m, layer, part));
  m.keys.set_int("ssm.state_size", state);
  m.keys.set_int("ssm.time_step_rank",
                 m.tensors.shape_of(layer_name(layer, part + ".dt_proj.weight"))[0]);
}

void map_mamba_layer(CheckpointMap& m, int64_t layer, const std::string& part, int64_t state,
                     int64_t taps) {
  const std::string from = layer_name(layer, part) + ".";
  const auto to = [&](const char* tensor) { return block_name(layer, tensor); };
  CheckpointTensors& t = m.tensors;
  const int64_t inner = channels_of(m, layer, part);
  for (const auto& [name, made] : {std::pair{"in_proj", "ssm_in"},
                                   {"x_proj", "ssm_x"},
                                   {"dt_proj", "ssm_dt"},
                                   {"out_proj", "ssm_out"},
                                   {"conv1d", "ssm_conv1d"},
                                   {"dt_layernorm", "ssm_dt_norm"},
                                   {"b_layernorm", "ssm_b_norm"},
                                   {"c_layernorm", "ssm_c_norm"}}) {
    t.copy(from + name + ".bias", to(made) + ".bias");
    t.copy(from + name + kProductScale, to(made) + kProductScale);
    if (std::string(name) != "conv1d") t.copy(from + name + ".weight", to(made) + ".weight");
  }
  t.put(to("ssm_conv1d.weight"), t.view(from + "conv1d.weight", {taps, inner}));
  std::vector<float> decays = t.values(from + "A_log", inner * state);
  for (float& a : decays) a = static_cast<float>(-portable::exp(a));
  t.put_values(to("ssm_a"), decays, {state, inner});
  t.put_values(to("ssm_d"), t.values(from + "D", inner));
}

}  // namespace infer
