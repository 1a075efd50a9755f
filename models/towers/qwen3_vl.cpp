// The tower of Qwen3-VL, Qwen 3.5 and 3.6 (Bai et al. 2025): a pre-norm encoder with learned
// positions, which are stretched over the image's grid, and 2-D RoPE. Four patches, two by two,
// make one result. In Qwen3-VL what some of the layers make is projected as well, and added behind
// the first layers of the text model.
#include <algorithm>
#include <cmath>

#include "engine/model/tower.h"
#include "engine/model/tower_checkpoint.h"
#include "engine/model/tower_patches.h"
#include "engine/model/vision_block.h"

namespace infer {
namespace {

class Qwen3Vl final : public Tower {
 public:
  Qwen3Vl(HparamReader& r, const WeightSource& source) {
    read_pixels(r);
    tower_.filter = Filter::bicubic;
    tower_.merged = r.get_int("vision.spatial_merge_size", 2, 1, 8);
    tower_.width = r.need_int("vision.projection_dim", 1, kMaxWidth);
    tower_.axes = true;
    tower_.token = "<|image_pad|>";
    tower_.text = "<|vision_start|><|image_pad|><|vision_end|>";
    limits_ = read_pixel_limits(r, tower_, {65536, 16777216});
    block_ = read_vision_block(r, info_);
    block_.activation = op::Gelu::Kind::tanh;
    block_.rotate = true;
    read_deepstack(r);
    tower_.parts = 1 + std::ranges::count(deepstack_, true);
    info_.takes_images = {3 * tower_.patch * tower_.patch, block_.width};
    info_.more_output_rows = tower_.merged * tower_.merged - 1;
    info_.ropes = {image_rope(block_.width / block_.heads, 10000.0)};
    table_ = read_square(r, source, kTable, block_.width, side_);
  }

  Result<ImageSize> fit(ImageSize size, int64_t most) const override {
    return fit_area(size, tower_, limits_, most);
  }

  TowerStep lay_out(const Image& image) const override {
    TowerStep step = cut_into_patches(image, tower_);
    const ImageSize grid = patch_grid(image, tower_);
    std::vector<float>& places = step.inputs.emplace_back();
    places.reserve(step.positions.size() * static_cast<size_t>(block_.width));
    for (const Position& at : step.positions) {
      add_place(grid, at.axes[1], at.axes[0], places);
    }
    return step;
  }

  void build(ModelBuilder& m) const override {
    m.g.set_unit({UnitKind::embedding, -1});
    const ValueId pixels = m.g.input(StepInput::image, 0, info_.takes_images[0]);
    ValueId x = m.linear(pixels, "v.patch_embd", block_.width);
    // An image is a video of two equal ones.
    if (m.has("v.patch_embd_1.weight")) {
      x = m.add(x, m.linear(pixels, "v.patch_embd_1", block_.width));
    }
    x = m.add(x, m.g.input(StepInput::image, 1, block_.width));
    ValueId further = kNoValue;
    for (int64_t layer = 0; layer < info_.layers; ++layer) {
      x = vision_layer(m, x, layer, block_);
      if (!deepstack_[static_cast<size_t>(layer)]) continue;
      const auto name = [&](const char* part) {
        return "v.deepstack." + std::to_string(layer) + "." + part;
      };
      const ValueId h = m.layer_norm(merge_patches(m, x, tower_), name("norm"), kMergerEps);
      const ValueId made = project(m, h, name("fc1"), name("fc2"));
      further = further == kNoValue ? made : m.g.add(op::Concat{}, {further, made});
    }
    m.g.set_unit({UnitKind::output, -1});
    const ValueId h = merge_patches(m, m.layer_norm(x, "v.post_ln", kMergerEps), tower_);
    ValueId made = project(m, h, "mm.0", "mm.2");
    if (further != kNoValue) made = m.g.add(op::Concat{}, {made, further});
    m.g.output(made, "embeddings");
  }

 private:
  static constexpr const char* kTable = "v.position_embd.weight";
  static constexpr float kMergerEps = 1e-6f;

  void read_deepstack(HparamReader& r) {
    deepstack_.assign(static_cast<size_t>(info_.layers), false);
    const MetaValue* value = r.metadata().find("clip.vision.is_deepstack_layers");
    if (value == nullptr) return;
    const auto* flags = std::get_if<std::vector<bool>>(value);
    if (flags == nullptr || flags->size() != deepstack_.size()) {
      return r.set_error(error(StatusCode::bad_file,
                               "{}: clip.vision.is_deepstack_layers: expected {} flags",
                               r.metadata().source(), info_.layers));
    }
    deepstack_ = *flags;
  }

