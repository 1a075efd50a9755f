// The tower of GLM-4.1V, GLM-4.5V and GLM-4.6V (GLM-V Team 2025): a pre-norm encoder with RMSNorm
// and SwiGLU, learned positions, which are resampled to the image's grid, and 2-D RoPE. Four
// patches, two by two, make one result: a convolution over them, then a gated feed-forward of its
// own. GLM-OCR (Z.ai 2026) has no learned positions, but an RMSNorm on every q and k head.
#include <algorithm>
#include <cmath>

#include "engine/model/tower.h"
#include "engine/model/tower_checkpoint.h"
#include "engine/model/tower_patches.h"
#include "engine/model/tower_tiles.h"
#include "engine/model/vision_block.h"

namespace infer {
namespace {

constexpr const char* kTable = "v.position_embd.weight";
constexpr const char* kNorm = "v.norm_embd.weight";
constexpr const char* kMerger = "mm.patch_merger";
constexpr const char* kNext = "glm5v";  // the projector of GLM-5.3-Flash
constexpr const char* kOcr = "GlmOcrForConditionalGeneration";
constexpr float kProjectorEps = 1e-5f;

class Glm4v : public Tower {
 public:
  /// `next`: of GLM-5.3-Flash.
  Glm4v(HparamReader& r, const WeightSource& source, bool next) {
    read_pixels(r);
    tower_.filter = Filter::bicubic;
    tower_.merged = r.get_int("vision.spatial_merge_size", 2, 1, 8);
    tower_.width = r.need_int("vision.projection_dim", 1, kMaxWidth);
    tower_.axes = !next;
    tower_.token = "<|image|>";
    tower_.text = "<|begin_of_image|><|image|><|end_of_image|>";
    const int64_t unit = tower_.patch * tower_.merged;
    limits_ = read_pixel_limits(
        r, tower_, {(next ? 16 : 8) * unit * unit, (next ? 8000 : 6144) * unit * unit});
    block_ = read_vision_block(r, info_);
    const bool ocr = !next && source.find(kTable) == nullptr && source.find(kNorm) == nullptr;
    // In GLM-4V's files the key is of the projector's feed-forward; those of layers are as wide as
    // the results.
    const bool of_projector = !next && !ocr;
    if (of_projector) inner_ = r.get_int("vision.feed_forward_length", 0, 0, kMaxWidth);
    if (const Weight* up = source.find("mm.up.weight"); up != nullptr && inner_ == 0) {
      inner_ = up->desc.shape[1];
    }
    inner_ = std::max<int64_t>(inner_, 1);
    if (of_projector) block_.feed_forward = tower_.width;
    block_.swapped = false;
    block_.rms_norms = true;
    block_.gated = op::Glu::Kind::silu;
    block_.rotate = true;
    info_.takes_images = {3 * tower_.patch * tower_.patch};
    info_.more_output_rows = tower_.merged * tower_.merged - 1;
    info_.ropes = {image_rope(block_.width / block_.heads, 10000.0)};
    block_.head_norms = !of_projector;
    if (!of_projector) check_projector(r, source);
    if (ocr) return;
    if (next) {
      block_.limit = static_cast<float>(r.get_float("vision.swiglu_clamp", 0.0));
      if (block_.limit > 0) return;
      r.set_error(error(StatusCode::bad_file,
                        "{}: clip.vision.swiglu_clamp: expected more than 0, found {}",
                        r.metadata().source(), block_.limit));
      return;
    }
    info_.takes_images.push_back(block_.width);
    table_ = read_square(r, source, kTable, block_.width, side_);
  }

  /// An image with a side shorter than a result is enlarged first.
  Result<ImageSize> fit(ImageSize size, int64_t most) const override {
    const auto unit = static_cast<double>(tower_.patch * tower_.merged);
    if (size.width < unit || size.height < unit) {
      const double scale = std::max(unit / size.height, unit / size.width);
      const auto scaled = [&](int32_t side) {
        return static_cast<int32_t>(std::min(side * scale, 1e9));
      };
      size = {scaled(size.width), scaled(size.height)};
    }
    return fit_area(size, tower_, limits_, most);
  }

