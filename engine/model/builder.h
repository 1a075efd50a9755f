// Building a model's graph: weights by name, and the operations as a model file speaks of them.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/graph/graph.h"
#include "engine/model/arch.h"

namespace infer {

/// "blk.7.attn_q".
std::string block_name(int64_t layer, const char* part);

/// Weights of a source by name; built once per model and shared by its graphs.
class WeightTable {
 public:
  explicit WeightTable(const WeightSource& source);
  /// −1 if absent.
  int32_t index(const std::string& name) const;
  const Weight& weight(int32_t index) const {
    return source_.weights()[static_cast<size_t>(index)];
  }
  const WeightSource& source() const { return source_; }

 private:
  const WeightSource& source_;
  std::unordered_map<std::string, int32_t> by_name_;
};

/// What some rows of a step have beside their tokens.
struct RowExtras {
  bool images = false;    ///< they are of images
  bool adapters = false;  ///< adapters change their products
  auto operator<=>(const RowExtras&) const = default;
};

/// The first failure is kept in the GraphBuilder; later calls do nothing.
class ModelBuilder {
 public:
  ModelBuilder(GraphBuilder& graph, const WeightTable& weights, const ModelInfo& info,
               RowExtras extras = {})
      : g(graph), weights_(weights), info_(info), extras_(extras) {}

  GraphBuilder& g;

  /// A weight of exactly this shape: bad_file naming the tensor if it is missing or different.
  ValueId weight(const std::string& name, std::initializer_list<int64_t> shape);
  /// The same, or kNoValue if the model has no weight of that name.
  ValueId optional_weight(const std::string& name, std::initializer_list<int64_t> shape);
  bool has(const std::string& name) const { return weights_.index(name) >= 0; }

