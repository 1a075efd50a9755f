// The tower of LLaVA 1.5 (Liu et al. 2024): CLIP's (Radford et al. 2021), a pre-norm encoder with a
// class token, learned positions and a norm before its layers, over an image of one size. Its last
// layer is left out. Each patch makes a result, by two products.
//
// As transformers' CLIPImageProcessor the image's shorter side is scaled, and the middle of the
// longer one is cut out; llama.cpp fills the image up to a square instead.
#include <algorithm>

#include "engine/core/file.h"
#include "engine/model/tower.h"
#include "engine/model/tower_checkpoint.h"
#include "engine/model/tower_patches.h"
#include "engine/model/vision_block.h"

namespace infer {
namespace {

class Llava final : public Tower {
 public:
  Llava(HparamReader& r, const WeightSource& source) {
    read_pixels(r);
    tower_.filter = Filter::bicubic;
    tower_.width = r.need_int("vision.projection_dim", 1, 1 << 20);
    tower_.token = "<image>";
    tower_.text = tower_.token + "\n";
    block_ = read_vision_block(r, info_);
    block_.activation =
        r.get_bool("use_gelu", false) ? op::Gelu::Kind::exact : op::Gelu::Kind::sigmoid;
    if (r.metadata().has("clip.vision.feature_layer")) {
      r.set_error(error(StatusCode::unsupported,
                        "{}: clip.vision.feature_layer: results of other layers than the last one "
                        "of the file are not supported",
                        r.metadata().source()));
    }
    side_ = r.need_int("vision.image_size", 1, 1 << 14);
    if (side_ % tower_.patch != 0) {
      r.set_error(error(StatusCode::bad_file,
                        "{}: clip.vision.image_size: expected a multiple of {}, found {}",
                        r.metadata().source(), tower_.patch, side_));
      side_ = tower_.patch;
    }
    const int64_t across = side_ / tower_.patch;
    tower_.least_results = tower_.usual_results = tower_.picture_results = across * across;
    info_.takes_images = {3 * tower_.patch * tower_.patch, block_.width};
    table_ = read_class_places(r, source, block_.width, across * across);
  }

  Result<ImageSize> fit(ImageSize, int64_t) const override {
    return ImageSize{static_cast<int32_t>(side_), static_cast<int32_t>(side_)};
  }

  int64_t most_patches(int64_t results) const override {
    return results + 1;  // and the class token
  }

  Result<TowerPictures> pictures(const Image& image, int64_t) const override {
    const auto side = static_cast<int32_t>(side_);
    const int32_t shorter = std::min(image.width, image.height);
    const auto scaled = [&](int32_t length) {
      const double pixels = static_cast<double>(side_ * length) / shorter;
      return static_cast<int32_t>(std::min<double>(pixels, INT32_MAX));
    };
    INFER_TRY(const Image whole,
              resize(image, scaled(image.width), scaled(image.height), tower_.filter));
    TowerPictures made;
    INFER_TRY(made.pictures.emplace_back(),
              crop(whole, (whole.width - side) / 2, (whole.height - side) / 2, side, side));
    return made;
  }

  /// The class token is the last row. It has no pixels.
  TowerStep lay_out(const Image& image) const override {
    TowerStep step = cut_into_patches(image, tower_);
    std::vector<float>& places =
        step.inputs.emplace_back(table_.begin() + block_.width, table_.end());
    places.insert(places.end(), table_.begin(), table_.begin() + block_.width);
    step.positions.emplace_back(0, 0, 0);
    step.inputs[0].resize(step.inputs[0].size() + static_cast<size_t>(info_.takes_images[0]));
    return step;
  }

  void build(ModelBuilder& m) const override {
    m.g.set_unit({UnitKind::embedding, -1});
    const ValueId pixels = m.g.input(StepInput::image, 0, info_.takes_images[0]);
    ValueId x = m.product(pixels, "v.patch_embd.weight", block_.width);
    x = m.add(x, m.g.input(StepInput::image, 1, block_.width));
    x = m.layer_norm(x, "v.pre_ln", block_.eps);
    for (int64_t layer = 0; layer < info_.layers; ++layer) x = vision_layer(m, x, layer, block_);
    m.g.set_unit({UnitKind::output, -1});
    if (m.has("v.post_ln.weight")) x = m.layer_norm(x, "v.post_ln", block_.eps);
    x = merge_patches(m, x, tower_);
    x = m.g.add(op::Gelu{}, {m.linear(x, "mm.0", tower_.width)});
    m.g.output(m.linear(x, "mm.2", tower_.width), "embeddings");
  }

