// The tower of PaddleOCR-VL (Cui et al. 2025): SigLIP's encoder over images of any form, with
// learned positions, which are resampled to the image's grid, and 2-D RoPE. Four patches, two by
// two, make one result. In dots.ocr's (Li et al. 2025) the encoder has RMSNorm, SwiGLU and no
// learned positions, and its text has no axes.
#include <algorithm>
#include <cmath>

#include "engine/model/tower.h"
#include "engine/model/tower_checkpoint.h"
#include "engine/model/tower_patches.h"
#include "engine/model/vision_block.h"

namespace infer {
namespace {

constexpr const char* kTable = "v.position_embd.weight";
constexpr const char* kDots = "dots_ocr";
constexpr const char* kDotsClass = "DotsOCRForCausalLM";
constexpr float kProjectorEps = 1e-5f, kDotsProjectorEps = 1e-6f;

class PaddleOcr final : public Tower {
 public:
  PaddleOcr(HparamReader& r, const WeightSource& source, bool dots) : dots_(dots) {
    read_pixels(r);
    tower_.filter = Filter::bicubic;
    const char* merged = dots ? "vision.projector.scale_factor" : "vision.spatial_merge_size";
    tower_.merged = r.get_int(merged, 2, 1, 8);
    tower_.width = r.need_int("vision.projection_dim", 1, kMaxWidth);
    tower_.axes = !dots;
    tower_.token = dots ? "<|imgpad|>" : "<|IMAGE_PLACEHOLDER|>";
    tower_.text = dots ? "<|img|><|imgpad|><|endofimg|>"
                       : "<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>";
    limits_ = read_pixel_limits(
        r, tower_, dots ? PixelLimits{3136, 11289600} : PixelLimits{384 * 384, 1536 * 1536});
    const int64_t unit = tower_.patch * tower_.merged;
    tower_.usual_results = std::clamp<int64_t>(limits_.most / (unit * unit), 1, kMostUsual);
    block_ = read_vision_block(r, info_);
    block_.activation = op::Gelu::Kind::tanh;
    block_.rotate = true;
    info_.takes_images = {3 * tower_.patch * tower_.patch};
    info_.more_output_rows = tower_.merged * tower_.merged - 1;
    info_.ropes = {image_rope(block_.width / block_.heads, 10000.0)};
    if (dots) {
      block_.rms_norms = true;
      block_.gated = op::Glu::Kind::silu;
      return;
    }
    info_.takes_images.push_back(block_.width);
    table_ = read_square(r, source, kTable, block_.width, side_);
  }

  /// In PaddleOCR-VL a side shorter than a result is enlarged first.
  Result<ImageSize> fit(ImageSize size, int64_t most) const override {
    if (dots_) return fit_area(size, tower_, limits_, most);
    const auto unit = static_cast<int32_t>(tower_.patch * tower_.merged);
    const auto enlarged = [&](int32_t side, int32_t other) {
      const double scaled = static_cast<double>(side) * unit / other;
      return static_cast<int32_t>(std::nearbyint(std::min(scaled, 1e9)));
    };
    if (size.height < unit) size = {enlarged(size.width, size.height), unit};
    if (size.width < unit) size = {unit, enlarged(size.height, size.width)};
    return fit_area(size, tower_, limits_, most);
  }

  TowerStep lay_out(const Image& image) const override {
    TowerStep step = cut_into_patches(image, tower_);
    if (dots_) return step;
    add_resampled(step, patch_grid(image, tower_), {table_, block_.width, side_}, linear_shares);
    return step;
  }

  void build(ModelBuilder& m) const override {
    m.g.set_unit({UnitKind::embedding, -1});
    const ValueId pixels = m.g.input(StepInput::image, 0, info_.takes_images[0]);
    ValueId x = m.linear(pixels, "v.patch_embd", block_.width);
    x = dots_ ? m.rms_norm(x, "v.pre_ln.weight", block_.eps)
              : m.add(x, m.g.input(StepInput::image, 1, block_.width));
    for (int64_t layer = 0; layer < info_.layers; ++layer) x = vision_layer(m, x, layer, block_);
    m.g.set_unit({UnitKind::output, -1});
    x = dots_ ? m.rms_norm(x, "mm.post_norm.weight", block_.eps)
              : m.layer_norm(x, "v.post_ln", block_.eps);
    x = m.layer_norm(x, "mm.input_norm", dots_ ? kDotsProjectorEps : kProjectorEps);
    x = merge_patches(m, x, tower_);
    x = m.linear(x, dots_ ? "mm.0" : "mm.1", m.g.value(x).desc.shape[0]);
    m.g.output(m.linear(m.g.add(op::Gelu{}, {x}), "mm.2", tower_.width), "embeddings");
  }

