// MoonViT, the tower of Kimi-VL (Kimi Team 2025) and Kimi K2.5 and K2.6 (Kimi Team 2026): a
// pre-norm encoder over images of any form, with learned positions, which are resampled to the
// image's grid, and 2-D RoPE. Four patches, two by two, make one result. An image is made smaller
// where it has too many patches, never larger, and filled up with black to whole results.
//
// In Kimi-VL's files the pairs of RoPE turn with the column and the row by turns, as its own code
// has it; llama.cpp turns half of a head with each. In those of Kimi K2.5 the rows are sorted for
// that.
#include <algorithm>
#include <cmath>

#include "engine/core/file.h"
#include "engine/model/tower.h"
#include "engine/model/tower_checkpoint.h"
#include "engine/model/tower_patches.h"
#include "engine/model/tower_tiles.h"
#include "engine/model/vision_block.h"

namespace infer {
namespace {

constexpr const char* kTable = "v.position_embd.weight";
constexpr const char* kProjectorOfK25 = "kimik25";
constexpr float kProjectorEps = 1e-5f;
constexpr int64_t kUsualSide = 512;  // patches
constexpr int64_t kMostPatches = 1 << 20;

class Kimi final : public Tower {
 public:
  Kimi(HparamReader& r, const WeightSource& source, bool k25) {
    read_pixels(r);
    tower_.filter = Filter::bicubic;
    tower_.merged = r.get_int("vision.projector.scale_factor", 2, 1, 8);
    tower_.width = r.need_int("vision.projection_dim", 1, kMaxWidth);
    tower_.token = "<|media_pad|>";
    tower_.text = fmt::format("<|media_{}|>image<|media_content|><|media_pad|><|media_end|>",
                              k25 ? "begin" : "start");
    const int64_t area = tower_.patch * tower_.patch;
    most_patches_ = r.get_int("vision.image_max_pixels", (k25 ? 16384 : 4096) * area, area,
                              kMostPatches * area) /
                    area;
    side_ = r.get_int("vision.preproc_image_size", kUsualSide * tower_.patch, tower_.patch,
                      kMostPatches) /
            tower_.patch;
    // Of an image that is filled up on both sides.
    const int64_t longest = std::min(side_, most_patches_);
    tower_.usual_results = (most_patches_ + 3 * (longest + most_patches_ / longest)) /
                               (tower_.merged * tower_.merged) +
                           3;
    block_ = read_vision_block(r, info_);
    block_.activation = op::Gelu::Kind::tanh;
    block_.rotate = true;
    block_.style = op::Rope::Style::interleaved;
    RopeSpec rope = image_rope(block_.width / block_.heads, 10000.0);
    const int32_t half = rope.pairs / 2;
    for (int32_t i = 0; i < 2 * half; ++i) {
      auto& pair = rope.of_pairs[static_cast<size_t>(i)];
      if (k25) {  // columns first
        pair.axis ^= 1;
      } else {
        pair = {static_cast<uint8_t>(1 - i % 2), static_cast<double>(i / 2) / half};
      }
    }
    info_.ropes = {rope};
    info_.takes_images = {3 * tower_.patch * tower_.patch, block_.width};
    info_.more_output_rows = tower_.merged * tower_.merged - 1;
    read_places(r, source);
  }

  /// Of the picture, with what fills it up.
  Result<ImageSize> fit(ImageSize size, int64_t most) const override {
    return filled(content(size, most));
  }

  Result<TowerPictures> pictures(const Image& image, int64_t most) const override {
    const ImageSize inner = content({image.width, image.height}, most);
    INFER_TRY(const Image scaled, resize(image, inner.width, inner.height, tower_.filter));
    TowerPictures made;
    made.pictures.push_back(placed_on_black(scaled, filled(inner), 0, 0));
    return made;
  }

  TowerStep lay_out(const Image& image) const override {
    TowerStep step = cut_into_patches(image, tower_);
    add_resampled(step, patch_grid(image, tower_), {table_, block_.width, places_.width},
                  cubic_shares);
    return step;
  }

  void build(ModelBuilder& m) const override {
    m.g.set_unit({UnitKind::embedding, -1});
    const ValueId pixels = m.g.input(StepInput::image, 0, info_.takes_images[0]);
    ValueId x = m.linear(pixels, "v.patch_embd", block_.width);
    x = m.add(x, m.g.input(StepInput::image, 1, block_.width));
    for (int64_t layer = 0; layer < info_.layers; ++layer) x = vision_layer(m, x, layer, block_);
    m.g.set_unit({UnitKind::output, -1});
    x = m.layer_norm(m.layer_norm(x, "v.post_ln", block_.eps), "mm.input_norm", kProjectorEps);
    x = merge_patches(m, x, tower_);
    x = m.linear(x, "mm.1", tower_.merged * tower_.merged * block_.width);
    m.g.output(m.linear(m.g.add(op::Gelu{}, {x}), "mm.2", tower_.width), "embeddings");
  }