  /// The step's tokens through "token_embd.weight", and the embeddings that images give.
  ValueId embed_tokens(float scale = 1.0f);
  /// The step's tokens, with one that pads texts in place of images.
  ValueId text_tokens();
  int64_t vocabulary() const { return info_.vocabulary; }
  /// x with what images give to its rows: StepInput::image number `index`, if there is one.
  ValueId add_images(ValueId x, int64_t index);
  ValueId rms_norm(ValueId x, const std::string& weight, float eps);
  /// "<name>.weight" and, where present, "<name>.bias". `each`: every head of x has a weight of its
  /// own.
  ValueId layer_norm(ValueId x, const std::string& name, float eps, bool each = false);
  /// "<name>.weight" [k, n] and, where present, "<name>.scale" [1] (of NVFP4) and "<name>.bias"
  /// [n]. "<name>.order" i32 [k]: the element of x that each column of the weight is for, where
  /// columns are sorted by the groups of their scales (GPTQ's act-order). Plus what adapters of the
  /// weight add.
  ValueId linear(ValueId x, const std::string& name, int64_t n);
  /// The product with the weight `name` [k, n] alone, plus what adapters of it add.
  ValueId product(ValueId x, const std::string& name, int64_t n);
  /// The same as linear() with one matrix an expert: "<name>.weight" [k, n, experts], scale
  /// [experts], bias [n, experts]; x [k, 1 or used, rows], ids i32 [used, 1, rows].
  ValueId expert_linear(ValueId x, ValueId ids, const std::string& name, int64_t n,
                        int64_t experts);
  ValueId add(ValueId a, ValueId b, float scale = 1.0f) { return g.add(op::Add{scale}, {a, b}); }
  /// x [head, heads, rows] turned by the model's RoPE number `kind`.
  ValueId rope(ValueId x, op::Rope::Style style, int32_t kind = 0);
  /// The depthwise causal convolution "<name>.weight" [taps, channels] or [taps, 1, channels], with
  /// "<name>.bias" where present. `cache`: the state's index in ModelInfo::kv_layers; `at`: where
  /// the convolution's part of it begins.
  ValueId causal_conv(ValueId x, const std::string& name, int64_t taps, int32_t cache, bool silu,
                      int64_t at = 0, int32_t dilation = 1);
  /// Stores k and v and attends; q, k, v [dim, heads, rows]; the result's heads are merged. For
  /// keys of type Q4_0, q and k are rotated before: builder.cpp. Without k and v it attends to what
  /// another layer has stored.
  /// `chosen`: what select_slots() made; kNoValue: rows see all that params say.
  ValueId attention(ValueId q, ValueId k, ValueId v, const op::Attention& params,
                    ValueId sinks = kNoValue, ValueId chosen = kNoValue);
  /// Stores the index keys k [dim, 1, rows] and chooses the slots that rows attend to, by queries q
  /// [dim, heads, rows] and weights [heads, 1, rows] or none. kNoValue for a model that makes
  /// vectors.
  ValueId select_slots(ValueId q, ValueId k, ValueId weights, const op::SelectSlots& params);
  /// Stores the keys k [dim, 1, rows] of slots and `pooled` of blocks, which hold the values, and
  /// attends to both: op::PooledAttention. The result's heads are merged.
  ValueId pooled_attention(ValueId q, ValueId k, ValueId pooled, const op::PooledAttention& params,
                           ValueId sinks, ValueId chosen);
  ValueId chosen_slots = kNoValue;  ///< for layers that share them: of the last layer that chose
  /// For feed-forwards that need it: what entered their layer, with the rows that they compute.
  ValueId layer_input = kNoValue;
  /// Attends among the rows of each text of the step. `division`: which of several divisions of the
  /// rows into texts.
  ValueId text_attention(ValueId q, ValueId k, ValueId v, const op::TextAttention& params,
                         ValueId sinks = kNoValue, int32_t division = 0);
  /// Keeps only the rows that return results: where vectors are made of all rows, every row.
  ValueId select_outputs(ValueId x);
  /// Whether the model makes vectors of texts: then output_embedding() takes the place of
  /// output_logits() and what follows it.
  bool embeds() const { return info_.embeds.has_value(); }
  /// The vectors of the texts, of what the last norm made, as the graph's output: pooled, then
  /// through "dense_2" and "dense_3" where present. With Pooling::rank, the outputs of the
  /// classifier "cls" (its activation, "cls.norm" where present) and "cls.output".
  void output_embedding(ValueId x);
  /// Marks what the last norm made as the step's result "hidden", if that is wanted.
  void return_hidden(ValueId x);
  /// Notes what enters a layer, or leaves the last one (`layer`: their number), for that result.
  void enter_layer(int64_t layer, ValueId x);
  /// Whether the last layer has to compute all rows for the result "hidden".
  bool returns_last() const;
  /// Whether it computes these beside those of select_outputs(). Otherwise select_outputs() keeps
  /// all rows, and output_logits() selects them.
  bool hidden_apart() const { return info_.hidden_apart && returns_last(); }
  /// Final projection: "output.weight", or the token table if the model has no such weight.
  ValueId output_logits(ValueId x);

  /// Rows of a matrix "<name>.weight"; 0 if it is missing.
  int64_t rows_of(const std::string& name) const;

 private:
  Status check(const Weight& weight, std::initializer_list<int64_t> shape) const;
  /// Whether vectors are made of all rows of a text.
  bool pools_all_rows() const;
  ValueId classify(ValueId x);
  /// y, the product with the weight `name`, plus what each adapter of it adds. `low` makes A·x of
  /// A's name and rank, `high` B·(A·x) of B's name and that.
  template <typename Low, typename High>
  ValueId adapt(ValueId y, const std::string& name, Low low, High high);
  /// y, a product of x with the weight `name` [k, n], plus what adapters of it add.
  ValueId adapt_product(ValueId y, ValueId x, const std::string& name, int64_t n);
  /// x times the adapter's factor in each row.
  ValueId times_adapter(ValueId x, size_t adapter);
  void return_layers();

  const WeightTable& weights_;
  const ModelInfo& info_;
  RowExtras extras_;
  std::map<int32_t, std::pair<ValueId, ValueId>> text_keys_;  ///< keys and values by layer
  std::map<int64_t, ValueId> entered_;  ///< by layer: what enter_layer() noted
};

}  // namespace infer