 private:
  static constexpr int64_t kMostUsual = 4096;

  bool dots_;  ///< of dots.ocr
  PixelLimits limits_;
  VisionBlock block_;
  int64_t side_ = 1;          ///< of the square of learned places
  std::vector<float> table_;  ///< [side · side][width]
};

Result<std::unique_ptr<Tower>> create(const WeightSource& source) {
  HparamReader r(source);
  INFER_TRY(const std::optional<std::string> name,
            source.metadata().get_string("clip.projector_type"));
  auto tower = std::make_unique<PaddleOcr>(r, source, name == kDots);
  if (!r.status().ok()) return tl::unexpected(r.status());
  return tower;
}

void map_dots(TowerMap& m) {
  for (const auto& [key, value] : {std::pair{"embed_dim", 1536},
                                   {"intermediate_size", 4224},
                                   {"num_hidden_layers", 42},
                                   {"num_attention_heads", 12},
                                   {"patch_size", 14}}) {
    m.config.assume(key, int64_t{value});
  }
  m.begin({.projector = kDots, .width = "embed_dim", .colours = TowerColours::clip});
  m.require_processing(3);
  const int64_t merged = m.config.get_int("spatial_merge_size", 2, 1, 8);
  m.require_processor("patch_size", m.patch());
  m.require_processor("merge_size", merged);
  m.pixel_limits();
  m.keys.set_int("vision.projector.scale_factor", merged);
  m.keys.set_float("vision.attention.layer_norm_epsilon", m.config.get_float("rms_norm_eps", 1e-5));
  m.config.require(m.config.get_bool("post_norm", true), "post_norm false");
  const std::string v = "vision_tower.";
  m.patches(v + "patch_embed.patchifier.proj", 1);
  m.tensor(v + "patch_embed.patchifier.norm", "v.pre_ln");
  m.layers(v + "blocks.", {{"norm1", "ln1"},
                           {"norm2", "ln2"},
                           {"attn.qkv", "attn_qkv"},
                           {"attn.proj", "attn_out"},
                           {"mlp.fc1", "ffn_gate"},
                           {"mlp.fc3", "ffn_up"},
                           {"mlp.fc2", "ffn_down"}});
  m.tensor(v + "post_trunk_norm", "mm.post_norm");
  m.tensor(v + "merger.ln_q", "mm.input_norm");
  m.tensor(v + "merger.mlp.0", "mm.0");
  m.tensor(v + "merger.mlp.2", "mm.2");
}

void map(TowerMap& m) {
  if (m.is(kDotsClass)) return map_dots(m);
  for (const auto& [key, value] : {std::pair{"hidden_size", 1152},
                                   {"intermediate_size", 4304},
                                   {"num_hidden_layers", 27},
                                   {"num_attention_heads", 16},
                                   {"patch_size", 14}}) {
    m.config.assume(key, int64_t{value});
  }
  m.begin(
      {.projector = "paddleocr", .activation = "gelu_pytorch_tanh", .colours = TowerColours::clip});
  m.require_processing(3);
  const int64_t merged = m.config.get_int("spatial_merge_size", 2, 1, 8);
  m.require_processor("patch_size", m.patch());
  m.require_processor("merge_size", merged);
  m.require_processor("temporal_patch_size", 1);
  m.pixel_limits();
  m.keys.set_int("vision.spatial_merge_size", merged);
  m.keys.set_float("vision.attention.layer_norm_epsilon",
                   m.config.get_float("layer_norm_eps", 1e-6));
  const double base = m.config.get_float("rope_parameters.rope_theta", 10000.0);
  m.config.require(base == 10000.0, "the tower's rope_theta");
  const std::string v = "visual.vision_model.";
  m.patches(v + "embeddings.patch_embedding", 1);
  m.tensors.copy(v + "embeddings.position_embedding.weight", kTable);
  m.tensors.ignore_prefix(v + "embeddings.packing_position_embedding.");
  m.tensors.ignore_prefix(v + "head.");
  m.siglip_layers(v + "encoder.layers.");
  m.tensor(v + "post_layernorm", "v.post_ln");
  m.tensor("mlp_AR.pre_norm", "mm.input_norm");
  m.tensor("mlp_AR.linear_1", "mm.1");
  m.tensor("mlp_AR.linear_2", "mm.2");
}

}  // namespace

const TowerDef& paddleocr_tower() {
  static constexpr const char* kProjectors[] = {"paddleocr", kDots};
  static constexpr const char* kCheckpoints[] = {"PaddleOCRVLForConditionalGeneration", kDotsClass};
  static const TowerDef def{kProjectors, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
