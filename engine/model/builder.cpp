#include "engine/model/builder.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "engine/model/adapters.h"

namespace infer {
namespace {

/// Elements that a layer's queries and keys are rotated by at once, 0: none.
///
/// Some channels of keys are many times as large as others; in a block of Q4_0 that holds one, the
/// rest are rounded away. The orthonormal Hadamard transform H spreads each channel over all, and
/// leaves scores as they are: (Hq)·(Hk) = q·k (QuaRot, Ashkboos et al. 2024). Dimensions that are
/// no power of two are rotated in blocks of the largest that divides them. Values that lie in their
/// keys are rotated with these, H is its own inverse, and so the mix of them is turned back by H:
/// if they are whole blocks.
int64_t key_rotation(const KvGeometry& kv, int32_t layer) {
  constexpr int64_t kLeast = 32;  // elements of a block of Q4_0
  if (kv.k_type != DType::q4_0 || static_cast<size_t>(layer) >= kv.layers.size()) return 0;
  const KvLayerShape& shape = kv.layers[static_cast<size_t>(layer)];
  const int64_t block = shape.k_dim & -shape.k_dim;
  if (block < kLeast || (shape.v_in_k && shape.v_dim % block != 0)) return 0;
  return block;
}

}  // namespace

std::string block_name(int64_t layer, const char* part) {
  return fmt::format("blk.{}.{}", layer, part);
}

WeightTable::WeightTable(const WeightSource& source) : source_(source) {
  const std::span<const Weight> all = source.weights();
  by_name_.reserve(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    by_name_.emplace(all[i].name, static_cast<int32_t>(i));
  }
}

int32_t WeightTable::index(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? -1 : it->second;
}

Status ModelBuilder::check(const Weight& weight, std::initializer_list<int64_t> shape) const {
  std::array<int64_t, kMaxDims> expected{1, 1, 1, 1};
  std::copy(shape.begin(), shape.end(), expected.begin());
  const std::string& file = weights_.source().metadata().source();
  // What is no matrix (norms, biases, scales, sinks) is used as it is stored.
  const bool table = weight.name.ends_with("_tid2eid.weight");
  const bool plain = table || shape.size() == 1 || weight.name.ends_with(".bias") ||
                     weight.name.ends_with("_norm.weight") || weight.name.ends_with(".ssm_a") ||
                     weight.name.find(".ple_norm_") != std::string::npos ||
                     weight.name.find("conv1d") != std::string::npos ||
                     weight.name.ends_with("shortconv.conv.weight");
  const DType type = weight.name.ends_with(".order") || table ? DType::i32 : DType::f32;
  if (plain && weight.desc.type != type) {
    return error(StatusCode::bad_file, "{}: tensor '{}': expected {}, found {}", file, weight.name,
                 dtype_info(type).name, to_string(weight.desc));
  }
  if (weight.desc.shape == expected) return {};
  return error(StatusCode::bad_file, "{}: tensor '{}': expected [{}], found {}", file, weight.name,
               fmt::join(shape, ", "), shape_string(weight.desc));
}

ValueId ModelBuilder::optional_weight(const std::string& name,
                                      std::initializer_list<int64_t> shape) {
  const int32_t index = weights_.index(name);
  if (index < 0) return kNoValue;
  const Weight& weight = weights_.weight(index);
  g.set_error(check(weight, shape));
  return g.weight(index, weight.desc);
}

ValueId ModelBuilder::weight(const std::string& name, std::initializer_list<int64_t> shape) {
  if (!has(name)) {
    g.set_error(error(StatusCode::bad_file, "{}: tensor '{}' [{}] is missing",
                      weights_.source().metadata().source(), name, fmt::join(shape, ", ")));
    return kNoValue;
  }
  return optional_weight(name, shape);
}

ValueId ModelBuilder::times_adapter(ValueId x, size_t adapter) {
  ValueId factor = g.input(StepInput::adapter, static_cast<int32_t>(adapter), 1);
  if (g.value(x).rows == Rows::outputs) {
    factor = g.add(op::SelectRows{}, {factor, g.input(StepInput::output_rows)});
  }
  const int64_t heads = g.value(x).desc.shape[1];
  const ValueId product = g.add(op::MoeSpread{}, {g.merge_heads(x), factor});
  return heads == 1 ? product : g.split_heads(product, heads);
}

template <typename Low, typename High>
ValueId ModelBuilder::adapt(ValueId y, const std::string& name, Low low, High high) {
  if (!extras_.adapters) return y;
  for (size_t i = 0; i < info_.adapter_alphas.size(); ++i) {
    const std::string stem = adapter_prefix(i) + name;
    const int32_t b = weights_.index(stem + kLoraB);
    if (b < 0) continue;
    const int64_t rank = weights_.weight(b).desc.shape[0];
    const float alpha = info_.adapter_alphas[i];
    const ValueId inner = times_adapter(low(stem + kLoraA, rank), i);
    y = add(y, high(stem + kLoraB, inner), alpha == 0 ? 1.0f : alpha / static_cast<float>(rank));
  }
  return y;
}

ValueId ModelBuilder::adapt_product(ValueId y, ValueId x, const std::string& name, int64_t n) {
  return adapt(
      y, name, [&](const std::string& a, int64_t rank) { return product(x, a, rank); },
      [&](const std::string& b, ValueId low) { return product(low, b, n); });
}

ValueId ModelBuilder::embed_tokens(float scale) {
  g.set_unit({UnitKind::embedding, -1});
  const auto look_up = [&](const std::string& name, int64_t n) {
    const ValueId table = weight(name, {n, info_.vocabulary});
    return g.add(op::Embed{scale}, {g.input(StepInput::tokens), table});
  };
  const std::string name = "token_embd.weight";
  const ValueId x =
      adapt(look_up(name, info_.embedding), name, look_up,
            [&](const std::string& b, ValueId low) { return product(low, b, info_.embedding); });
  return add_images(x, 0);
}

ValueId ModelBuilder::text_tokens() {
  return g.input(extras_.images ? StepInput::text_tokens : StepInput::tokens);
}

ValueId ModelBuilder::add_images(ValueId x, int64_t index) {
  if (!extras_.images || index >= std::ssize(info_.takes_images)) return x;
  const int64_t width = info_.takes_images[static_cast<size_t>(index)];
  return add(x, g.input(StepInput::image, static_cast<int32_t>(index), width));
}

ValueId ModelBuilder::rms_norm(ValueId x, const std::string& name, float eps) {
  return g.add(op::RmsNorm{eps}, {x, weight(name, {g.value(x).desc.shape[0]})});
}

ValueId ModelBuilder::layer_norm(ValueId x, const std::string& name, float eps, bool each) {
  const auto shape = g.value(x).desc.shape;
  const ValueId scale =
      each ? weight(name + ".weight", {shape[0], shape[1]}) : weight(name + ".weight", {shape[0]});
  return g.add(op::LayerNorm{eps}, {x, scale, optional_weight(name + ".bias", {shape[0]})});
}

ValueId ModelBuilder::linear(ValueId x, const std::string& name, int64_t n) {
  const int64_t k = g.value(x).desc.shape[0];
  const ValueId w = weight(name + ".weight", {k, n});
  ValueId ordered = x;
  if (const ValueId order = optional_weight(name + ".order", {k}); order != kNoValue) {
    ordered = g.add(op::SelectColumns{}, {x, order});
  }
  const ValueId bias = optional_weight(name + ".bias", {n});
  const ValueId y = g.add(op::Matmul{}, {ordered, w, bias, optional_weight(name + ".scale", {1})});
  return adapt_product(y, x, name + ".weight", n);
}

ValueId ModelBuilder::product(ValueId x, const std::string& name, int64_t n) {
  const ValueId w = weight(name, {g.value(x).desc.shape[0], n});
  return adapt_product(g.add(op::Matmul{}, {x, w, kNoValue, kNoValue}), x, name, n);
}

ValueId ModelBuilder::expert_linear(ValueId x, ValueId ids, const std::string& name, int64_t n,
                                    int64_t experts) {
  const ValueId w = weight(name + ".weight", {g.value(x).desc.shape[0], n, experts});
  const ValueId bias = optional_weight(name + ".bias", {n, experts});
  const ValueId scale = optional_weight(name + ".scale", {experts});
  const ValueId y = g.add(op::MoeMatmul{}, {x, w, ids, bias, scale});
  // NVFP4's scales belong to the numbers of W, others to what the experts make.
  const ValueId of_all = g.value(w).desc.type == DType::nvfp4 ? kNoValue : scale;
  const auto of_each = [&](ValueId from, const std::string& matrix, int64_t rows, ValueId factors) {
    const ValueId each = weight(matrix, {g.value(from).desc.shape[0], rows, experts});
    return g.add(op::MoeMatmul{}, {from, each, ids, kNoValue, factors});
  };
  return adapt(
      y, name + ".weight",
      [&](const std::string& a, int64_t rank) { return of_each(x, a, rank, kNoValue); },
      [&](const std::string& b, ValueId low) { return of_each(low, b, n, of_all); });
}

ValueId ModelBuilder::rope(ValueId x, op::Rope::Style style, int32_t kind) {
  const int64_t pairs = info_.ropes[static_cast<size_t>(kind)].pairs;
  return g.add(op::Rope{style}, {x, g.input(StepInput::rope_table, kind, pairs)});
}

ValueId ModelBuilder::causal_conv(ValueId x, const std::string& name, int64_t taps, int32_t cache,
                                  bool silu, int64_t at, int32_t dilation) {
  const int64_t channels = g.value(x).desc.shape[0];
  const std::string of_taps = name + ".weight";
  const bool apart = has(of_taps) && weights_.weight(weights_.index(of_taps)).desc.shape[2] != 1;
  const ValueId w =
      apart ? weight(of_taps, {taps, 1, channels}) : weight(of_taps, {taps, channels});
  return g.add(op::CausalConv{cache, silu, at, dilation},
               {x, w, optional_weight(name + ".bias", {channels}), g.input(StepInput::slots),
                g.input(StepInput::sequences)});
}

ValueId ModelBuilder::attention(ValueId q, ValueId k, ValueId v, const op::Attention& params,
                                ValueId sinks, ValueId chosen) {
  if (embeds()) {
    if (k != kNoValue) text_keys_[params.kv_layer] = {k, v};
    const auto& [keys, values] = text_keys_[params.kv_layer];
    op::TextAttention text{.scale = params.scale,
                           .softcap = params.softcap,
                           .alibi = params.alibi,
                           .alibi_factor = params.alibi_factor};
    if (info_.causal) text.after = 0;
    if (params.window > 0 && params.chunked) {
      text.chunk = params.window;
    } else if (params.window > 0) {
      // Without a direction the window lies to both sides.
      text.before = info_.causal ? params.window - 1 : params.window / 2;
      if (!info_.causal) text.after = text.before;
    }
    return text_attention(q, keys, values, text, sinks);
  }
  const ValueId slots = g.input(StepInput::slots);
  const ValueId sequences = g.input(StepInput::sequences);
  const int64_t block = key_rotation(g.kv(), params.kv_layer);
  bool values_rotated = false;
  if (block > 0) {
    const op::Hadamard rotation{block};
    q = g.add(rotation, {q});
    if (k != kNoValue) k = g.add(rotation, {k});
    const KvLayerShape& shape = g.kv().layers[static_cast<size_t>(params.kv_layer)];
    values_rotated = shape.v_in_k;
    if (values_rotated && k != kNoValue) v = g.slice(k, 0, shape.v_dim);
  }
  if (k != kNoValue) g.add_all(op::KvStore{params.kv_layer}, {k, v, slots, sequences});
  const bool image =
      extras_.images && (info_.sight == ImageSight::whole ||
                         (info_.sight == ImageSight::in_windows && params.window > 0));
  const bool ahead = image || (info_.block && !info_.block->causal);
  const ValueId last = ahead ? g.input(StepInput::last_seen) : kNoValue;
  ValueId mixed = g.add(params, {q, slots, sequences, sinks, last, chosen});
  if (values_rotated) mixed = g.add(op::Hadamard{block}, {mixed});
  return g.merge_heads(mixed);
}

ValueId ModelBuilder::select_slots(ValueId q, ValueId k, ValueId weights,
                                   const op::SelectSlots& params) {
  if (embeds()) return kNoValue;
  if (const int64_t block = key_rotation(g.kv(), params.kv_layer); block > 0) {
    q = g.add(op::Hadamard{block}, {q});
    k = g.add(op::Hadamard{block}, {k});
  }
  const ValueId slots = g.input(StepInput::slots);
  const ValueId sequences = g.input(StepInput::sequences);
  g.add_all(op::KvStore{params.kv_layer}, {k, k, slots, sequences});
  return g.add(params, {q, weights, slots, sequences});
}

ValueId ModelBuilder::pooled_attention(ValueId q, ValueId k, ValueId pooled,
                                       const op::PooledAttention& params, ValueId sinks,
                                       ValueId chosen) {
  const int64_t block = key_rotation(g.kv(), params.kv_layer);
  if (block > 0) {
    for (ValueId* value : {&q, &k, &pooled}) *value = g.add(op::Hadamard{block}, {*value});
  }
  const ValueId slots = g.input(StepInput::slots);
  const ValueId sequences = g.input(StepInput::sequences);
  const auto store = [&](int32_t layer, ValueId key) {
    const int64_t v_dim = g.kv().layers[static_cast<size_t>(layer)].v_dim;
    g.add_all(op::KvStore{layer}, {key, g.slice(key, 0, v_dim), slots, sequences});
  };
  store(params.kv_layer, k);
  store(params.pooled_layer, pooled);
  ValueId mixed = g.add(params, {q, slots, sequences, sinks, chosen});
  if (block > 0) mixed = g.add(op::Hadamard{block}, {mixed});
  return g.merge_heads(mixed);
}

ValueId ModelBuilder::text_attention(ValueId q, ValueId k, ValueId v,
                                     const op::TextAttention& params, ValueId sinks,
                                     int32_t division) {
  const ValueId begins = g.input(StepInput::text_begins, division);
  const ValueId ends = g.input(StepInput::text_ends, division);
  return g.merge_heads(g.add(params, {q, k, v, begins, ends, sinks}));
}

int64_t ModelBuilder::rows_of(const std::string& name) const {
  const int32_t index = weights_.index(name + ".weight");
  return index < 0 ? 0 : weights_.weight(index).desc.shape[1];
}

bool ModelBuilder::pools_all_rows() const {
  const auto all = [](Pooling p) { return p == Pooling::none || p == Pooling::mean; };
  return embeds() && all(*info_.embeds == Pooling::rank ? info_.rank_pooling : *info_.embeds);
}

ValueId ModelBuilder::select_outputs(ValueId x) {
  if (pools_all_rows() || (returns_last() && !info_.hidden_apart)) return x;
  return g.add(op::SelectRows{}, {x, g.input(StepInput::output_rows)});
}

bool ModelBuilder::returns_last() const {
  const std::vector<int64_t>& layers = info_.hidden_layers;
  return info_.returns_hidden &&
         (layers.empty() || std::ranges::find(layers, info_.layers) != layers.end());
}

void ModelBuilder::return_hidden(ValueId x) {
  if (info_.returns_hidden && info_.hidden_layers.empty()) g.output(x, "hidden");
}

void ModelBuilder::enter_layer(int64_t layer, ValueId x) {
  const std::vector<int64_t>& layers = info_.hidden_layers;
  if (std::ranges::find(layers, layer) != layers.end()) entered_[layer] = x;
}

/// The result "hidden" of what enter_layer() noted.
void ModelBuilder::return_layers() {
  ValueId all = kNoValue;
  for (const int64_t layer : info_.hidden_layers) {
    const auto found = entered_.find(layer);
    if (found == entered_.end()) {
      return g.set_error(error(StatusCode::unsupported,
                               "{}: models of architecture '{}' do not show the hidden states of "
                               "their layers, which the draft model needs",
                               weights_.source().metadata().source(), info_.architecture));
    }
    all = all == kNoValue ? found->second : g.add(op::Concat{}, {all, found->second});
  }
  if (all != kNoValue) g.output(all, "hidden");
}

ValueId ModelBuilder::classify(ValueId x) {
  if (has("cls.weight")) {
    x = linear(x, "cls", rows_of("cls"));
    // tanh
    x = info_.gelu_classifier ? g.add(op::Gelu{}, {x}) : g.add(op::Softcap{1.0f}, {x});
    if (has("cls.norm.weight")) x = layer_norm(x, "cls.norm", info_.classifier_eps);
    if (!has("cls.output.weight")) return x;
  }
  if (has("cls.output.weight")) {
    const int64_t labels = rows_of("cls.output");
    if (labels != 1 && !info_.answers_yes_or_no) {
      g.set_error(error(StatusCode::unsupported,
                        "{}: the classifier (tensor 'cls.output.weight') has {} labels: expected "
                        "1, the score of a text; a model that sorts texts into classes cannot rank "
                        "them",
                        weights_.source().metadata().source(), labels));
    }
    return linear(x, "cls.output", labels);
  }
  g.set_error(error(StatusCode::unsupported,
                    "{}: the model has no classifier (tensors 'cls' and 'cls.output'), so that it "
                    "cannot rank texts",
                    weights_.source().metadata().source()));
  return x;
}

void ModelBuilder::output_embedding(ValueId x) {
  g.set_unit({UnitKind::output, -1});
  if (pools_all_rows() && *info_.embeds != Pooling::none) {
    x = g.add(op::MeanRows{},
              {x, g.input(StepInput::output_rows), g.input(StepInput::output_ends)});
  }
  if (*info_.embeds == Pooling::rank) {
    x = classify(x);
  } else {
    for (const char* dense : {"dense_2", "dense_3"}) {
      if (has(std::string(dense) + ".weight")) x = linear(x, dense, rows_of(dense));
    }
  }
  g.output(x, "embeddings");
}

ValueId ModelBuilder::output_logits(ValueId x) {
  g.set_unit({UnitKind::output, -1});
  return_layers();
  if (returns_last() && !info_.hidden_apart) {
    x = g.add(op::SelectRows{}, {x, g.input(StepInput::output_rows)});
  }
  if (has(kOutputMatrix)) return linear(x, "output", info_.vocabulary);
  const ValueId table = weight("token_embd.weight", {info_.embedding, info_.vocabulary});
  const ValueId bias = optional_weight("output.bias", {info_.vocabulary});
  const ValueId y = g.add(op::Matmul{}, {x, table, bias, kNoValue});
  return adapt_product(y, x, kOutputMatrix, info_.vocabulary);
}

}  // namespace infer
