// How a Hugging Face checkpoint becomes what the architectures read: GGUF's keys, names and
// layouts, as llama.cpp's converter makes them. An architecture's file in models/ says it for its
// family with the functions of CheckpointMap.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/model/mapped_source.h"
#include "engine/weights/weight_source.h"

namespace infer {

/// How a checkpoint's tensor becomes the model's.
enum class Change : uint8_t {
  none,
  /// The rows that RoPE turns together lie half a head of queries apart in the checkpoint, and are
  /// to be neighbours.
  interleave_q,
  interleave_k,  ///< the same of keys
  add_one,       ///< the checkpoint holds a norm's weights less one
};

struct TensorName {
  const char* from;  ///< without ".weight" and ".bias"
  const char* to;
  Change change = Change::none;
};

/// Of an expert's three matrices, or of a feed-forward's.
struct ExpertNames {
  const char* gate = "gate_proj";
  const char* up = "up_proj";
  const char* down = "down_proj";
};

/// What the checkpoints of a family have in common, and what would make one another model.
struct Family {
  const char* architecture = "";    ///< as GGUF names it
  const char* activation = "silu";  ///< of the feed-forward
  const char* quantisation = "";    ///< a quant_method that is read beside those of any family
  const char* rope_width = "";      ///< key of the rotated part's width; "": head_dim's share
  bool yarn_rounding = true;        ///< YaRN's bounds rounded to whole pairs
  bool yarn_on_scores = false;      ///< scores take up YaRN's magnitude, cos and sin do not
  bool long_rope = false;           ///< reads the factors of longrope itself
};

/// The first failure is kept, later calls do nothing that matters; result() reports it. Keys of the
/// configuration are those of config.json (of its "text_config" where that describes the decoder),
/// paths with dots; null counts as absent.
class CheckpointMap {
 public:
  /// `matrices`: the type that matrices are to have, or none: the stored one.
  CheckpointMap(std::unique_ptr<WeightSource> raw, std::optional<DType> matrices);

  /// Its entry in `architectures`.
  const std::string& checkpoint() const { return checkpoint_; }
  /// What was opened, for messages.
  const std::string& source() const { return metadata_.source(); }

  // Configuration. Values out of range are failures.

  bool has(std::string_view key) const;
  int64_t need_int(const std::string& key, int64_t min, int64_t max);
  int64_t get_int(const std::string& key, int64_t absent, int64_t min, int64_t max);
  double get_float(const std::string& key, double absent);
  bool get_bool(const std::string& key, bool absent);
  std::string get_string(const std::string& key, const std::string& absent);
  /// Empty if absent; a single number is a list of one.
  std::vector<float> get_floats(const std::string& key);
  std::vector<int64_t> get_ints(const std::string& key);
  /// Sets the value of a key that config.json leaves out because it is the family's default.
  void assume(const std::string& key, MetaValue value);
  /// Fails (unsupported) unless `holds`, since the engine would compute something else.
  void require(bool holds, const std::string& what);
  void fail_with(Status status);

  // Metadata, under the architecture's prefix.

  void set_int(const std::string& key, int64_t value);
  void set_float(const std::string& key, double value);
  void set_bool(const std::string& key, bool value);
  void set_string(const std::string& key, const std::string& value);

  // What nearly every decoder has.

  /// The architecture and its usual keys: layers, widths, heads, norms, context, RoPE.
  void begin(const Family& family);
  /// sliding_window, unless use_sliding_window says no.
  int64_t window();
  /// A failure where some layers have a window, for families that have none here.
  void require_no_window();
  /// A failure unless layer_types, where given, has sliding layers just where `sliding` says.
  void require_layer_types(bool (*sliding)(int64_t layer));
  /// Embedding, final norm and output. The output is left out if it is the embedding.
  void ends(Change norms = Change::none);
  /// Tensors of every layer that has them, with their biases.
  void layers(std::initializer_list<TensorName> names);
  /// attn_q, attn_k, attn_v and attn_output.
  void attention(bool interleave = false);
  void feed_forward();  ///< ffn_gate, ffn_up, ffn_down

  int64_t layer_count() const { return layers_; }
  int64_t head_count() const { return heads_; }
  /// Where config.json keeps the parameters of RoPE: "rope_scaling." or such.
  std::string rope_section() const;
  /// Elements of a head that are rotated, halved.
  int64_t rope_pairs() const { return rope_pairs_; }