  TowerStep lay_out(const Image& image) const override {
    TowerStep step = cut_into_patches(image, tower_);
    if (table_.empty()) return step;
    add_resampled(step, patch_grid(image, tower_), {table_, block_.width, side_}, cubic_shares);
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
    if (!table_.empty()) {
      x = m.rms_norm(x, kNorm, block_.eps);
      x = m.add(x, m.g.input(StepInput::image, 1, block_.width));
    }
    for (int64_t layer = 0; layer < info_.layers; ++layer) x = vision_layer(m, x, layer, block_);
    m.g.set_unit({UnitKind::output, -1});
    x = merge_patches(m, m.rms_norm(x, "v.post_ln.weight", block_.eps), tower_);
    x = m.linear(m.linear(x, kMerger, tower_.width), "mm.model.fc", tower_.width);
    x = m.g.add(op::Gelu{}, {m.layer_norm(x, "mm.post_norm", kProjectorEps)});
    const ValueId gate = m.linear(x, "mm.gate", inner_);
    const ValueId up = m.linear(x, "mm.up", inner_);
    x = limited_glu(m, gate, up, op::Glu::Kind::silu, block_.limit);
    m.g.output(m.linear(x, "mm.down", tower_.width), "embeddings");
  }

 protected:
  PixelLimits limits_;

 private:
  /// Nothing else says the width of its feed-forward.
  static void check_projector(HparamReader& r, const WeightSource& source) {
    int64_t rows = 0;
    for (const char* name : {"mm.gate.weight", "mm.up.weight"}) {
      const Weight* weight = source.find(name);
      const int64_t found = weight == nullptr ? 0 : weight->desc.shape[1];
      if (found > 0 && (rows == 0 || rows == found)) {
        rows = found;
        continue;
      }
      return r.set_error(error(StatusCode::bad_file, "{}: tensor '{}' {}", r.metadata().source(),
                               name, found == 0 ? "is missing" : "has other rows than 'mm.gate'"));
    }
  }

  VisionBlock block_;
  int64_t inner_ = 0;         ///< of the projector's feed-forward
  int64_t side_ = 1;          ///< of the square of learned places
  std::vector<float> table_;  ///< [side · side][width]; empty: none
};

/// Sizes are those of transformers' Glm5NextImageProcessor.
class Glm5v final : public Glm4v {
 public:
  Glm5v(HparamReader& r, const WeightSource& source) : Glm4v(r, source, true) {}

  /// Of the picture, with what fills it up.
  Result<ImageSize> fit(ImageSize size, int64_t most) const override {
    const int64_t unit = tower_.patch * tower_.merged;
    const int64_t most_area = std::min(limits_.most, std::max<int64_t>(most, 1) * unit * unit);
    const auto up = [&](double side) {
      return static_cast<int64_t>(std::ceil(side / static_cast<double>(unit))) * unit;
    };
    int64_t width = up(size.width), height = up(size.height);
    if (width * height < limits_.least) {
      const double scale = std::sqrt(static_cast<double>(limits_.least) /
                                     (static_cast<double>(size.width) * size.height));
      width = up(std::max(1.0, std::ceil(size.width * scale)));
      height = up(std::max(1.0, std::ceil(size.height * scale)));
    }
    if (width * height > most_area) {
      width = height = unit;
      int64_t low = 1, high = size.height;  // of the image itself
      while (low <= high) {
        const int64_t middle = (low + high) / 2;
        const double across = std::floor(static_cast<double>(size.width * middle) / size.height);
        const int64_t w = up(std::max(1.0, across)), h = up(static_cast<double>(middle));
        const bool fits = w * h <= most_area;
        if (fits) width = w, height = h;
        (fits ? low : high) = fits ? middle + 1 : middle - 1;
      }
    }
    return ImageSize{static_cast<int32_t>(width), static_cast<int32_t>(height)};
  }

