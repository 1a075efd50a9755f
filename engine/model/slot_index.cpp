#include "engine/model/slot_index.h"

#include <algorithm>
#include <utility>

#include "engine/core/checked.h"

namespace infer {
namespace {

constexpr int64_t kMostChosen = 1 << 16;
constexpr int64_t kMostHeads = 1 << 16;
constexpr int64_t kMostKey = 1 << 12;

}  // namespace

int64_t SlotIndex::pool_state() const { return round_up(3 * key, kStatePad); }

void SlotIndex::read(HparamReader& r, const std::vector<bool>& has, int64_t least,
                     std::vector<KvLayerShape>& layers) {
  count = static_cast<int32_t>(r.need_int("attention.indexer.top_k", 1, kMostChosen));
  heads = r.need_int("attention.indexer.head_count", 1, kMostHeads);
  key = r.need_int("attention.indexer.key_length", std::max<int64_t>(least, 1), kMostKey);
  caches.assign(has.size(), -1);
  KvLayerShape shape{1, static_cast<int32_t>(key), static_cast<int32_t>(key)};
  shape.v_in_k = true;  // there are no values
  shape.tokens = block;
  for (size_t layer = 0; layer < has.size(); ++layer) {
    if (!has[layer]) continue;
    caches[layer] = static_cast<int32_t>(layers.size());
    shape.layer = static_cast<int32_t>(layer);
    layers.push_back(shape);
  }
}

ValueId choose_slots(ModelBuilder& m, ValueId x, ValueId latent, int64_t layer,
                     const SlotIndex& index) {
  const int32_t cache = index.caches[static_cast<size_t>(layer)];
  if (cache < 0) return m.chosen_slots;
  const auto name = [&](const char* part) { return block_name(layer, part); };
  const auto turned = [&](ValueId a) {
    if (!index.rotates) return a;
    if (index.unturned == 0) return m.rope(a, index.style);
    const ValueId rest = m.g.slice(a, index.unturned, index.key - index.unturned);
    return m.g.add(op::Concat{}, {m.g.slice(a, 0, index.unturned), m.rope(rest, index.style)});
  };
  const ValueId q = m.g.split_heads(
      m.linear(latent, name("indexer.attn_q_b"), index.heads * index.key), index.heads);
  ValueId k = m.layer_norm(m.linear(x, name("indexer.attn_k"), index.key), name("indexer.k_norm"),
                           index.eps);
  if (index.block > 1) {
    k = pool_blocks(m, k, m.linear(x, name("indexer_compressor_gate"), index.key),
                    name("indexer_compressor_ape.weight"),
                    {index.states[static_cast<size_t>(layer)], index.block});
  }
  const ValueId weights = m.linear(x, name("indexer.proj"), index.heads);
  return m.chosen_slots =
             m.select_slots(turned(q), turned(k), weights, {cache, index.count, index.block});
}

ValueId pool_blocks(ModelBuilder& m, ValueId value, ValueId gate, const std::string& table,
                    const op::BlockPool& pool) {
  const int64_t width = m.g.value(value).desc.shape[0];
  const ValueId places = m.g.input(StepInput::places, pool.block);
  const ValueId bias = m.g.add(op::Embed{}, {places, m.weight(table, {width, pool.block})});
  return m.g.add(pool, {value, m.add(bias, gate), m.g.input(StepInput::slots),
                        m.g.input(StepInput::sequences)});
}

void map_slot_index(CheckpointMap& m, int64_t heads, const std::vector<bool>& has, int64_t halves) {
  heads = m.config.get_int("index_n_heads", heads, 1, kMostHeads);
  const int64_t key =
      m.config.get_int("index_head_dim", 128, std::max<int64_t>(halves, 1), kMostKey);
  m.keys.set_int("attention.indexer.top_k", m.config.get_int("index_topk", 2048, 1, kMostChosen));
  m.keys.set_int("attention.indexer.head_count", heads);
  m.keys.set_int("attention.indexer.key_length", key);
  m.keys.set_flags("attention.indexer.types", has);
  m.layers({{"self_attn.indexer.weights_proj", "indexer.proj"}});
  if (halves == 0) {
    return m.layers({{"self_attn.indexer.wq_b", "indexer.attn_q_b"},
                     {"self_attn.indexer.wk", "indexer.attn_k"},
                     {"self_attn.indexer.k_norm", "indexer.k_norm"}});
  }
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const std::string from = layer_name(i, "self_attn.indexer.");
    put_turned(m, from + "wq_b", block_name(i, "indexer.attn_q_b"), key, heads, halves);
    put_turned(m, from + "wk", block_name(i, "indexer.attn_k"), key, 1, halves);
    put_turned(m, from + "k_norm", block_name(i, "indexer.k_norm"), key, 1, halves);
  }
}

void put_turned(CheckpointMap& m, const std::string& from, const std::string& to, int64_t rows,
                int64_t heads, int64_t turned) {
  CheckpointTensors& t = m.tensors;
  for (const char* kind : {".weight", ".bias"}) {
    if (!t.has(from + kind) || !t.ok()) continue;
    const bool vector =
        t.shape_of(from + kind)[0] == rows * heads && t.shape_of(from + kind)[1] == 1;
    const int64_t width = vector ? 1 : t.shape_of(from + kind)[0];
    const TensorView all = t.view(from + kind, {width, rows, heads});
    if (!t.ok()) return;
    std::vector<TensorView> parts;
    for (int64_t head = 0; head < heads; ++head) {
      const TensorView own = all.sliced(2, head, 1);
      if (rows > turned) parts.push_back(own.sliced(1, 0, rows - turned));
      for (int64_t i = 0; i < turned; ++i) {
        parts.push_back(own.sliced(1, rows - turned + i / 2 + i % 2 * (turned / 2), 1));
      }
    }
    if (vector) {
      t.put_parts(to + kind, std::move(parts), {rows * heads});
    } else {
      t.put_parts(to + kind, std::move(parts), {width, rows * heads});
    }
  }
}

std::vector<bool> indexed_layers(CheckpointConfig& config, int64_t layers) {
  std::vector<bool> has;
  const std::vector<std::string>* kinds = config.get_strings("indexer_types");
  if (kinds == nullptr) return has;
  for (const std::string& kind : *kinds) {
    config.require(kind == "full" || kind == "shared", "these indexer_types");
    has.push_back(kind == "full");
  }
  config.require(std::ssize(has) == layers, "indexer_types for another number of layers");
  has.resize(static_cast<size_t>(layers), false);
  return has;
}

}  // namespace infer
