// MiniMax-M3, text only: half-split RoPE over a part of the head and an RMSNorm on every q and k
// head; leading layers without experts, then experts chosen by sigmoid with a bias on the choice,
// beside one that every token takes, all with a clamped SwiGLU. In layers with an index the queries
// of each key head see some blocks of tokens, which the index chooses for them, the last one always
// among these. MiniMax 2026.
#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/core/log.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/decoder.h"
#include "engine/model/slot_index.h"

namespace infer {
namespace {

constexpr int64_t kMostTokens = 1 << 16;  ///< that a query sees
constexpr auto kStyle = op::Rope::Style::half_split;
constexpr double kAlpha = 1.702;
constexpr double kLimit = 7.0;

class MinimaxM3 final : public DecoderModel {
 public:
  explicit MinimaxM3(HparamReader& r) : DecoderModel(r, kStyle) {
    glu.kind = op::Glu::Kind::swiglu_oai;
    experts.route = read_route(r, params, 2, true);
    if (experts.shared_width == 0) {
      experts.shared_width = r.get_int("expert_shared_count", 1, 0, 1024) * experts.width;
    }
    for (AttentionBlock& block : attention) block.qk_norm = AttentionBlock::QkNorm::per_head;
    read_index(r);
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return attention_block(m, x, attention[static_cast<size_t>(layer)], choose(m, x, layer));
  }

 private:
  void read_index(HparamReader& r) {
    std::vector<bool> has;
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      has.push_back(weight_index(r.source(), block_name(layer, "indexer.q_proj.weight")) >= 0);
    }
    const std::string& file = r.metadata().source();
    if (std::ranges::none_of(has, std::identity{})) {
      log(LogLevel::warning,
          "{}: each query sees blocks of tokens that an index chooses, but the tensors of the "
          "index "
          "are missing: queries see all tokens",
          file);
      return;
    }
    index_.read(r, has, 2 * info_.ropes[0].pairs, info_.kv_layers);
    block_ = static_cast<int32_t>(
        r.need_int("attention.indexer.block_size", 1, kMostTokens / index_.count));
    const int64_t last = r.get_int("attention.indexer.local_blocks", 1, 0, kMostTokens);
    if (last != 1 || index_.count < 2) {
      r.set_error(error(StatusCode::unsupported,
                        "{}: attention.indexer: expected at least 2 blocks, the last of them "
                        "always chosen, found {} and {}",
                        file, index_.count, last));
    }
    index_.count *= block_;
    for (AttentionBlock& block : attention) {
      if (!has[static_cast<size_t>(block.layer)]) continue;
      block.chosen_block = block_;
      block.chosen_by_head = true;
      if (block.kv_heads != index_.heads) {
        r.set_error(error(StatusCode::unsupported,
                          "{}: attention.indexer.head_count: expected as many as key heads, {}, "
                          "found {}",
                          file, block.kv_heads, index_.heads));
      }
    }
  }

  /// The slots that a layer's queries see, by key head; kNoValue: all.
  ValueId choose(ModelBuilder& m, ValueId x, int64_t layer) const {
    if (index_.caches.empty() || m.embeds()) return kNoValue;
    const int32_t cache = index_.caches[static_cast<size_t>(layer)];
    if (cache < 0) return kNoValue;
    const auto turned = [&](const char* of, int64_t heads) {
      const std::string name = block_name(layer, "indexer.") + of;
      const ValueId all = m.g.split_heads(m.linear(x, name + "_proj", heads * index_.key), heads);
      return m.rope(m.rms_norm(all, name + "_norm.weight", params.eps), kStyle);
    };
    const ValueId q = turned("q", index_.heads);
    return m.select_slots(q, turned("k", 1), kNoValue, {cache, index_.count, block_, false, true});
  }

  SlotIndex index_;
  int32_t block_ = 1;  ///< tokens of a block
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<MinimaxM3>(r), r);
}

/// Published configurations have the settings of the index in a section of their own.
void map_index(CheckpointMap& m) {
  const std::string section = "sparse_attention_config.";
  const auto setting = [&](const char* here, const char* there, int64_t absent) {
    return m.config.get_int(section + there, m.config.get_int(here, absent, 0, kMostTokens), 0,
                            kMostTokens);
  };
  m.keys.set_int("attention.indexer.head_count",
                 setting("index_n_heads", "sparse_num_index_heads", 4));
  m.keys.set_int("attention.indexer.key_length",
                 setting("index_head_dim", "sparse_index_dim", 128));
  m.keys.set_int("attention.indexer.top_k", setting("index_topk_blocks", "sparse_topk_blocks", 16));
  m.keys.set_int("attention.indexer.block_size",
                 setting("index_block_size", "sparse_block_size", 128));
  m.keys.set_int("attention.indexer.local_blocks",
                 setting("index_local_blocks", "sparse_local_block", 1));
  m.config.require(setting("index_local_blocks", "sparse_local_block", 1) == 1,
                   "other local_blocks than the last one");
  m.config.require(m.config.get_int(section + "sparse_init_block", 0, 0, kMostTokens) == 0,
                   "sparse_init_block");
  m.config.require(m.config.get_string(section + "sparse_score_type", "max") == "max",
                   "this sparse_score_type");
  std::vector<bool> has(static_cast<size_t>(m.layer_count()), false);
  const std::vector<int64_t> flags = m.config.get_ints(section + "sparse_attention_freq");
  if (const std::vector<std::string>* kinds = m.config.get_strings("layer_types")) {
    has.clear();
    for (const std::string& kind : *kinds) {
      has.push_back(kind == "minimax_m3_sparse");
      m.config.require(has.back() || kind == "full_attention", "these layer_types");
    }
  } else if (!flags.empty()) {
    has.clear();
    for (const int64_t flag : flags) has.push_back(flag != 0);
  }
  m.config.require(std::ssize(has) == m.layer_count(), "layer_types for another number of layers");
  for (int64_t i = 0; i < m.layer_count() && m.tensors.ok(); ++i) {
    const std::string at = layer_name(i, "self_attn.");
    for (const char* part : {"q_proj.", "k_proj.", "q_norm.", "k_norm."}) {
      m.tensors.also_named(at + "index_" + part, at + "indexer." + part);
    }
    m.config.require(m.tensors.has(at + "indexer.q_proj.weight") == has[static_cast<size_t>(i)],
                     "layers whose index is not where layer_types says");
  }
  m.layers({{"self_attn.indexer.q_proj", "indexer.q_proj"},
            {"self_attn.indexer.k_proj", "indexer.k_proj"},
            {"self_attn.indexer.q_norm", "indexer.q_norm", Change::add_one},
            {"self_attn.indexer.k_norm", "indexer.k_norm", Change::add_one}});
}

