// The tower of Pixtral (Agrawal et al. 2024), Mistral Small 3.1 and later, and Ministral 3: a Llama
// encoder with 2-D RoPE. An image keeps its form. In the later ones four patches, two by two, make
// one result. A token stands between the lines of results, and one at the end.
#include <algorithm>
#include <cmath>

#include "engine/core/file.h"
#include "engine/model/tower.h"
#include "engine/model/tower_checkpoint.h"
#include "engine/model/tower_patches.h"
#include "engine/model/vision_block.h"

namespace infer {
namespace {

constexpr const char* kMerger = "mm.patch_merger";
constexpr int64_t kMostPixels = 1 << 14;  // of a side

class Pixtral final : public Tower {
 public:
  Pixtral(HparamReader& r, const WeightSource& source) {
    read_pixels(r);
    tower_.filter = Filter::bicubic;
    tower_.merged = r.get_int("vision.spatial_merge_size", 1, 1, 8);
    tower_.width = r.need_int("vision.projection_dim", 1, kMaxWidth);
    tower_.token = tower_.text = "[IMG]";
    tower_.expanded = "[IMG][IMG_END]";
    tower_.line_token = "[IMG_BREAK]";
    edge_ = r.need_int("vision.image_size", 1, kMostPixels);
    block_ = read_vision_block(r, info_);
    block_.rms_norms = true;
    block_.gated = r.get_bool("use_silu", false) ? op::Glu::Kind::silu : op::Glu::Kind::gelu;
    block_.rotate = true;
    block_.style = op::Rope::Style::interleaved;
    RopeSpec rope = image_rope(block_.width / block_.heads, read_rope_base(r, 10000.0));
    // The axes take the frequencies in turns.
    const int32_t half = rope.pairs / 2;
    for (int32_t i = 0; i < 2 * half; ++i) {
      rope.of_pairs[static_cast<size_t>(i)].exponent =
          static_cast<double>(2 * (i % half) + i / half) / rope.pairs;
    }
    info_.ropes = {rope};
    info_.takes_images = {3 * tower_.patch * tower_.patch};
    info_.more_output_rows = tower_.merged * tower_.merged - 1;
    if (source.find("v.token_embd.img_break") != nullptr) {
      auto values = read_table(source, "v.token_embd.img_break", tower_.width, 1);
      if (!values) r.set_error(values.error());
      if (values) line_end_ = *std::move(values);
    }
  }

  /// Shrinks an image whose longer side is beyond the limit, then rounds both sides up.
  Result<ImageSize> fit(ImageSize size, int64_t most) const override {
    const auto unit = static_cast<double>(tower_.patch * tower_.merged);
    const auto edge = static_cast<double>(edge_);
    for (double ratio = std::max({1.0, size.width / edge, size.height / edge});; ratio *= 1.01) {
      const auto units = [&](int32_t side) {
        return static_cast<int64_t>(std::max(1.0, std::ceil(std::floor(side / ratio) / unit)));
      };
      const int64_t columns = units(size.width);
      const int64_t rows = units(size.height);
      const int64_t breaks = line_end_.empty() ? 0 : rows - 1;
      if (rows * columns + breaks > most && rows * columns > 1) continue;
      return ImageSize{static_cast<int32_t>(columns * tower_.patch * tower_.merged),
                       static_cast<int32_t>(rows * tower_.patch * tower_.merged)};
    }
  }

  TowerStep lay_out(const Image& image) const override {
    TowerStep step = cut_into_patches(image, tower_);
    for (int32_t i = 0; i < step.grid.width * step.grid.height; ++i) {
      if (i > 0 && i % step.grid.width == 0 && !line_end_.empty()) step.rows.push_back(-1);
      step.rows.push_back(i);
    }
    return step;
  }

  void build(ModelBuilder& m) const override {
    m.g.set_unit({UnitKind::embedding, -1});
    const ValueId pixels = m.g.input(StepInput::image, 0, info_.takes_images[0]);
    ValueId x = m.linear(pixels, "v.patch_embd", block_.width);
    x = m.rms_norm(x, "v.pre_ln.weight", block_.eps);
    for (int64_t layer = 0; layer < info_.layers; ++layer) x = vision_layer(m, x, layer, block_);
    m.g.set_unit({UnitKind::output, -1});
    if (m.has("mm.input_norm.weight")) x = m.rms_norm(x, "mm.input_norm.weight", block_.eps);
    x = merge_patches(m, x, tower_);
    if (tower_.merged > 1) x = m.linear(x, kMerger, block_.width);
    x = m.linear(x, "mm.1", tower_.width);
    m.g.output(m.linear(m.g.add(op::Gelu{}, {x}), "mm.2", tower_.width), "embeddings");
  }