  Result<TowerPictures> pictures(const Image& image, int64_t most) const override {
    INFER_TRY(const ImageSize whole, fit({image.width, image.height}, most));
    double scale = std::min(static_cast<double>(whole.height) / image.height,
                            static_cast<double>(whole.width) / image.width);
    if (int64_t{image.width} * image.height >= limits_.least) scale = std::min(1.0, scale);
    const auto scaled = [&](int32_t side, int32_t limit) {
      return std::clamp(static_cast<int32_t>(std::floor(side * scale)), 1, limit);
    };
    INFER_TRY(const Image inner, resize(image, scaled(image.width, whole.width),
                                        scaled(image.height, whole.height), tower_.filter));
    TowerPictures made;
    made.pictures.push_back(placed_on_black(inner, whole, 0, 0));
    return made;
  }
};

Result<std::unique_ptr<Tower>> create(const WeightSource& source) {
  HparamReader r(source);
  INFER_TRY(const std::optional<std::string> name,
            source.metadata().get_string("clip.projector_type"));
  std::unique_ptr<Tower> tower;
  if (name == kNext) {
    tower = std::make_unique<Glm5v>(r, source);
  } else {
    tower = std::make_unique<Glm4v>(r, source, false);
  }
  if (!r.status().ok()) return tl::unexpected(r.status());
  return tower;
}

/// Limits of images as numbers of tokens.
void map_tokens(TowerMap& m, int64_t merged) {
  const int64_t area = merged * merged * m.patch() * m.patch();
  m.keys.set_int("vision.image_min_pixels",
                 area * m.processor_int("min_image_tokens", 16, 1, 1 << 20));
  m.keys.set_int("vision.image_max_pixels",
                 area * m.processor_int("max_image_tokens", 8000, 1, 1 << 20));
  m.require_processor("patch_expand_factor", 1);
  m.keys.set_float("vision.swiglu_clamp", m.config.get_float("swiglu_limit", 10.0));
}

void map(TowerMap& m) {
  const bool next = m.is("Glm5NextForConditionalGeneration");
  m.begin({.projector = next ? kNext : "glm4v",
           .activation = "silu",
           .layers = "depth",
           .heads = "num_heads",
           .colours = TowerColours::clip});
  m.require_processing(3);
  const int64_t frames = m.config.get_int("temporal_patch_size", 2, 1, 2);
  m.require_processor("temporal_patch_size", frames);
  m.require_processor("patch_size", m.patch());
  if (!next) m.pixel_limits(frames);
  m.keys.set_float("vision.attention.layer_norm_epsilon", m.config.get_float("rms_norm_eps", 1e-5));
  const int64_t merged = m.config.get_int("spatial_merge_size", 2, 1, 8);
  m.require_processor("merge_size", merged);
  m.keys.set_int("vision.spatial_merge_size", merged);
  if (next) map_tokens(m, merged);
  const double base = m.config.get_float("rope_parameters.rope_theta", 10000.0);
  m.config.require(base == 10000.0, "the tower's rope_theta");
  m.patches("visual.patch_embed.proj", frames);
  if (!next && !m.is(kOcr)) {
    m.tensor("visual.post_conv_layernorm", "v.norm_embd");
    m.tensors.copy("visual.embeddings.position_embedding.weight", kTable);
  }
  m.layers("visual.blocks.", {{"norm1", "ln1"},
                              {"norm2", "ln2"},
                              {"attn.qkv", "attn_qkv"},
                              {"attn.q_norm", "attn_q_norm"},
                              {"attn.k_norm", "attn_k_norm"},
                              {"attn.proj", "attn_out"},
                              {"mlp.gate_proj", "ffn_gate"},
                              {"mlp.up_proj", "ffn_up"},
                              {"mlp.down_proj", "ffn_down"}});
  m.tensor("visual.post_layernorm", "v.post_ln");
  const int64_t patches = merged * merged;
  const std::string kernels = "visual.downsample.weight";
  const int64_t width = m.tensors.shape_of(kernels)[3];
  const TensorView all = m.tensors.view(kernels, {patches, m.width(), width});
  m.tensors.put_parts(std::string(kMerger) + ".weight", {all.swapped(0, 1)},
                      {patches * m.width(), width});
  m.tensors.copy("visual.downsample.bias", std::string(kMerger) + ".bias");
  m.tensor("visual.merger.proj", "mm.model.fc");
  m.tensor("visual.merger.post_projection_norm", "mm.post_norm");
  m.tensor("visual.merger.gate_proj", "mm.gate");
  m.tensor("visual.merger.up_proj", "mm.up");
  m.tensor("visual.merger.down_proj", "mm.down");
}

}  // namespace

const TowerDef& glm4v_tower() {
  static constexpr const char* kProjectors[] = {"glm4v", kNext};
  static constexpr const char* kCheckpoints[] = {
      "Glm4vForConditionalGeneration", "Glm4vMoeForConditionalGeneration",
      "Glm46VForConditionalGeneration", "Glm5NextForConditionalGeneration", kOcr};
  static const TowerDef def{kProjectors, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
