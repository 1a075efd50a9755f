#include "engine/model/delta_net.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/core/portable_math.h"
#include "engine/model/checkpoint_experts.h"

namespace infer {
namespace {

constexpr int64_t kMostNetHeads = 4096;
constexpr int64_t kMostNetWidth = int64_t{1} << 20;
constexpr float kUnitEps = 1e-6f;  ///< of the lengths of q and k, whatever the file says

/// Queries, keys and values side by side, and the gate of the values.
std::pair<ValueId, ValueId> channels(ModelBuilder& m, ValueId x, int64_t layer,
                                     const DeltaNet& net) {
  const auto name = [&](const char* part) { return block_name(layer, part); };
  if (!m.has(name("ssm_in.weight"))) {
    const ValueId mixed = m.linear(x, name("attn_qkv"), net.channels());
    return {mixed, m.linear(x, name("attn_gate"), net.values())};
  }
  // Older files of Qwen3-Next have all four in one, those of a key head together.
  GraphBuilder& g = m.g;
  const int64_t values = net.values() / net.key_heads;
  const ValueId all =
      g.split_heads(m.linear(x, name("ssm_in"), 2 * (net.keys() + net.values())), net.key_heads);
  // Joining two halves brings the heads of a part together.
  const auto part = [&](int64_t begin, int64_t width) {
    const int64_t half = width / 2;
    return g.merge_heads(
        g.add(op::Concat{}, {g.slice(all, begin, half), g.slice(all, begin + half, width - half)}));
  };
  const ValueId q = part(0, net.dim);
  const ValueId k = part(net.dim, net.dim);
  const ValueId v = part(2 * net.dim, values);
  const ValueId mixed = g.add(op::Concat{}, {g.add(op::Concat{}, {q, k}), v});
  return {mixed, part(2 * net.dim + values, values)};
}

/// What the state is changed with and how far it decays, before their activations.
std::pair<ValueId, ValueId> gates(ModelBuilder& m, ValueId x, int64_t layer, const DeltaNet& net) {
  const auto name = [&](const char* part) { return block_name(layer, part); };
  if (!net.grouped) {
    const ValueId write = m.linear(x, name("ssm_beta"), net.heads);
    return {write, m.linear(x, name("ssm_alpha"), net.heads)};
  }
  // Those of the heads of a key head lie together.
  const int64_t each = net.heads / net.key_heads;
  const ValueId both = m.g.split_heads(m.linear(x, name("ssm_ba"), 2 * net.heads), net.key_heads);
  return {m.g.slice(both, 0, each), m.g.slice(both, each, each)};
}

/// A checkpoint's delta nets. Its value heads that share a key head lie together; in files from
/// Qwen 3.5 on they lie in turns: first the first one of each key head.
class NetMap {
 public:
  NetMap(CheckpointMap& m, bool turns) : m_(m), turns_(turns) {
    net_.key_heads = m.config.need_int("linear_num_key_heads", 1, kMostNetHeads);
    net_.heads = m.config.need_int("linear_num_value_heads", 1, kMostNetHeads);
    net_.dim = m.config.need_int("linear_key_head_dim", 1, kMostNetWidth);
    net_.taps = m.config.get_int("linear_conv_kernel_dim", 4, 2, kMostTaps);
    m.config.require(m.config.need_int("linear_value_head_dim", 1, kMostNetWidth) == net_.dim,
                     "values of another width than keys");
    m.config.require(net_.heads % net_.key_heads == 0, "this number of value heads");
    each_ = std::max<int64_t>(1, net_.heads / net_.key_heads);
    width_ = m.config.need_int("hidden_size", 1, kMostNetWidth);
    m.keys.set_int("ssm.conv_kernel", net_.taps);
    m.keys.set_int("ssm.state_size", net_.dim);
    m.keys.set_int("ssm.group_count", net_.key_heads);
    m.keys.set_int("ssm.time_step_rank", net_.heads);
    m.keys.set_int("ssm.inner_size", net_.values());
  }

