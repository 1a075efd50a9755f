// The tower of Gemma 3 (Gemma Team 2025): SigLIP (Zhai et al. 2023), a pre-norm encoder with
// learned positions, over an image of one size. Squares of patches are averaged, and projected
// after a norm. The tokens of an image see each other.
#include <algorithm>

#include "engine/model/tower.h"
#include "engine/model/tower_checkpoint.h"
#include "engine/model/tower_patches.h"
#include "engine/model/vision_block.h"

namespace infer {
namespace {

class Gemma3 final : public Tower {
 public:
  Gemma3(HparamReader& r, const WeightSource& source) {
    read_pixels(r);
    tower_.filter = Filter::bilinear;
    tower_.merged = r.get_int("vision.projector.scale_factor", 4, 1, 64);
    tower_.width = r.need_int("vision.projection_dim", 1, kMaxWidth);
    tower_.token = tower_.text = "<start_of_image>";
    tower_.expanded = "\n\n<start_of_image><end_of_image>\n\n";
    tower_.keeps_token = true;
    block_ = read_vision_block(r, info_);
    block_.activation = op::Gelu::Kind::tanh;
    side_ = r.need_int("vision.image_size", 1, 1 << 14);
    const int64_t unit = tower_.patch * tower_.merged;
    if (side_ % unit != 0) {
      r.set_error(error(StatusCode::bad_file,
                        "{}: clip.vision.image_size: expected a multiple of {}, found {}",
                        r.metadata().source(), unit, side_));
      side_ = unit;
    }
    tower_.least_results = side_ / unit * (side_ / unit);
    info_.takes_images = {3 * tower_.patch * tower_.patch, block_.width};
    const int64_t across = side_ / tower_.patch;
    auto values = read_table(source, "v.position_embd.weight", block_.width, across * across);
    if (!values) r.set_error(values.error());
    if (values) table_ = *std::move(values);
  }

  Result<ImageSize> fit(ImageSize, int64_t) const override {
    return ImageSize{static_cast<int32_t>(side_), static_cast<int32_t>(side_)};
  }

  TowerStep lay_out(const Image& image) const override {
    TowerStep step = cut_into_patches(image, tower_);
    const int64_t across = side_ / tower_.patch;
    std::vector<float>& places = step.inputs.emplace_back();
    places.reserve(table_.size());
    for (const Position& at : step.positions) {
      const auto first = table_.begin() + (at.axes[0] * across + at.axes[1]) * block_.width;
      places.insert(places.end(), first, first + block_.width);
    }
    return step;
  }

  void build(ModelBuilder& m) const override {
    m.g.set_unit({UnitKind::embedding, -1});
    const ValueId pixels = m.g.input(StepInput::image, 0, info_.takes_images[0]);
    ValueId x = m.linear(pixels, "v.patch_embd", block_.width);
    x = m.add(x, m.g.input(StepInput::image, 1, block_.width));
    for (int64_t layer = 0; layer < info_.layers; ++layer) x = vision_layer(m, x, layer, block_);
    m.g.set_unit({UnitKind::output, -1});
    x = m.layer_norm(x, "v.post_ln", block_.eps);
    x = m.g.add(op::MeanRows{},
                {x, m.g.input(StepInput::output_rows), m.g.input(StepInput::output_ends)});
    x = m.rms_norm(x, "mm.soft_emb_norm.weight", block_.eps);
    m.g.output(m.linear(x, "mm.input_projection", tower_.width), "embeddings");
  }

 private:
  VisionBlock block_;
  int64_t side_ = 1;          ///< of an image, in pixels
  std::vector<float> table_;  ///< [patches][width]: learned places, row by row
};

void map(TowerMap& m) {
  m.begin({.projector = "gemma3", .activation = "gelu_pytorch_tanh"});
  m.require_processing(2);
  m.keys.set_float("vision.attention.layer_norm_epsilon",
                   m.config.get_float("layer_norm_eps", 1e-6));
  const int64_t side = m.config.get_int("image_size", 224, 1, 1 << 14);
  m.keys.set_int("vision.image_size", side);
  // Results of a side are as many as the root of all of them.
  const int64_t results = m.whole_int("mm_tokens_per_image", 256, 1, 1 << 20);
  int64_t across = 1;
  while (across * across < results) ++across;
  m.keys.set_int("vision.projector.scale_factor",
                 std::clamp<int64_t>(side / m.patch() / across, 1, 64));
  std::string tower = "vision_tower.vision_model.";
  if (!m.tensors.has(tower + "post_layernorm.weight")) tower = "vision_tower.";
  m.patches(tower + "embeddings.patch_embedding", 1);
  m.tensors.copy(tower + "embeddings.position_embedding.weight", "v.position_embd.weight");
  m.siglip_layers(tower + "encoder.layers.");
  m.tensor(tower + "post_layernorm", "v.post_ln");
  m.tensors.ignore_prefix(tower + "head.");  // makes one vector of an image
  m.tensors.copy("multi_modal_projector.mm_soft_emb_norm.weight", "mm.soft_emb_norm.weight",
                 Change::add_one);
  const std::string projection = "multi_modal_projector.mm_input_projection_weight";
  const int64_t made = m.tensors.shape_of(projection)[0];  // its rows are columns
  m.tensors.put("mm.input_projection.weight",
                m.tensors.view(projection, {made, m.width()}).swapped(0, 1));
}

}  // namespace

const TowerDef& gemma3_tower() {
  static constexpr const char* kProjectors[] = {"gemma3"};
  static constexpr const char* kCheckpoints[] = {"Gemma3ForConditionalGeneration"};
  static const TowerDef def{kProjectors, create_tower<Gemma3>, kCheckpoints, map};
  return def;
}

}  // namespace infer