 private:
  VisionBlock block_;
  int64_t side_ = 1;          ///< of the image, in pixels
  std::vector<float> table_;  ///< [1 + patches][width]
};

/// How many layers the results come from: `vision_feature_layer` counts from the first layer's
/// input, or below 0 from the end.
int64_t used_layers(TowerMap& m) {
  const int64_t feature = m.whole_int("vision_feature_layer", -2, -1024, 1024);
  const int64_t used = feature < 0 ? m.layer_count() + 1 + feature : feature;
  m.config.require(used >= 1 && used <= m.layer_count(),
                   fmt::format("vision_feature_layer {}", feature));
  return used;
}

void map(TowerMap& m) {
  for (const auto& [key, value] : {std::pair{"hidden_size", 768},
                                   {"intermediate_size", 3072},
                                   {"num_hidden_layers", 12},
                                   {"num_attention_heads", 12},
                                   {"image_size", 224},
                                   {"patch_size", 32}}) {
    m.config.assume(key, int64_t{value});
  }
  m.begin({.projector = "mlp", .colours = TowerFamily::Colours::clip});
  m.require_processing(3);
  const std::string activation = m.config.get_string("hidden_act", "quick_gelu");
  m.config.require(activation == "quick_gelu" || activation == "gelu",
                   "the tower's hidden_act '" + printable(activation) + "'");
  m.keys.set_bool("use_gelu", activation == "gelu");
  m.keys.set_float("vision.attention.layer_norm_epsilon",
                   m.config.get_float("layer_norm_eps", 1e-5));
  for (const auto& [key, usual] :
       {std::pair{"vision_feature_select_strategy", "default"}, {"projector_hidden_act", "gelu"}}) {
    const std::string found = m.whole_string(key, usual);
    m.config.require(found == usual, fmt::format("{} '{}'", key, printable(found)));
  }
  const int64_t side = m.config.need_int("image_size", 1, 1 << 14);
  m.keys.set_int("vision.image_size", side);
  for (const char* key : {"size.shortest_edge", "crop_size.height", "crop_size.width"}) {
    m.require_processor(key, side);
  }
  m.config.require(m.processor_bool("do_center_crop", true), "do_center_crop false");
  m.config.require(!m.processor_bool("do_pad", false), "do_pad");
  const int64_t layers = m.layer_count();
  m.use_layers(used_layers(m));
  const std::string projector = "multi_modal_projector.";
  // The configuration of a text may leave its width out.
  if (m.tensors.has(projector + "linear_2.weight")) {
    m.keys.set_int("vision.projection_dim", m.tensors.shape_of(projector + "linear_2.weight")[1]);
  }
  std::string tower = "vision_tower.vision_model.";
  if (!m.tensors.has(tower + "embeddings.class_embedding")) tower = "vision_tower.";
  m.patches(tower + "embeddings.patch_embedding", 1);
  m.tensors.copy(tower + "embeddings.class_embedding", "v.class_embd");
  m.tensors.copy(tower + "embeddings.position_embedding.weight", "v.position_embd.weight");
  m.tensors.ignore(tower + "embeddings.position_ids");
  m.tensor(tower + "pre_layrnorm", "v.pre_ln");
  m.siglip_layers(tower + "encoder.layers.");
  for (int64_t layer = m.layer_count(); layer < layers; ++layer) {
    m.tensors.ignore_prefix(fmt::format("{}encoder.layers.{}.", tower, layer));
  }
  m.tensors.ignore_prefix(tower + "post_layernorm.");  // of the vector of an image
  m.tensor(projector + "linear_1", "mm.0");
  m.tensor(projector + "linear_2", "mm.2");
}

}  // namespace

const TowerDef& llava_tower() {
  static constexpr const char* kProjectors[] = {"mlp"};
  static constexpr const char* kCheckpoints[] = {"LlavaForConditionalGeneration"};
  static const TowerDef def{kProjectors, create_tower<Llava>, kCheckpoints, map,
                            "clip_vision_model"};
  return def;
}

}  // namespace infer