  void layer(int64_t i) {
    const std::string from = layer_name(i, "linear_attn.");
    const auto to = [&](const char* part) { return block_name(i, part); };
    CheckpointTensors& t = m_.tensors;
    if (turns_) {
      rows(t.view(from + "in_proj_qkv.weight", {width_, net_.channels()}), to("attn_qkv.weight"));
      value_heads(t.view(from + "in_proj_z.weight", {width_, net_.dim, net_.heads}), net_.dim,
                  to("attn_gate.weight"));
      value_heads(t.view(from + "in_proj_b.weight", {width_, 1, net_.heads}), 1,
                  to("ssm_beta.weight"));
      value_heads(t.view(from + "in_proj_a.weight", {width_, 1, net_.heads}), 1,
                  to("ssm_alpha.weight"));
    } else {
      joined(t.view(from + "in_proj_qkvz.weight",
                    {width_, 2 * (net_.keys() + net_.values()) / net_.key_heads, net_.key_heads}),
             i);
      t.copy(from + "in_proj_ba.weight", to("ssm_ba.weight"));
    }
    rows(t.view(from + "conv1d.weight", {net_.taps, net_.channels()}), to("ssm_conv1d.weight"));
    std::vector<float> decays = t.values(from + "A_log", net_.heads);
    for (float& a : decays) a = static_cast<float>(-portable::exp(a));
    t.put_values(to("ssm_a"), in_turns(decays));
    t.put_values(to("ssm_dt.bias"), in_turns(t.values(from + "dt_bias", net_.heads)));
    t.copy(from + "norm.weight", to("ssm_norm.weight"));
    const TensorView out =
        t.view(from + "out_proj.weight", {net_.dim, each_, net_.key_heads, width_});
    t.put_parts(to("ssm_out.weight"), {turns_ ? out.swapped(1, 2) : out}, {net_.values(), width_});
  }

 private:
  /// Rows of all channels: of queries and keys as they are, then those of the values.
  void rows(const TensorView& all, const std::string& to) {
    std::vector<TensorView> parts;
    const auto part = [&](int64_t head) {
      parts.push_back(all.sliced(1, head * net_.dim, net_.dim));
    };
    for (int64_t h = 0; h < 2 * net_.key_heads; ++h) part(h);
    for (int64_t h = 0; h < net_.heads; ++h) part(2 * net_.key_heads + source_head(h));
    m_.tensors.put_parts(to, std::move(parts), {all.shape[0], net_.channels()});
  }

  /// Rows of value heads: [k, rows, heads].
  void value_heads(const TensorView& all, int64_t rows, const std::string& to) {
    std::vector<TensorView> parts;
    for (int64_t h = 0; h < net_.heads; ++h) parts.push_back(all.sliced(2, source_head(h), 1));
    m_.tensors.put_parts(to, std::move(parts), {all.shape[0], rows * net_.heads});
  }

  /// For each key head its query, its key, its values and their gates.
  void joined(const TensorView& all, int64_t layer) {
    std::vector<TensorView> channels;
    std::vector<TensorView> gates;
    const auto part = [&](int64_t key_head, int64_t place) {
      return all.sliced(2, key_head, 1).sliced(1, place * net_.dim, net_.dim);
    };
    for (int64_t place = 0; place < 2; ++place) {
      for (int64_t h = 0; h < net_.key_heads; ++h) channels.push_back(part(h, place));
    }
    for (int64_t h = 0; h < net_.heads; ++h) {
      channels.push_back(part(h / each_, 2 + h % each_));
      gates.push_back(part(h / each_, 2 + each_ + h % each_));
    }
    m_.tensors.put_parts(block_name(layer, "attn_qkv.weight"), std::move(channels),
                         {width_, net_.channels()});
    m_.tensors.put_parts(block_name(layer, "attn_gate.weight"), std::move(gates),
                         {width_, net_.values()});
  }

  int64_t source_head(int64_t head) const {
    return turns_ ? head % net_.key_heads * each_ + head / net_.key_heads : head;
  }

  std::vector<float> in_turns(const std::vector<float>& values) const {
    std::vector<float> moved;
    for (int64_t h = 0; h < net_.heads; ++h) {
      moved.push_back(values[static_cast<size_t>(source_head(h))]);
    }
    return moved;
  }

