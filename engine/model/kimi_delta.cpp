#include "engine/model/kimi_delta.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "engine/core/portable_math.h"

namespace infer {
namespace {

constexpr int64_t kMostDeltaWidth = int64_t{1} << 20;
constexpr float kUnitDeltaEps = 1e-6f;  ///< of the lengths of q and k, whatever the file says

void map_layer(CheckpointMap& m, int64_t layer, const KimiDelta& net) {
  CheckpointTensors& t = m.tensors;
  const std::string from = layer_name(layer, "self_attn.");
  const int64_t width = net.width();
  const bool joined = t.has(from + "conv1d.weight");
  constexpr const char* kParts[] = {"q", "k", "v"};
  for (int64_t i = 0; i < 3; ++i) {
    const std::string part = kParts[i];
    const TensorView taps =
        joined ? t.view(from + "conv1d.weight", {net.taps, width, 3}).sliced(2, i, 1)
               : t.view(from + part + "_conv1d.weight", {net.taps, width});
    t.put_parts(block_name(layer, "ssm_conv1d_") + part + ".weight", {taps}, {net.taps, 1, width});
  }
  std::vector<float> decays = t.values(from + "A_log", net.heads);
  for (float& a : decays) a = static_cast<float>(-portable::exp(a));
  if (net.flat) {
    t.put_values(block_name(layer, "ssm_a"), std::move(decays));
  } else {
    t.put_values(block_name(layer, "ssm_a"), std::move(decays), {1, net.heads});
  }
  t.put_values(block_name(layer, "ssm_dt.bias"), t.values(from + "dt_bias", width));
}

}  // namespace

KimiDelta::KimiDelta(HparamReader& r, const DecoderParams& params)
    : heads(params.heads),
      dim(r.need_int("kda.head_dim", 1, kMostDeltaWidth)),
      taps(r.need_int("ssm.conv_kernel", 2, kMostTaps)),
      bound(static_cast<float>(r.get_float("kda.gate_lower_bound", 0.0))),
      eps(params.eps) {
  if (bound <= 0) return;
  r.set_error(error(StatusCode::bad_file,
                    "{}: key '{}.kda.gate_lower_bound': expected a number below 0, found {}",
                    r.metadata().source(), r.architecture(), bound));
}

void KimiDelta::set_heads(AttentionBlock& attention) const {
  attention.kv_heads = attention.heads;
  attention.head_dim = attention.value_dim = dim;
}

ValueId kimi_delta_block(ModelBuilder& m, ValueId x, const AttentionBlock& attention,
                         const KimiDelta& net, int32_t cache) {
  const auto name = [&](const char* part) { return block_name(attention.layer, part); };
  GraphBuilder& g = m.g;
  const int64_t embedding = g.value(x).desc.shape[0];
  const auto heads = [&](ValueId a) { return g.split_heads(a, net.heads); };
  const auto project = [&](const char* first, const char* second) {
    if (!m.has(name(second) + ".weight")) return heads(m.linear(x, name(first), net.width()));
    return heads(m.linear(m.linear(x, name(first), net.dim), name(second), net.width()));
  };
  const ValueId step = project("ssm_f_a", "ssm_f_b");
  const ValueId write = m.linear(x, name("ssm_beta"), net.heads);
  const ValueId gate = project(m.has(name("ssm_g.weight")) ? "ssm_g" : "ssm_g_a", "ssm_g_b");
  std::array<ValueId, 3> qkv = project_qkv(m, x, attention);
  constexpr const char* kConvs[] = {"ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v"};
  for (size_t i = 0; i < qkv.size(); ++i) {
    qkv[i] = heads(m.causal_conv(qkv[i], name(kConvs[i]), net.taps, cache, true,
                                 net.conv_at(static_cast<int64_t>(i))));
  }
  // A key of length one is one of mean square 1 / dim.
  const auto width = static_cast<float>(net.dim);
  const op::RmsNorm unit{kUnitDeltaEps / width};
  const op::DeltaScan scan{cache, net.conv_at(3), 1.0f / width, 1.0f / std::sqrt(width),
                           false, true,           net.bound};
  const ValueId rates = net.flat ? m.weight(name("ssm_a"), {net.heads})
                                 : g.merge_heads(m.weight(name("ssm_a"), {1, net.heads}));
  ValueId out =
      g.add(scan, {g.add(unit, {qkv[0], kNoValue}), g.add(unit, {qkv[1], kNoValue}), qkv[2], step,
                   write, rates, m.weight(name("ssm_dt.bias"), {net.width()}),
                   g.input(StepInput::slots), g.input(StepInput::sequences)});
  out = m.rms_norm(out, name("ssm_norm.weight"), net.eps);
  out = g.add(op::Glu{op::Glu::Kind::sigmoid}, {gate, out});
  return m.linear(g.merge_heads(out), name("attn_output"), embedding);
}

void rename_delta_keys(CheckpointMap& m) {
  constexpr std::pair<const char*, const char*> kRenamed[] = {
      {"max_position_embeddings", "model_max_length"},
      {"n_routed_experts", "num_experts"},
      {"n_routed_experts", "num_local_experts"},
      {"num_experts_per_tok", "num_experts_per_token"},
      {"n_shared_experts", "num_shared_experts"},
      {"norm_topk_prob", "moe_renormalize"},
      {"scoring_func", "moe_router_activation_func"},
      {"n_group", "num_expert_group"},
      {"linear_head_dim", "linear_attn_config.head_dim"},
      {"linear_num_heads", "linear_attn_config.num_heads"},
      {"linear_conv_kernel_dim", "linear_attn_config.short_conv_kernel_size"},
      {"scoring_func", "score_function"},
      {"linear_conv_kernel_dim", "short_conv_kernel_size"}};
  for (const auto& [usual, own] : kRenamed) {
    const MetaValue* const value = m.config.values().find(m.config.prefix() + own);
    if (value == nullptr || m.config.has(usual)) continue;
    const MetaValue copy = *value;
    m.config.assume(usual, copy);
  }
}

void map_kimi_delta(CheckpointMap& m, const std::vector<bool>& delta, bool flat) {
  KimiDelta net;
  net.flat = flat;
  net.heads = m.config.get_int("linear_num_heads", m.head_count(), 1, 4096);
  net.dim = m.config.need_int("linear_head_dim", 1, kMostDeltaWidth);
  net.taps = m.config.get_int("linear_conv_kernel_dim", 4, 2, kMostTaps);
  m.config.require(net.heads == m.head_count(), "this linear_num_heads");
  m.keys.set_int("kda.head_dim", net.dim);
  m.keys.set_int("ssm.conv_kernel", net.taps);
  m.layers({{"self_attn.k_proj", "attn_k"},
            {"self_attn.v_proj", "attn_v"},
            {"self_attn.b_proj", "ssm_beta"},
            {"self_attn.o_norm", "ssm_norm"}});
  std::vector<int64_t> heads;
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const auto layer = static_cast<size_t>(i);
    heads.push_back(layer < delta.size() && delta[layer] ? 0 : 1);
    if (heads.back() == 0 && m.config.status().ok()) map_layer(m, i, net);
  }
  m.keys.set_ints("attention.head_count_kv", heads);
}

std::vector<bool> linear_layers(CheckpointMap& m) {
  std::vector<bool> linear;
  const std::vector<std::string>* types = m.config.get_strings("layer_types");
  if (types == nullptr) return linear;
  for (const std::string& type : *types) {
    linear.push_back(type == "linear_attention");
    m.config.require(linear.back() || type == "full_attention", "these layer_types");
  }
  m.config.require(std::ssize(linear) == m.layer_count(), "this number of layer_types");
  linear.resize(static_cast<size_t>(m.layer_count()), false);
  return linear;
}

std::vector<bool> listed_delta_layers(CheckpointMap& m) {
  std::vector<bool> delta = linear_layers(m);
  if (!delta.empty()) return delta;
  delta.assign(static_cast<size_t>(m.layer_count()), true);
  const std::vector<int64_t> full = m.config.get_ints("linear_attn_config.full_attn_layers");
  m.config.require(!full.empty(), "a configuration without layer_types and full_attn_layers");
  for (const int64_t number : full) {
    const bool there = number >= 1 && number <= m.layer_count();
    m.config.require(there, "these full_attn_layers");
    if (there) delta[static_cast<size_t>(number - 1)] = false;
  }
  return delta;
}

}  // namespace infer