/// The names of published checkpoints and of transformers' own.
void map_feed_forward(CheckpointMap& m, int64_t width) {
  const std::vector<int64_t> sparse = m.config.get_ints("moe_layer_freq");
  if (!sparse.empty()) {
    const auto dense = std::ranges::find_if(sparse, [](int64_t flag) { return flag != 0; });
    m.config.require(
        std::ssize(sparse) == m.layer_count() && std::find(dense, sparse.end(), 0) == sparse.end(),
        "this moe_layer_freq");
    m.config.assume("first_k_dense_replace", int64_t{dense - sparse.begin()});
    m.config.replace("moe_layer_freq", int64_t{1});
  }
  const int64_t shared = m.config.get_int("n_shared_experts", 1, 0, 1024);
  m.config.assume("n_shared_experts", shared);
  m.config.assume("n_routed_experts", m.config.need_int("num_local_experts", 1, 65536));
  m.config.assume("moe_intermediate_size", width);
  m.config.assume("routed_scaling_factor", 2.0);
  const int64_t shared_width = m.config.get_int("shared_intermediate_size", width, 1, kMaxWidth);
  if (shared_width != width) {
    m.keys.set_int("expert_shared_feed_forward_length", shared * shared_width);
  }
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const std::string at = layer_name(i, "");
    const std::string to = block_name(i, "ffn_");
    m.tensors.also_named(at + "block_sparse_moe.e_score", at + "mlp.gate.e_score");
    m.tensors.also_named(at + "block_sparse_moe.", at + "mlp.");
    const auto split = [&](const std::string& both, const std::string& suffix) {
      if (!m.tensors.has(both)) return;
      m.tensors.split_rows(both, to + "gate" + suffix, to + "up" + suffix);
    };
    split(at + "mlp.gate_up_proj.weight", ".weight");
    split(at + "mlp.shared_experts.gate_up_proj.weight", "_shexp.weight");
  }
  m.feed_forward();
  map_deepseek_experts(m, DeepseekRouting::v3, {"w1", "w3", "w2"});
}

void map(CheckpointMap& m) {
  if (m.config.get_string("hidden_act", "") == "swigluoai") {
    m.config.replace("hidden_act", std::string("silu"));
  }
  const int64_t width = m.config.need_int("intermediate_size", 1, kMaxWidth);
  m.config.replace("intermediate_size",
                   m.config.get_int("dense_intermediate_size", 12288, 1, kMaxWidth));
  const auto head = static_cast<double>(m.config.need_int("head_dim", 1, kMaxWidth));
  const auto rotated = static_cast<double>(m.config.get_int("rotary_dim", 64, 1, kMaxWidth));
  m.config.assume("partial_rotary_factor", rotated / head);
  m.begin({.architecture = "minimax-m3", .rope_base = 5e6});
  m.config.require(m.config.get_bool("use_gemma_norm", true), "use_gemma_norm false");
  m.config.require(m.config.get_bool("use_qk_norm", true), "use_qk_norm false");
  m.config.require(m.config.get_string("qk_norm_type", "per_head") == "per_head",
                   "this qk_norm_type");
  m.config.require(m.config.get_float("swiglu_limit", kLimit) == kLimit, "this swiglu_limit");
  m.config.require(std::fabs(m.config.get_float("swiglu_alpha", kAlpha) - kAlpha) < 1e-6,
                   "this swiglu_alpha");
  m.ends(Change::add_one);
  m.layers({{"input_layernorm", "attn_norm", Change::add_one},
            {"post_attention_layernorm", "ffn_norm", Change::add_one},
            {"self_attn.q_norm", "attn_q_norm", Change::add_one},
            {"self_attn.k_norm", "attn_k_norm", Change::add_one}});
  m.attention();
  map_index(m);
  map_feed_forward(m, width);
  m.tensors.ignore_prefix("mtp.");
  m.tensors.ignore_prefix("patch_merge_mlp.");
}

}  // namespace

const ArchDef& minimax_m3_arch() {
  static constexpr const char* kNames[] = {"minimax-m3"};
  static constexpr const char* kCheckpoints[] = {
      "MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration",
      "MiniMaxM3VLForCausalLM", "MiniMaxM3VLForConditionalGeneration"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