  // Single tensors. Names from the checkpoint begin after "model.", or whatever stands before
  // "embed_tokens".

  /// "layers.7.mlp.gate".
  static std::string layer(int64_t layer, const std::string& part);
  bool has_tensor(const std::string& name) const;
  /// All of a tensor as a view of this shape (trailing ones left out); a failure if it is missing
  /// or has another number of elements.
  TensorView view(const std::string& name, std::initializer_list<int64_t> shape);
  /// The shape of a tensor, ones if it is missing (which view() reports).
  std::array<int64_t, kMaxDims> shape_of(const std::string& name) const;
  void put(const std::string& to, const TensorView& view, Change change = Change::none);
  void put_stacked(const std::string& to, std::vector<TensorView> parts);
  void put_values(const std::string& to, std::vector<float> values);
  /// The blocks [blocks a row, rows, experts] of MXFP4 weights: `codes` [16, …] and `scales` […]
  /// are bytes, as mapped_source.h says.
  TensorView view_mxfp4(const std::string& codes, const std::string& scales);
  void put_mxfp4(const std::string& to, const TensorView& blocks, const std::string& scales);
  /// Copies a tensor in its shape, if the checkpoint has it.
  void copy(const std::string& from, const std::string& to, Change change = Change::none);
  /// The experts of a layer: one tensor each (`in`.0.gate_proj.weight) or all in one
  /// (`in`.gate_up_proj with the gate's rows before the others, `in`.down_proj).
  void experts(int64_t layer, const std::string& in, int64_t count, const ExpertNames& names);
  /// Two tensors of equal width from one [k, 2n] or [k, 2n, experts] that has the rows of one
  /// before those of the other.
  void split_rows(const std::string& from, const std::string& first, const std::string& second);
  /// Tensors that begin like this, with or without the root, are no part of the decoder.
  void ignore_prefix(const std::string& prefix) { ignored_prefixes_.push_back(prefix); }

  /// The model, if nothing failed and every tensor has found its place.
  Result<std::unique_ptr<WeightSource>> result();

 private:
  template <typename T>
  T take(Result<std::optional<T>> found, const T& absent) {
    if (found) return found->value_or(absent);
    fail_with(std::move(found).error());
    return absent;
  }
  std::string key(std::string_view name) const { return config_ + std::string(name); }
  void set(const std::string& key, MetaValue value) {
    metadata_.set(prefix_ + key, std::move(value));
  }
  void rope(int64_t head_dim);
  void llama3_factors(const std::string& section, double base, int64_t dims);
  void yarn(const std::string& section, double factor);
  void add_general();
  void add_generation();
  void add_texts();
  bool is_ignored(const std::string& name) const;
  std::string full_name(const std::string& name) const;
  int32_t find(const std::string& name) const;
  DType type_of(const std::string& to, DType stored, std::span<const int64_t> shape) const;
  /// Makes the tensor's description; without views `stored` is F32.
  void add(MappedTensor tensor, DType stored, std::span<const int64_t> shape);

  std::unique_ptr<WeightSource> raw_;
  std::optional<DType> matrices_;
  Metadata config_values_;  ///< the raw metadata with what assume() added
  Metadata metadata_;
  TokenizerSpec tokenizer_;
  std::vector<MappedTensor> tensors_;
  std::map<DType, int64_t> elements_;  ///< of matrices, by type
  std::unordered_map<std::string_view, int32_t> by_name_;
  std::vector<bool> used_;
  std::vector<std::string> ignored_prefixes_;
  std::string checkpoint_;
  std::string config_;  ///< "hf.config." or "hf.config.text_config."
  std::string root_;    ///< "model."
  std::string prefix_;  ///< "llama."
  Family family_{};
  int64_t layers_ = 0;
  int64_t heads_ = 1;
  int64_t kv_heads_ = 1;
  int64_t rope_pairs_ = 0;
  Status status_;
};

/// Opens a model in whatever format it is, as the architectures read it: a Hugging Face checkpoint
/// is mapped. `matrices`: the type of matrices (matrix_type.h), or none: as stored.
/// Beside open_model's failures: unsupported naming `architectures` and those known, or what is
/// wanted that cannot be had; bad_file naming what is missing or wrong.
Result<std::unique_ptr<WeightSource>> open_weights(const std::string& path,
                                                   std::optional<DType> matrices = {});

}  // namespace infer
