// The towers of Qwen2-VL (Wang et al. 2024) and Qwen2.5-VL (Bai et al. 2025): a pre-norm encoder
// with 2-D RoPE, in the second one with RMSNorm, SwiGLU, and layers whose patches see their window
// alone. Four patches, two by two, make one result. EXAONE 4.5's (LG AI Research 2026) is as the
// second one with fewer heads of keys and values, and its text has no axes.
#include <algorithm>

#include "engine/model/tower.h"
#include "engine/model/tower_checkpoint.h"
#include "engine/model/tower_patches.h"
#include "engine/model/vision_block.h"

namespace infer {
namespace {

constexpr const char* kExaone = "exaone4_5";
constexpr const char* kExaoneClass = "Exaone4_5_ForConditionalGeneration";

class Qwen2Vl final : public Tower {
 public:
  Qwen2Vl(HparamReader& r, bool windows, bool exaone) {
    read_pixels(r);
    tower_.filter = Filter::bicubic;
    tower_.merged = r.get_int("vision.spatial_merge_size", 2, 1, 8);
    tower_.width = r.need_int("vision.projection_dim", 1, kMaxWidth);
    tower_.usual_results = 1280;
    tower_.axes = !exaone;
    tower_.token = "<|image_pad|>";
    tower_.text =
        exaone ? "<vision><|image_pad|></vision>" : "<|vision_start|><|image_pad|><|vision_end|>";
    limits_ = read_pixel_limits(r, tower_, {56 * 56, 16384 * 28 * 28});
    block_ = read_vision_block(r, info_);
    block_.activation = op::Gelu::Kind::sigmoid;
    block_.rms_norms = windows;
    if (windows) block_.gated = op::Glu::Kind::silu;
    block_.rotate = true;
    if (exaone) read_kv_heads(r);
    info_.takes_images = {3 * tower_.patch * tower_.patch};
    info_.more_output_rows = tower_.merged * tower_.merged - 1;
    info_.ropes = {image_rope(block_.width / block_.heads, 10000.0)};
    if (!windows) return;
    if (exaone && !r.has("vision.n_wa_pattern")) return;
    info_.parted = true;
    period_ = r.need_int("vision.n_wa_pattern", 1, 1 << 10);
    const int64_t pixels = r.get_int("vision.window_size", 112, 1, 1 << 14);
    window_ = static_cast<int32_t>(std::max<int64_t>(1, pixels / (tower_.patch * tower_.merged)));
  }

  Result<ImageSize> fit(ImageSize size, int64_t most) const override {
    return fit_area(size, tower_, limits_, most);
  }

  TowerStep lay_out(const Image& image) const override {
    return cut_into_patches(image, tower_, window_);
  }

  void build(ModelBuilder& m) const override {
    m.g.set_unit({UnitKind::embedding, -1});
    const ValueId pixels = m.g.input(StepInput::image, 0, info_.takes_images[0]);
    ValueId x = m.linear(pixels, "v.patch_embd", block_.width);
    // An image is a video of two equal ones.
    if (m.has("v.patch_embd_1.weight")) {
      x = m.add(x, m.linear(pixels, "v.patch_embd_1", block_.width));
    }
    for (int64_t layer = 0; layer < info_.layers; ++layer) {
      VisionBlock block = block_;
      if (window_ > 0 && (layer + 1) % period_ != 0) block.division = 1;
      x = vision_layer(m, x, layer, block);
    }
    m.g.set_unit({UnitKind::output, -1});
    x = block_.rms_norms ? m.rms_norm(x, "v.post_ln.weight", block_.eps)
                         : m.layer_norm(x, "v.post_ln", block_.eps);
    x = merge_patches(m, x, tower_);
    x = m.linear(x, "mm.0", m.g.value(x).desc.shape[0]);
    m.g.output(m.linear(m.g.add(op::Gelu{}, {x}), "mm.2", tower_.width), "embeddings");
  }