 private:
  VisionBlock block_;
  int64_t edge_ = 1;  ///< pixels of the longer side at most
};

void map(TowerMap& m) {
  const std::string type = m.config.get_string("model_type", "pixtral");
  m.config.require(type == "pixtral", "a tower of '" + printable(type) + "'");
  // Pixtral 12B leaves out what is as in PixtralVisionConfig.
  for (const auto& [key, value] : {std::pair{"hidden_size", 1024},
                                   {"intermediate_size", 4096},
                                   {"num_hidden_layers", 24},
                                   {"num_attention_heads", 16},
                                   {"image_size", 1024},
                                   {"patch_size", 16}}) {
    m.config.assume(key, int64_t{value});
  }
  m.begin({.projector = "pixtral", .colours = TowerColours::clip});
  m.require_processing(3);
  const std::string activation = m.config.get_string("hidden_act", "gelu");
  m.config.require(activation == "gelu" || activation == "silu",
                   "the tower's hidden_act '" + printable(activation) + "'");
  m.keys.set_bool("use_silu", activation == "silu");
  m.config.require(m.whole_int("vision_feature_layer", -1, -1024, 1024) == -1,
                   "a vision_feature_layer that is not the last one");
  m.keys.set_float("vision.attention.layer_norm_epsilon", 1e-5);
  const int64_t edge = m.config.need_int("image_size", 1, kMostPixels);
  m.keys.set_int("vision.image_size", m.processor_int("size.longest_edge", edge, 1, kMostPixels));
  const double base = m.config.get_float("rope_theta", 10000.0);
  m.keys.set_float("rope.freq_base", m.config.get_float("rope_parameters.rope_theta", base));
  const bool merges = m.config.checkpoint() != "MistralForCausalLM";  // as Pixtral 12B's text is
  const int64_t merged = merges ? m.whole_int("spatial_merge_size", 2, 1, 8) : 1;
  m.keys.set_int("vision.spatial_merge_size", merged);
  const int64_t heads = m.config.need_int("num_attention_heads", 1, 4096);
  m.tensors.set_heads(heads, heads);
  m.patches("vision_tower.patch_conv", 1);
  m.tensor("vision_tower.ln_pre", "v.pre_ln");
  m.layers("vision_tower.transformer.layers.",
           {{"attention_norm", "ln1"},
            {"ffn_norm", "ln2"},
            {"attention.q_proj", "attn_q", Change::interleave_q},
            {"attention.k_proj", "attn_k", Change::interleave_k},
            {"attention.v_proj", "attn_v"},
            {"attention.o_proj", "attn_out"},
            {"feed_forward.gate_proj", "ffn_gate"},
            {"feed_forward.up_proj", "ffn_up"},
            {"feed_forward.down_proj", "ffn_down"}});
  m.tensor("multi_modal_projector.norm", "mm.input_norm");
  m.tensor("multi_modal_projector.linear_1", "mm.1");
  m.tensor("multi_modal_projector.linear_2", "mm.2");
  if (merged == 1) return;
  // Columns are those of merged patches element by element, and become those of patch by patch.
  const int64_t patches = merged * merged;
  const TensorView all = m.tensors.view("multi_modal_projector.patch_merger.merging_layer.weight",
                                        {patches, m.width(), m.width()});
  m.tensors.put_parts("mm.patch_merger.weight", {all.swapped(0, 1)},
                      {patches * m.width(), m.width()});
}

}  // namespace

const TowerDef& pixtral_tower() {
  static constexpr const char* kProjectors[] = {"pixtral"};
  static constexpr const char* kCheckpoints[] = {"Mistral3ForConditionalGeneration",
                                                 "LlavaForConditionalGeneration"};
  static const TowerDef def{kProjectors, create_tower<Pixtral>, kCheckpoints, map};
  return def;
}

}  // namespace infer
