// How the tower of a Hugging Face checkpoint becomes what the towers read: the keys, names and
// layouts of a file with a tower, as llama.cpp's converter makes them. Each tower's file in
// models/towers says it for its checkpoints.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include "engine/model/checkpoint.h"

namespace infer {

/// Mean and deviation of colours, where the checkpoint does not say.
enum class TowerColours : uint8_t { half, clip, imagenet };

/// What the checkpoints of a tower have in common. Keys are those of `vision_config`.
struct TowerFamily {
  const char* projector = "";   ///< clip.projector_type
  const char* activation = "";  ///< expected; "": not looked at
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* width = "hidden_size";
  TowerColours colours = TowerColours::half;
};

/// A checkpoint, and the tower that is made of it. Names of tensors begin after "model.", where the
/// checkpoint has that. The first failure is kept, later calls do nothing that matters.
class TowerMap {
 public:
  /// `raw` lives longer.
  explicit TowerMap(const WeightSource& raw);
  TowerMap(const TowerMap&) = delete;
  TowerMap& operator=(const TowerMap&) = delete;

  CheckpointConfig config;    ///< of `vision_config`
  CheckpointKeys keys;        ///< behind "clip."
  CheckpointTensors tensors;  ///< without those of the text

  /// Whether config.json names this class.
  bool is(const char* architecture) const;
  /// The projector and the usual keys: layers, widths, heads, patches, colours.
  void begin(const TowerFamily& family);
  /// The tower ends with the layer whose results are taken: this key beside `vision_config` counts
  /// from the first layer's input, or below 0 from the end. Tensors of later layers,
  /// "<prefix><layer>.", have no place. Behind begin().
  void select_layers(const std::string& key, int64_t absent, const std::string& prefix);
  /// How many pixels an image may have, where preprocessor_config.json says it. `frames`: as a
  /// video of so many equal images, whose pixels are counted there.
  void pixel_limits(int64_t frames = 1);
  /// Refuses a preprocessor_config.json by which values of pixels are not made as here, or images
  /// not scaled by this filter, a number of Pillow's. `normalised`: with mean and deviation.
  void require_processing(int64_t filter, bool normalised = true);
  /// Refuses another number of preprocessor_config.json, if it has one under this key.
  void require_processor(const std::string& key, int64_t expected);
  /// The whole name of a key of the image processor's configuration; empty: it does not have it.
  std::string processor_key(const std::string& key) const;
  /// What preprocessor_config.json says.
  int64_t processor_int(const std::string& key, int64_t absent, int64_t min, int64_t max);
  double processor_float(const std::string& key, double absent);
  bool processor_bool(const std::string& key, bool absent);
  /// What stands beside `vision_config`.
  int64_t whole_int(const std::string& key, int64_t absent, int64_t min, int64_t max);
  bool whole_bool(const std::string& key, bool absent);
  double whole_float(const std::string& key, double absent);
  std::string whole_string(const std::string& key, const std::string& absent);

  /// Tensors of every layer, "<prefix><layer>.<from>", with their biases.
  void layers(const std::string& prefix, std::initializer_list<TensorName> names);
  /// The same of layers as SigLIP's.
  void siglip_layers(const std::string& prefix);
  /// One tensor with its bias.
  void tensor(const std::string& from, const std::string& to);
  /// The kernels of patches as matrices, of so many images of a video, with their bias.
  void patches(const std::string& name, int64_t frames);
  /// The same of one image, where the colours of a pixel lie together.
  void pixel_patches(const std::string& name);

  int64_t layer_count() const { return layers_; }
  int64_t width() const { return width_; }
  int64_t patch() const { return patch_; }

  /// `raw`: what it was made for. Errors: the first failure; unsupported for a tensor of a tower
  /// that has found no place.
  Result<std::unique_ptr<WeightSource>> result(std::unique_ptr<WeightSource> raw);

 private:
  /// What it has under this key; null: nothing.
  const MetaValue* processor(const std::string& key) const;

  int64_t layers_ = 0;
  int64_t width_ = 1;
  int64_t patch_ = 1;
};

/// The tower of a checkpoint that was opened as it is. Errors: unsupported with the known classes;
/// bad_file naming what is missing or wrong.
Result<std::unique_ptr<WeightSource>> map_tower(std::unique_ptr<WeightSource> raw);

}  // namespace infer