 private:
  void read_kv_heads(HparamReader& r) {
    const int64_t found = r.get_int("vision.attention.head_count_kv", block_.heads, 1, 1 << 12);
    if (block_.heads % found == 0) {
      block_.kv_heads = found;
      return;
    }
    r.set_error(error(StatusCode::bad_file,
                      "{}: clip.vision.attention.head_count_kv: expected a part of {}, found {}",
                      r.metadata().source(), block_.heads, found));
  }

  PixelLimits limits_;
  VisionBlock block_;
  int64_t period_ = 1;  ///< every so many layers one sees the whole image
  int32_t window_ = 0;  ///< of results across and down; 0: none
};

Result<std::unique_ptr<Tower>> create(const WeightSource& source) {
  HparamReader r(source);
  INFER_TRY(const std::optional<std::string> name,
            source.metadata().get_string("clip.projector_type"));
  const bool exaone = name == kExaone;
  auto tower = std::make_unique<Qwen2Vl>(r, exaone || name == "qwen2.5vl_merger", exaone);
  if (!r.status().ok()) return tl::unexpected(r.status());
  return tower;
}

/// Which layers see the whole image: every so many.
void map_windows(TowerMap& m) {
  const std::vector<int64_t> named = m.config.get_ints("fullatt_block_indexes");
  const bool within = !named.empty() && named.front() >= 0 && named.front() < m.layer_count();
  const int64_t period = within ? named.front() + 1 : m.layer_count();
  std::vector<int64_t> expected;
  for (int64_t layer = period - 1; layer < m.layer_count(); layer += period) {
    expected.push_back(layer);
  }
  m.config.require(named == expected, "fullatt_block_indexes that do not name every n-th layer");
  m.keys.set_int("vision.n_wa_pattern", period);
  m.keys.set_int("vision.window_size", m.config.get_int("window_size", 112, 1, 1 << 14));
}

void map(TowerMap& m) {
  const bool exaone = m.is(kExaoneClass);
  const bool windows = exaone || m.is("Qwen2_5_VLForConditionalGeneration");
  m.begin({.projector = exaone    ? kExaone
                        : windows ? "qwen2.5vl_merger"
                                  : "qwen2vl_merger",
           .activation = windows ? "silu" : "quick_gelu",
           .layers = "depth",
           .heads = "num_heads",
           .width = windows ? "hidden_size" : "embed_dim",
           .colours = TowerColours::clip});
  m.require_processing(3);
  m.pixel_limits();
  m.keys.set_float("vision.attention.layer_norm_epsilon", 1e-6);
  m.keys.set_int("vision.spatial_merge_size", m.config.get_int("spatial_merge_size", 2, 1, 8));
  if (windows) map_windows(m);
  if (exaone) {
    m.keys.set_int("vision.attention.head_count_kv",
                   m.config.get_int("num_key_value_heads", 8, 1, 4096));
  }
  m.patches("visual.patch_embed.proj", m.config.get_int("temporal_patch_size", 2, 1, 2));
  m.layers("visual.blocks.", {{"norm1", "ln1"},
                              {"norm2", "ln2"},
                              {"attn.qkv", "attn_qkv"},
                              {"attn.proj", "attn_out"},
                              {"mlp.fc1", "ffn_up"},
                              {"mlp.fc2", "ffn_down"},
                              {"mlp.gate_proj", "ffn_gate"},
                              {"mlp.up_proj", "ffn_up"},
                              {"mlp.down_proj", "ffn_down"}});
  m.tensor("visual.merger.ln_q", "v.post_ln");
  m.tensor("visual.merger.mlp.0", "mm.0");
  m.tensor("visual.merger.mlp.2", "mm.2");
}

}  // namespace

const TowerDef& qwen2_vl_tower() {
  static constexpr const char* kProjectors[] = {"qwen2vl_merger", "qwen2.5vl_merger", kExaone};
  static constexpr const char* kCheckpoints[] = {
      "Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration", kExaoneClass};
  static const TowerDef def{kProjectors, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
