#include "engine/model/mamba2.h"

#include "engine/core/portable_math.h"
#include "engine/model/builder.h"

namespace infer {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 20;
constexpr int64_t kMostMamba2Heads = 4096;
/// A step is never so long.
constexpr float kLargestStep = 1e6f;

}  // namespace

Mamba2Block::Mamba2Block(HparamReader& r, float epsilon)
    : inner(r.need_int("ssm.inner_size", 1, kMaxSize)),
      state(r.need_int("ssm.state_size", 1, kMaxSize)),
      heads(r.need_int("ssm.time_step_rank", 1, kMostMamba2Heads)),
      groups(r.get_int("ssm.group_count", 1, 1, kMostMamba2Heads)),
      taps(r.need_int("ssm.conv_kernel", 2, kMostTaps)),
      eps(epsilon) {
  if (inner % heads == 0 && heads % groups == 0) return;
  r.set_error(error(StatusCode::bad_file,
                    "{}: {} ssm heads in {} groups do not divide a width of {}",
                    r.metadata().source(), heads, groups, inner));
  heads = groups = 1;
}

ValueId mamba2_block(ModelBuilder& m, ValueId x, int64_t layer, const Mamba2Block& b,
                     int32_t cache) {
  GraphBuilder& g = m.g;
  const auto name = [&](const char* part) { return block_name(layer, part); };
  const int64_t embedding = g.value(x).desc.shape[0];
  const int64_t each = b.groups * b.state;
  const ValueId all = m.linear(x, name("ssm_in"), b.inner + b.channels() + b.heads);
  const ValueId gate = g.slice(all, 0, b.inner);
  const ValueId mixed =
      m.causal_conv(g.slice(all, b.inner, b.channels()), name("ssm_conv1d"), b.taps, cache, true);
  const auto part = [&](int64_t begin, int64_t length, int64_t heads) {
    return g.split_heads(g.slice(mixed, begin, length), heads);
  };
  const auto one_each = [&](const char* tensor) {
    return g.merge_heads(m.weight(name(tensor), {1, b.heads}));
  };
  const ValueId a = one_each("ssm_a");
  const ValueId d = one_each("ssm_d");
  const ValueId scanned =
      g.add(op::SsmScan{cache, b.before_scan()},
            {part(0, b.inner, b.heads), part(b.inner, each, b.groups),
             part(b.inner + each, each, b.groups), g.slice(all, b.inner + b.channels(), b.heads), a,
             m.weight(name("ssm_dt.bias"), {b.heads}), d, g.input(StepInput::slots),
             g.input(StepInput::sequences)});
  ValueId out = g.add(op::Glu{}, {gate, g.merge_heads(scanned)});
  const ValueId norm = m.optional_weight(name("ssm_norm.weight"), {b.inner / b.groups, b.groups});
  if (norm != kNoValue && b.groups == 1) {
    out = g.add(op::RmsNorm{b.eps}, {out, norm});
  } else if (norm != kNoValue) {
    out = g.add(op::RmsNorm{b.eps}, {g.split_heads(out, b.groups), kNoValue});
    out = g.add(op::Multiply{}, {g.merge_heads(out), g.merge_heads(norm)});
  }
  return m.linear(out, name("ssm_out"), embedding);
}

Mamba2Sizes read_mamba2_sizes(CheckpointMap& m) {
  Mamba2Sizes sizes;
  sizes.heads = m.config.need_int("mamba_n_heads", 1, kMostMamba2Heads);
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxSize);
  const int64_t head = m.config.get_int("mamba_expand", 2, 1, 64) * width / sizes.heads;
  sizes.head = m.config.get_int("mamba_d_head", head, 1, kMaxSize);
  sizes.state = m.config.need_int("mamba_d_state", 1, kMaxSize);
  sizes.groups = m.config.get_int("mamba_n_groups", 1, 1, sizes.heads);
  sizes.taps = m.config.get_int("mamba_d_conv", 4, 2, kMostTaps);
  require_open_steps(m);
  return sizes;
}

void require_open_steps(CheckpointMap& m) {
  const std::vector<float> limits = m.config.get_floats("time_step_limit");
  const bool open = limits.size() != 2 || (limits[0] == 0 && limits[1] >= kLargestStep);
  m.config.require(open, "this time_step_limit");
}

void map_mamba2(CheckpointMap& m, const Mamba2Sizes& s) {
  m.keys.set_int("ssm.conv_kernel", s.taps);
  m.keys.set_int("ssm.state_size", s.state);
  m.keys.set_int("ssm.group_count", s.groups);
  m.keys.set_int("ssm.inner_size", s.heads * s.head);
  m.keys.set_int("ssm.time_step_rank", s.heads);
}

void map_mamba2_layer(CheckpointMap& m, const Mamba2Sizes& s, int64_t layer,
                      const std::string& part) {
  const std::string from = layer_name(layer, part) + ".";
  const auto to = [&](const char* tensor) { return block_name(layer, tensor); };
  CheckpointTensors& t = m.tensors;
  const int64_t inner = s.heads * s.head;
  for (const auto& [name, made] :
       {std::pair{"in_proj", "ssm_in"}, {"out_proj", "ssm_out"}, {"conv1d", "ssm_conv1d"}}) {
    t.copy(from + name + ".bias", to(made) + ".bias");
    t.copy(from + name + kProductScale, to(made) + kProductScale);
    if (std::string(name) != "conv1d" && !s.scaled)
      t.copy(from + name + ".weight", to(made) + ".weight");
  }
  t.put(to("ssm_conv1d.weight"),
        t.view(from + "conv1d.weight", {s.taps, inner + 2 * s.groups * s.state}));
  std::vector<float> decays = t.values(from + "A_log", s.heads);
  for (float& a : decays) a = static_cast<float>(-portable::exp(a));
  t.put_values(to("ssm_a"), decays, {1, s.heads});
  t.put_values(to("ssm_d"), t.values(from + "D", s.heads), {1, s.heads});
  t.copy(from + "dt_bias", to("ssm_dt.bias"));
  if (t.has(from + "norm.weight")) {
    t.put(to("ssm_norm.weight"), t.view(from + "norm.weight", {inner / s.groups, s.groups}));
  }
}

}  // namespace infer