 private:
  /// The size that an image is scaled to, with at most `most` results.
  ImageSize content(ImageSize size, int64_t most) const {
    const double patch = static_cast<double>(tower_.patch);
    const auto patches = [&](int32_t side) { return std::max(1.0, std::floor(side / patch)); };
    const double longest = static_cast<double>(side_) * patch;
    double scale = std::min({1.0,
                             std::sqrt(static_cast<double>(most_patches_) /
                                       (patches(size.height) * patches(size.width))),
                             longest / size.height, longest / size.width});
    for (;; scale *= 0.99) {
      const auto scaled = [&](int32_t side) {
        return static_cast<int32_t>(std::min(std::max(1.0, std::floor(side * scale)), longest));
      };
      const ImageSize made{scaled(size.width), scaled(size.height)};
      const ImageSize whole = filled(made);
      const int64_t unit = tower_.patch * tower_.merged;
      const int64_t results = whole.width / unit * (whole.height / unit);
      if (results <= std::max<int64_t>(most, 1)) return made;
    }
  }

  ImageSize filled(ImageSize size) const {
    const int64_t unit = tower_.patch * tower_.merged;
    const auto up = [&](int32_t side) {
      return static_cast<int32_t>((side + unit - 1) / unit * unit);
    };
    return {up(size.width), up(size.height)};
  }

  void read_places(HparamReader& r, const WeightSource& source) {
    const Weight* table = source.find(kTable);
    int64_t columns = table == nullptr ? 1 : table->desc.shape[1];
    int64_t rows = table == nullptr ? 1 : table->desc.shape[2];
    if (rows == 1) {  // in one dimension
      columns = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(columns))));
      rows = columns;
    }
    auto values = read_table(source, kTable, block_.width, rows * columns);
    if (!values) return r.set_error(values.error());
    table_ = *std::move(values);
    places_ = {static_cast<int32_t>(columns), static_cast<int32_t>(rows)};
  }

  VisionBlock block_;
  int64_t most_patches_ = 1;  ///< of an image, before it is filled up
  int64_t side_ = 1;          ///< the longest, in patches
  ImageSize places_{1, 1};    ///< learned ones
  std::vector<float> table_;  ///< [rows][columns][width]
};

Result<std::unique_ptr<Tower>> create(const WeightSource& source) {
  HparamReader r(source);
  INFER_TRY(const std::optional<std::string> name,
            source.metadata().get_string("clip.projector_type"));
  auto tower = std::make_unique<Kimi>(r, source, name == kProjectorOfK25);
  if (!r.status().ok()) return tl::unexpected(r.status());
  return tower;
}

/// The queries, keys and values of a layer, from one tensor. In Kimi K2.5's files the pairs of a
/// head that turn with the column come before those that turn with the row.
void map_attention(TowerMap& m, int64_t layer, bool k25) {
  const std::string from = fmt::format("vision_tower.encoder.blocks.{}.wqkv.", layer);
  const int64_t heads = m.config.get_int("num_attention_heads", 1, 1, 4096);
  const int64_t quarter = m.width() / heads / 4;
  m.config.require(quarter * 4 * heads == m.width(), "heads of this width");
  for (const auto& [part, width] : {std::pair{"weight", m.width()}, {"bias", int64_t{1}}}) {
    if (!k25) {
      const TensorView all = m.tensors.view(from + part, {width, m.width(), 3});
      for (int64_t i = 0; i < 3 && m.tensors.ok(); ++i) {
        constexpr const char* kNames[] = {"attn_q.", "attn_k.", "attn_v."};
        const TensorView one = all.sliced(2, i, 1);
        const std::string to = vision_name(layer, kNames[i]) + part;
        if (width > 1) m.tensors.put_parts(to, {one}, {width, m.width()});
        if (width == 1) m.tensors.put_parts(to, {one}, {m.width()});
      }
      continue;
    }
    const TensorView all = m.tensors.view(from + part, {2 * width, 2, quarter, 3 * heads});
    if (!m.tensors.ok()) return;
    std::vector<TensorView> parts{all.sliced(3, 0, 2 * heads).swapped(1, 2),
                                  all.sliced(3, 2 * heads, heads)};
    const std::string to = vision_name(layer, "attn_qkv.") + part;
    if (width > 1) m.tensors.put_parts(to, std::move(parts), {width, 3 * m.width()});
    if (width == 1) m.tensors.put_parts(to, std::move(parts), {3 * m.width()});
  }
}

