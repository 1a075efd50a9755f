// How a Hugging Face checkpoint becomes what the architectures read: GGUF's keys, names and
// layouts, as llama.cpp's converter makes them. An architecture's file in models/ says it for its
// family: what nearly every decoder has with the functions here, the rest with the three parts.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/checkpoint_config.h"
#include "engine/model/checkpoint_keys.h"
#include "engine/model/checkpoint_tensors.h"

namespace infer {

struct TensorName {
  const char* from;  ///< without ".weight" and ".bias"
  const char* to;
  Change change = Change::none;
};

/// What the checkpoints of a family have in common, and what would make one another model.
struct Family {
  const char* architecture = "";    ///< as GGUF names it
  const char* activation = "silu";  ///< of the feed-forward
  const char* quantisation = "";    ///< a quant_method that is read beside those of any family
  double rope_base = 10000.0;       ///< of configurations that give none
  const char* rope_width = "";      ///< key of the rotated part's width; "": head_dim's share
  bool yarn_rounding = true;        ///< YaRN's bounds rounded to whole pairs
  bool yarn_on_scores = false;      ///< scores take up YaRN's magnitude, cos and sin do not
  bool long_rope = false;           ///< reads the factors of longrope itself
  bool rope_of_whole_head = false;  ///< the written width and factors are those of the whole head
  bool layer_norms = false;         ///< LayerNorm in place of RMSNorm
  const char* table = "embed_tokens.weight";  ///< the tensor with a row for each token
};

/// A checkpoint and the model that is made of it. The first failure is kept, later calls do nothing
/// that matters; result() reports it.
class CheckpointMap {
 public:
  /// `raw` lives longer. `interleave`: ArchDef::Layout::interleaves. `matrices`: the type that
  /// matrices are to have, or none: the stored one.
  CheckpointMap(const WeightSource& raw, bool interleave, std::optional<DType> matrices);
  CheckpointMap(const CheckpointMap&) = delete;
  CheckpointMap& operator=(const CheckpointMap&) = delete;

  CheckpointConfig config;  ///< what is read
  CheckpointKeys keys;      ///< the metadata that is written
  CheckpointTensors tensors;

  /// The architecture and its usual keys: layers, widths, heads, norms, context, RoPE.
  void begin(const Family& family);
  /// Embedding, final norm and output. The output is left out if it is the embedding.
  void ends(Change norms = Change::none, Change output = Change::none);
  /// Tensors of every layer that has them, with their biases.
  void layers(std::initializer_list<TensorName> names);
  /// attn_q, attn_k, attn_v and attn_output.
  void attention();
  void feed_forward();  ///< ffn_gate, ffn_up, ffn_down
  /// From now on there is one layer more, which predicts further tokens.
  void add_head_layer();
  /// The same for each such layer that the checkpoint has behind its others, at most
  /// kMostNextLayers, with the tensors that DeepSeek's has beside those of a layer.
  void add_deepseek_heads();
  /// The model scores texts: the classifier's tensors, with their biases, and its keys.
  void classifier(std::initializer_list<TensorName> names);

  /// A chat template by its name.
  void add_template(const std::string& name, const std::string& text);
  /// The id of a token with this spelling; −1: there is none.
  int32_t token(std::string_view spelling) const;

  int64_t layer_count() const { return layers_; }
  /// Without those that predict further tokens.
  int64_t own_layer_count() const { return layers_ - next_layers_; }
  int64_t head_count() const { return heads_; }
  /// Elements of a head that are rotated, halved.
  int64_t rope_pairs() const { return rope_pairs_; }

  /// The model, if nothing failed and every tensor has found its place. `raw`: what it was made
  /// for.
  Result<std::unique_ptr<WeightSource>> result(std::unique_ptr<WeightSource> raw);

 private:
  void add_pooling();

  const WeightSource& raw_;
  bool interleave_;
  std::vector<std::pair<std::string, std::string>> templates_;
  int64_t layers_ = 0;
  int64_t next_layers_ = 0;  ///< of these, those that predict further tokens
  int64_t heads_ = 1;
  int64_t rope_pairs_ = 0;
};

}  // namespace infer