  /// The learned embedding of a place in the grid: the table's square is stretched over the grid so
  /// that their corners coincide, and values are between those of the four places around.
  void add_place(ImageSize grid, int32_t column, int32_t row, std::vector<float>& to) const {
    const auto along = [&](int32_t i, int32_t n) {
      return n > 1 ? static_cast<double>(i) * static_cast<double>(side_ - 1) / (n - 1) : 0.0;
    };
    const double x = along(column, grid.width);
    const double y = along(row, grid.height);
    const auto left = static_cast<int64_t>(x);
    const auto top = static_cast<int64_t>(y);
    const double right_share = x - static_cast<double>(left);
    const double lower_share = y - static_cast<double>(top);
    const auto at = [&](int64_t c, int64_t r) {
      const int64_t place = std::min(r, side_ - 1) * side_ + std::min(c, side_ - 1);
      return table_.data() + place * block_.width;
    };
    const float* corners[] = {at(left, top), at(left + 1, top), at(left, top + 1),
                              at(left + 1, top + 1)};
    const double shares[] = {(1 - right_share) * (1 - lower_share), right_share * (1 - lower_share),
                             (1 - right_share) * lower_share, right_share * lower_share};
    for (int64_t i = 0; i < block_.width; ++i) {
      double sum = 0;
      for (int c = 0; c < 4; ++c) sum += shares[c] * corners[c][i];
      to.push_back(static_cast<float>(sum));
    }
  }

  /// What merged patches make: two products with GELU between them.
  ValueId project(ModelBuilder& m, ValueId x, const std::string& first,
                  const std::string& second) const {
    const ValueId h = m.linear(x, first, m.g.value(x).desc.shape[0]);
    return m.linear(m.g.add(op::Gelu{}, {h}), second, tower_.width);
  }

  PixelLimits limits_;
  VisionBlock block_;
  std::vector<bool> deepstack_;  ///< by layer
  int64_t side_ = 1;             ///< of the square of learned places
  std::vector<float> table_;     ///< [side · side][embedding]
};

void map(TowerMap& m) {
  m.begin({.projector = "qwen3vl_merger",
           .activation = "gelu_pytorch_tanh",
           .layers = "depth",
           .heads = "num_heads"});
  m.require_processing(3);
  m.pixel_limits();
  m.keys.set_float("vision.attention.layer_norm_epsilon", 1e-6);
  m.keys.set_int("vision.spatial_merge_size", m.config.get_int("spatial_merge_size", 2, 1, 8));
  m.patches("visual.patch_embed.proj", m.config.get_int("temporal_patch_size", 2, 1, 2));
  m.tensors.copy("visual.pos_embed.weight", "v.position_embd.weight");
  m.layers("visual.blocks.", {{"norm1", "ln1"},
                              {"norm2", "ln2"},
                              {"attn.qkv", "attn_qkv"},
                              {"attn.proj", "attn_out"},
                              {"mlp.linear_fc1", "ffn_up"},
                              {"mlp.linear_fc2", "ffn_down"}});
  m.tensor("visual.merger.norm", "v.post_ln");
  m.tensor("visual.merger.linear_fc1", "mm.0");
  m.tensor("visual.merger.linear_fc2", "mm.2");
  std::vector<bool> further(static_cast<size_t>(m.layer_count()));
  int64_t count = 0;
  for (const int64_t layer : m.config.get_ints("deepstack_visual_indexes")) {
    // They are added in the order of the layers.
    const bool known = layer >= 0 && layer < m.layer_count() &&
                       std::ranges::count(further.begin() + layer, further.end(), true) == 0;
    m.config.require(known, "deepstack_visual_indexes with " + std::to_string(layer));
    if (!known) return;
    further[static_cast<size_t>(layer)] = true;
    const std::string from = "visual.deepstack_merger_list." + std::to_string(count++) + ".";
    const std::string to = "v.deepstack." + std::to_string(layer) + ".";
    m.tensor(from + "norm", to + "norm");
    m.tensor(from + "linear_fc1", to + "fc1");
    m.tensor(from + "linear_fc2", to + "fc2");
  }
  if (count > 0) m.keys.set_flags("vision.is_deepstack_layers", further);
}

}  // namespace

const TowerDef& qwen3_vl_tower() {
  static constexpr const char* kProjectors[] = {"qwen3vl_merger"};
  static constexpr const char* kCheckpoints[] = {
      "Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration",
      "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration",
      "Qwen4ExpForConditionalGeneration"};
  static const TowerDef def{kProjectors, create_tower<Qwen3Vl>, kCheckpoints, map};
  return def;
}

}  // namespace infer