  CheckpointMap& m_;
  bool turns_;
  DeltaNet net_;
  int64_t each_ = 1;  ///< value heads of a key head
  int64_t width_ = 1;
};

}  // namespace

DeltaNet::DeltaNet(HparamReader& r, float epsilon)
    : key_heads(r.need_int("ssm.group_count", 1, kMostNetHeads)),
      heads(r.need_int("ssm.time_step_rank", 1, kMostNetHeads)),
      dim(r.need_int("ssm.state_size", 1, kMostNetWidth)),
      taps(r.need_int("ssm.conv_kernel", 2, kMostTaps)),
      eps(epsilon) {
  if (const int64_t inner = r.need_int("ssm.inner_size", 1, kMostNetWidth);
      inner != values() || heads % key_heads != 0) {
    r.set_error(error(StatusCode::bad_file,
                      "{}: ssm.inner_size: expected {} heads of {}, in {} groups, found {}",
                      r.metadata().source(), heads, dim, key_heads, inner));
  }
}

ValueId delta_net_block(ModelBuilder& m, ValueId x, int64_t layer, const DeltaNet& net,
                        int32_t cache) {
  const auto name = [&](const char* part) { return block_name(layer, part); };
  GraphBuilder& g = m.g;
  const int64_t embedding = g.value(x).desc.shape[0];
  const auto [mixed, gate] = channels(m, x, layer, net);
  const auto [write, step] = gates(m, x, layer, net);
  const ValueId u = m.causal_conv(mixed, name("ssm_conv1d"), net.taps, cache, true);
  // A key of length one is one of mean square 1 / dim.
  const auto width = static_cast<float>(net.dim);
  const op::RmsNorm unit{kUnitEps / width};
  const auto keys = [&](int64_t begin) {
    return g.add(unit, {g.split_heads(g.slice(u, begin, net.keys()), net.key_heads), kNoValue});
  };
  const ValueId q = keys(0);
  const ValueId k = keys(net.keys());
  const ValueId v = g.split_heads(g.slice(u, 2 * net.keys(), net.values()), net.heads);
  const op::DeltaScan scan{cache, net.before_scan(), 1.0f / width, 1.0f / std::sqrt(width),
                           !net.grouped};
  ValueId out = g.add(scan, {q, k, v, step, write, m.weight(name("ssm_a"), {net.heads}),
                             m.weight(name("ssm_dt.bias"), {net.heads}), g.input(StepInput::slots),
                             g.input(StepInput::sequences)});
  out = m.rms_norm(out, name("ssm_norm.weight"), net.eps);
  out = g.add(op::Glu{net.gate}, {g.split_heads(gate, net.heads), out});
  return m.linear(g.merge_heads(out), name("ssm_out"), embedding);
}

std::vector<bool> recurrent_layers(HparamReader& r, int64_t layers) {
  const std::string key = r.architecture() + ".attention.recurrent_layers";
  const auto count = static_cast<size_t>(layers);
  if (const MetaValue* value = r.metadata().find(key)) {
    const auto* flags = std::get_if<std::vector<bool>>(value);
    if (flags != nullptr && flags->size() >= count) {
      return {flags->begin(), flags->begin() + static_cast<ptrdiff_t>(count)};
    }
    r.set_error(error(StatusCode::bad_file, "{}: key '{}': expected {} flags",
                      r.metadata().source(), key, layers));
  }
  const auto period = static_cast<size_t>(r.get_int("full_attention_interval", 4, 1, 1024));
  std::vector<bool> recurrent;
  for (size_t i = 0; i < count; ++i) recurrent.push_back((i + 1) % period != 0);
  return recurrent;
}

std::vector<bool> map_delta_nets(CheckpointMap& m, bool turns, int64_t layers) {
  const int64_t period = m.config.get_int("full_attention_interval", 4, 1, 1024);
  const std::vector<std::string>* types = m.config.get_strings("layer_types");
  if (types != nullptr) {
    m.config.require(types->size() == static_cast<size_t>(layers), "this number of layer_types");
  }
  NetMap nets(m, turns);
  std::vector<bool> recurrent;
  for (int64_t i = 0; i < layers && m.config.status().ok(); ++i) {
    recurrent.push_back(types == nullptr ? (i + 1) % period != 0
                                         : (*types)[static_cast<size_t>(i)] == "linear_attention");
    if (recurrent.back()) nets.layer(i);
  }
  recurrent.resize(static_cast<size_t>(m.layer_count()), false);
  m.keys.set_flags("attention.recurrent_layers", recurrent);
  m.keys.set_int("full_attention_interval", period);
  return recurrent;
}

void map_gated_experts(CheckpointMap& m) {
  const int64_t experts = m.config.need_int("num_experts", 1, 65536);
  m.config.require(m.config.get_bool("norm_topk_prob", true), "norm_topk_prob false");
  m.config.require(m.config.get_int("decoder_sparse_step", 1, 0, 1024) == 1,
                   "this decoder_sparse_step");
  m.config.require(m.config.get_ints("mlp_only_layers").empty(), "mlp_only_layers");
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("num_experts_per_tok", 1, experts));
  m.keys.set_int("expert_feed_forward_length",
                 m.config.need_int("moe_intermediate_size", 1, kMostNetWidth));
  m.keys.set_int("expert_shared_feed_forward_length",
                 m.config.need_int("shared_expert_intermediate_size", 1, kMostNetWidth));
  m.layers({{"mlp.gate", "ffn_gate_inp"},
            {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
            {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
            {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
            {"mlp.shared_expert.down_proj", "ffn_down_shexp"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    add_experts(m.tensors, i, "mlp.experts", experts);
  }
}

}  // namespace infer
