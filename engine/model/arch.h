// What an architecture is: how to read its hyper-parameters and build its graph. One file each in
// models/; the build lists them (all_architectures).
#pragma once

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/status.h"
#include "engine/graph/kv_geometry.h"
#include "engine/model/ngram.h"
#include "engine/model/rope.h"
#include "engine/weights/weight_source.h"

namespace infer {

class CheckpointMap;
class ModelBuilder;

/// How the vector of a text is made of those of its tokens; the values are GGUF's (pooling_type).
enum class Pooling : uint8_t {
  none,  ///< not at all: every token has its own
  mean,
  cls,   ///< the first token's
  last,  ///< the last token's
  rank,  ///< a classifier's output, which is a score
};

/// What rows of an image see of the image.
enum class ImageSight : uint8_t {
  causal,     ///< the rows before them
  whole,      ///< all of its rows
  in_windows  ///< all of its rows in layers with a sliding window, the rows before them in others
};

/// How a draft head writes several tokens in one step. A row has a token, and the hidden state of
/// the main model for its place, or if it is one of a block 1 for StepInput::hidden number 1, and
/// zeros for the other of both.
struct DraftBlock {
  int64_t rows = 0;         ///< the last token of the text, and masks
  int32_t mask = 0;         ///< token of a mask
  bool causal = false;      ///< rows of a block do not see those behind them
  bool from_first = false;  ///< each row gives the token behind it; else masks give their own
};

/// What the engine must know of a model apart from its graph.
struct ModelInfo {
  std::string architecture;
  int64_t vocabulary = 0;
  int64_t context = 0;    ///< tokens it was trained for
  int64_t positions = 0;  ///< learned ones, which no sequence may exceed; 0: there are none
  int64_t embedding = 0;  ///< width of the residual stream
  int64_t layers = 0;
  std::vector<KvLayerShape> kv_layers;
  std::vector<RopeSpec> ropes;
  std::optional<NgramSpec> ngrams;  ///< if the model takes StepInput::ngrams
  bool causal = true;  ///< false: every token of a text sees all others, which are given at once
  int64_t token_types = 0;              ///< rows of the table of token types; 0: there is none
  std::optional<Pooling> pooling;       ///< of the file, if it says
  Pooling rank_pooling = Pooling::cls;  ///< mean, cls or last: what the classifier takes
  bool answers_yes_or_no = false;       ///< its two outputs are the logits of these answers
  bool gelu_classifier = false;         ///< its activation is GELU in place of tanh
  float classifier_eps = 1e-5f;         ///< of its norm
  int64_t vector = 0;                   ///< elements of a text's vector
  std::optional<Pooling> embeds;        ///< the model makes vectors of texts in place of logits
  /// The model also returns the hidden states of all rows of a step: Model::return_hidden().
  bool returns_hidden = false;
  bool hidden_apart = false;  ///< they are computed beside the rows whose logits are wanted
  /// What they are: empty: what the last norm makes. Else what enters these layers, joined in this
  /// order; the number of layers stands for what leaves the last one.
  std::vector<int64_t> hidden_layers;
  /// Elements of what a row of an image gives: first in place of its token's embedding, then what
  /// is added behind the first layers, one after the other. Empty: the model takes no images.
  std::vector<int64_t> takes_images;
  /// Layers behind which images add something, by the model's file; -1: it does not say.
  int64_t image_layers = -1;
  ImageSight sight = ImageSight::causal;  ///< if it takes images
  /// By adapter: its alpha; 0: the rank (adapters.h).
  std::vector<float> adapter_alphas;
  bool parted = false;           ///< of a tower: there is a second division of its rows into texts
  int64_t more_output_rows = 0;  ///< lists of StepInput::output_rows beyond the first
  // Of a draft head:
  int64_t takes_hidden = 0;  ///< elements of a hidden state of the main model that a row takes
  /// The main model's hidden states are to be what leaves its last layer, before the last norm.
  bool takes_unnormed = false;
  /// Elements of a hidden state of its own that a row takes beside it. A row has one of both, and
  /// zeros for the other. 0: the two have the same form, and a row takes either in the same place.
  int64_t takes_own = 0;
  std::vector<int32_t> token_ids;  ///< by token: its id in the main model; empty: the same
  std::optional<DraftBlock> block;
  /// It stores nothing, and attends to what the main model has stored: kv_layers are those of that.
  bool shares_cache = false;

  /// Elements of a hidden state that the model returns.
  int64_t hidden_width() const {
    return embedding * std::max<int64_t>(1, std::ssize(hidden_layers));
  }

