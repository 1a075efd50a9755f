// Apertus: half-split RoPE, an RMSNorm on every q and k head, and a feed-forward without a gate,
// whose activation (xIELU) has learned parameters in every layer. Swiss AI Initiative 2025.
#include "engine/core/portable_math.h"
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

#include <cmath>

namespace infer {
namespace {

constexpr const char* kParameters[] = {"alpha_n", "alpha_p", "beta", "eps"};

double softplus(double x) {
  return portable::log1p(portable::exp(-std::fabs(x))) + std::max(x, 0.0);
}

class Apertus final : public DecoderModel {
 public:
  explicit Apertus(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    for (AttentionBlock& block : attention) block.qk_norm = AttentionBlock::QkNorm::per_head;
    std::vector<float> values[std::size(kParameters)];
    for (size_t i = 0; i < std::size(kParameters); ++i) {
      values[i] = read(r, std::string("xielu.") + kParameters[i]);
    }
    for (size_t layer = 0; layer < static_cast<size_t>(params.layers); ++layer) {
      const float beta = values[2][layer];
      activations_.push_back({static_cast<float>(softplus(values[1][layer])),
                              static_cast<float>(beta + softplus(values[0][layer])), beta,
                              values[3][layer]});
    }
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const auto i = static_cast<size_t>(layer);
    const ValueId up = m.linear(x, block_name(layer, "ffn_up"), params.feed_forward[i]);
    return m.linear(m.g.add(activations_[i], {up}), block_name(layer, "ffn_down"),
                    params.embedding);
  }

 private:
  /// A value for each layer. These keys do not begin with the architecture's name.
  std::vector<float> read(HparamReader& r, const std::string& key) const {
    Result<std::optional<std::vector<float>>> found = r.metadata().get_floats(key);
    const auto layers = static_cast<size_t>(params.layers);
    if (!found) {
      r.set_error(std::move(found).error());
    } else if (!found->has_value()) {
      r.set_error(
          error(StatusCode::bad_file, "{}: key '{}' is missing", r.metadata().source(), key));
    } else if ((*found)->size() != layers) {
      r.set_error(error(StatusCode::bad_file, "{}: key '{}': expected {} values, found {}",
                        r.metadata().source(), key, layers, (*found)->size()));
    } else {
      return std::move(**found);
    }
    return std::vector<float>(layers, 0.0f);
  }

  std::vector<op::Xielu> activations_;  ///< by layer
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Apertus>(r), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "apertus", .activation = "xielu", .rope_base = 12e6});
  m.ends();
  m.layers({{"attention_layernorm", "attn_norm"},
            {"feedforward_layernorm", "ffn_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"}});
  m.attention();
  m.feed_forward();
  for (const char* part : kParameters) {
    std::vector<float> values;
    for (int64_t i = 0; i < m.layer_count(); ++i) {
      const std::string name = layer_name(i, std::string("mlp.act_fn.") + part);
      values.push_back(m.tensors.values(name, 1).front());
    }
    m.keys.set_whole(std::string("xielu.") + part, std::move(values));
  }
}

}  // namespace

const ArchDef& apertus_arch() {
  static constexpr const char* kNames[] = {"apertus"};
  static constexpr const char* kCheckpoints[] = {"ApertusForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