/// The limits of images, as the makers' own processor or transformers' says them.
void map_limits(TowerMap& m, bool k25) {
  int64_t patches = k25 ? 16384 : 4096;
  for (const char* key : {"media_proc_cfg.in_patch_limit", "in_token_limit", "max_patches"}) {
    patches = m.processor_int(key, patches, 1, kMostPatches);
  }
  m.keys.set_int("vision.image_max_pixels", patches * m.patch() * m.patch());
  int64_t side = kUsualSide;
  for (const char* key : {"media_proc_cfg.patch_limit_on_one_side", "size.max_height"}) {
    side = m.processor_int(key, side, 1, kMostPatches);
  }
  if (side != kUsualSide) m.keys.set_int("vision.preproc_image_size", side * m.patch());
  m.config.require(m.processor_bool("pad_input", true), "pad_input false");
  m.config.require(m.processor_key("media_proc_cfg.fixed_output_tokens").empty(),
                   "fixed_output_tokens");
}

void map(TowerMap& m) {
  const bool k25 = !m.is("KimiVLForConditionalGeneration");
  if (m.config.has("vt_hidden_size")) {  // as the makers write it
    for (const char* key :
         {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"}) {
      m.config.assume(key, m.config.need_int(std::string("vt_") + key, 1, 1 << 20));
    }
  }
  for (const auto& [key, value] : {std::pair{"hidden_size", 1152},
                                   {"intermediate_size", 4304},
                                   {"num_hidden_layers", 27},
                                   {"num_attention_heads", 16},
                                   {"patch_size", 14}}) {
    m.config.assume(key, int64_t{value});
  }
  m.begin({.projector = k25 ? kProjectorOfK25 : "kimivl"});
  m.require_processing(3);
  m.require_processor("patch_size", m.patch());
  const std::string activation = m.config.get_string("hidden_act", "gelu_pytorch_tanh");
  m.config.require(activation == "gelu_pytorch_tanh",
                   "the tower's hidden_act '" + printable(activation) + "'");
  for (const char* key : {"projector_hidden_act", "mm_projector_type", "merge_type"}) {
    const std::string usual = std::string(key) == "mm_projector_type" ? "patchmerger"
                              : std::string(key) == "merge_type"      ? "sd2_tpool"
                                                                      : "gelu";
    const std::string found = m.config.get_string(key, usual);
    m.config.require(found == usual, fmt::format("{} '{}'", key, printable(found)));
  }
  const double eps =
      m.whole_float("projection_layer_norm_eps", m.config.get_float("projector_ln_eps", 1e-5));
  m.config.require(std::abs(eps - 1e-5) < 1e-9, fmt::format("projection_layer_norm_eps {}", eps));
  m.keys.set_float("vision.attention.layer_norm_epsilon", 1e-5);
  const std::vector<int64_t> kernel = m.config.get_ints("merge_kernel_size");
  const int64_t merged = kernel.empty() ? 2 : kernel.front();
  m.config.require(
      merged >= 1 && merged <= 8 && std::ranges::count(kernel, merged) == std::ssize(kernel),
      "this merge_kernel_size");
  m.keys.set_int("vision.projector.scale_factor", merged);
  map_limits(m, k25);
  m.patches("vision_tower.patch_embed.proj", 1);
  m.tensors.copy("vision_tower.patch_embed.pos_emb.weight", kTable);
  m.tensors.ignore("vision_tower.patch_embed.pos_emb.time_weight");  // of videos
  for (int64_t layer = 0; layer < m.layer_count() && m.tensors.ok(); ++layer) {
    map_attention(m, layer, k25);
  }
  m.layers("vision_tower.encoder.blocks.", {{"norm0", "ln1"},
                                            {"norm1", "ln2"},
                                            {"wo", "attn_out"},
                                            {"mlp.fc0", "ffn_up"},
                                            {"mlp.fc1", "ffn_down"}});
  m.tensor("vision_tower.encoder.final_layernorm", "v.post_ln");
  if (k25) {
    m.tensor("mm_projector.pre_norm", "mm.input_norm");
    m.tensor("mm_projector.proj.0", "mm.1");
    m.tensor("mm_projector.proj.2", "mm.2");
  } else {
    m.tensor("multi_modal_projector.pre_norm", "mm.input_norm");
    m.tensor("multi_modal_projector.linear_1", "mm.1");
    m.tensor("multi_modal_projector.linear_2", "mm.2");
  }
}

}  // namespace

const TowerDef& kimi_tower() {
  static constexpr const char* kProjectors[] = {"kimivl", kProjectorOfK25};
  static constexpr const char* kCheckpoints[] = {"KimiVLForConditionalGeneration",
                                                 "KimiK25ForConditionalGeneration",
                                                 "Kimi_K25ForConditionalGeneration"};
  static const TowerDef def{kProjectors, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