  /// Whether the model is made for vectors of texts, and not to generate.
  bool is_embedding() const { return !causal || pooling.value_or(Pooling::none) != Pooling::none; }
};

/// One model: hyper-parameters read and checked. Immutable.
class Model {
 public:
  virtual ~Model() = default;
  const ModelInfo& info() const { return info_; }
  /// From now on the model makes vectors of texts. A text is computed in one step, and there is no
  /// cache.
  void make_embedding(Pooling pooling);
  /// From now on a step has the result "hidden" [embedding, 1, rows]: what the last norm makes of
  /// every row. `apart`: the rows whose logits are wanted are computed as without this result,
  /// since devices with two numeric classes would compute them in another class. `layers`, if there
  /// are any: the result is what enters them (ModelInfo::hidden_layers).
  void return_hidden(bool apart, std::vector<int64_t> layers = {});
  /// Undoes return_hidden().
  void return_no_hidden();
  /// From now on some rows of a step may be of images, which give the rows' embeddings and what is
  /// added behind each of the first `layers` layers.
  /// If rows of an image see all of it, those that a step computes are in one step.
  void take_images(int64_t layers);
  /// From now on rows of a step may have so many adapters, whose tensors are among the weights.
  void add_adapters(std::vector<float> alphas) { info_.adapter_alphas = std::move(alphas); }
  /// Of a draft head with ModelInfo::shares_cache: where the main model's layers are kept.
  void share_cache(std::vector<KvLayerShape> layers) { info_.kv_layers = std::move(layers); }
  /// Of a draft head with ModelInfo::block: the model of what its logits get for the token before,
  /// from the same file. It takes tokens and returns such logits. Null: they get nothing.
  virtual std::unique_ptr<Model> transitions() const { return nullptr; }
  /// Adds the nodes of one step and marks the logits [vocabulary, 1, outputs] as output, or the
  /// vectors if it makes these. Failures
  /// (a missing tensor, a wrong shape) are kept by the builder.
  virtual void build(ModelBuilder& m) const = 0;

 protected:
  friend Result<std::unique_ptr<Model>> read_model(const WeightSource& source);
  ModelInfo info_;
};

/// An architecture, possibly under several names of `general.architecture`.
struct ArchDef {
  std::span<const char* const> names;
  Result<std::unique_ptr<Model>> (*create)(const WeightSource& source);
  /// Hugging Face's names of the family (`architectures` in config.json), and how their checkpoints
  /// become such a source: checkpoint.h.
  std::span<const char* const> checkpoints = {};
  void (*map)(CheckpointMap& m) = nullptr;
  /// Makes a draft model of one of those layers of the same file that predict further tokens
  /// (decoder_head.cpp): number `which`, from 0. Null: no such layers of the family are known.
  Result<std::unique_ptr<Model>> (*head)(const WeightSource& source, int64_t which) = nullptr;
  /// The files of this architecture hold no model, but a head that drafts for one, the main model.
  /// Makes it; `source` is a DraftSource. `layers`: gets the layers of the main model whose hidden
  /// states it takes (ModelInfo::hidden_layers). Null: they hold models.
  Result<std::unique_ptr<Model>> (*draft)(const WeightSource& source, const ModelInfo& main,
                                          std::vector<int64_t>& layers) = nullptr;
  /// How weights here differ from those of the family's checkpoints.
  struct Layout {
    /// The rows of queries and keys that RoPE turns together lie half a head apart in checkpoints,
    /// and are neighbours here (Change::interleave_q).
    bool interleaves = false;
    bool gate_up_in_turns = false;  ///< checkpoints have the rows of both in turns (of experts)
    bool rescales = false;          ///< weights are multiplied with factors
    /// In models with "rope.dimension_sections" the rows of queries and keys that RoPE turns
    /// together are neighbours in checkpoints, and lie apart here.
    bool splits_axes = false;
  } layout;
};

/// Generated from the files in models/.
std::span<const ArchDef* const> all_architectures();

/// The architecture that a source's `general.architecture` names. bad_file without that key;
/// unsupported names it and lists the known ones.
Result<const ArchDef*> architecture_of(const WeightSource& source);

/// "none", "mean", "cls", "last", "rank".
const char* pooling_name(Pooling pooling);
std::optional<Pooling> pooling_named(std::string_view name);

/// Reads the model that a source holds. Beside the architecture's own failures those of
/// architecture_of.
Result<std::unique_ptr<Model>> read_model(const WeightSource& source);

/// Layers of the file that predict further tokens ("nextn"), by its keys; 0 if it holds no tensors
/// of them, or if the architecture's are not known.
int64_t head_layers(const WeightSource& source);
/// The most of these layers that draft one after the other.
inline constexpr int64_t kMostNextLayers = 8;
/// These layers as models that draft, the first kMostNextLayers of them that the file holds. Each
/// takes tokens and the hidden states of the tokens before them (ModelInfo::takes_hidden): the
/// first one those of the model, each further one those of the one before it. They return logits
/// and "hidden" [embedding, 1, outputs]; all but the last return "hidden" of every row. unsupported
/// if there are none.
Result<std::vector<std::unique_ptr<Model>>> read_heads(const WeightSource& source);

/// Whether a file holds a head for another file's model (ArchDef::draft).
bool is_draft_head(const WeightSource& source);

}  // namespace infer
