// The tower of InternVL 2 to 3.5 (Chen et al. 2024): InternViT, a pre-norm encoder with a class
// token, learned positions, and a factor for what each layer adds, over pictures of one size.
// Squares of patches make one result, by a norm and two products. An image is cut into tiles, and a
// picture of it all follows them.
//
// Grids are those of transformers' InternVLProcessor, pixels those of Pillow's bicubic filter.
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

constexpr float kProjectorEps = 1e-5f;
constexpr int64_t kMostTiles = 1024;
constexpr const char* kOwnClass = "InternVLChatModel";

class InternVl final : public Tower {
 public:
  InternVl(HparamReader& r, const WeightSource& source) {
    read_pixels(r);
    tower_.filter = Filter::bicubic;
    tower_.merged = r.get_int("vision.projector.scale_factor", 2, 1, 64);
    tower_.width = r.need_int("vision.projection_dim", 1, kMaxWidth);
    tower_.token = "<IMG_CONTEXT>";
    tower_.text = tower_.token + "\n";
    block_ = read_vision_block(r, info_);
    block_.scaled = true;
    block_.rms_norms = source.find("v.blk.0.ln1.bias") == nullptr;
    block_.qk_norms = source.find("v.blk.0.attn_q_norm.weight") != nullptr;
    side_ = r.need_int("vision.image_size", 1, 1 << 14);
    tiles_.least = r.get_int("vision.preproc_min_tiles", 1, 1, kMostTiles);
    tiles_.most = r.get_int("vision.preproc_max_tiles", 12, tiles_.least, kMostTiles);
    const int64_t unit = tower_.patch * tower_.merged;
    if (side_ % unit != 0) {
      r.set_error(error(StatusCode::bad_file,
                        "{}: clip.vision.image_size: expected a multiple of {}, found {}",
                        r.metadata().source(), unit, side_));
      side_ = unit;
    }
    results_ = side_ / unit * (side_ / unit);
    tower_.picture_results = results_;
    tower_.least_results = rows_of(1);
    tower_.usual_results = rows_of(tiles_.most);
    info_.takes_images = {3 * tower_.patch * tower_.patch, block_.width};
    info_.more_output_rows = tower_.merged * tower_.merged - 1;
    const int64_t across = side_ / tower_.patch;
    table_ = read_class_places(r, source, block_.width, across * across);
  }

  Result<ImageSize> fit(ImageSize, int64_t) const override {
    return ImageSize{static_cast<int32_t>(side_), static_cast<int32_t>(side_)};
  }

  int64_t most_patches(int64_t results) const override {
    return results * tower_.merged * tower_.merged + 1;  // and the class token
  }

  Result<TowerPictures> pictures(const Image& image, int64_t most) const override {
    TileLimits limits = tiles_;
    while (limits.most > 1 && rows_of(limits.most) > most) --limits.most;
    limits.least = std::min(limits.least, limits.most);
    const ImageSize grid = closest_grid({image.width, image.height}, limits, side_);
    const auto side = static_cast<int32_t>(side_);
    INFER_TRY(const Image whole,
              resize(image, grid.width * side, grid.height * side, tower_.filter));
    TowerPictures made;
    INFER_TRY(made.pictures, cut_into_tiles(whole, side_));
    if (made.pictures.size() > 1) {
      INFER_TRY(made.pictures.emplace_back(), resize(image, side, side, tower_.filter));
    }
    made.texts.resize(made.pictures.size() + 1);
    made.texts.front() = "<img>";
    made.texts.back() = "</img>";
    return made;
  }

  /// The class token is the last row. It has no pixels.
  TowerStep lay_out(const Image& image) const override {
    TowerStep step = cut_into_patches(image, tower_);
    const int64_t across = side_ / tower_.patch;
    std::vector<float>& places = step.inputs.emplace_back();
    places.reserve(table_.size());
    const auto add = [&](int64_t place) {
      const auto first = table_.begin() + place * block_.width;
      places.insert(places.end(), first, first + block_.width);
    };
    for (const Position& at : step.positions) add(1 + at.axes[0] * across + at.axes[1]);
    add(0);
    add_class_row(step, info_.takes_images[0]);
    return step;
  }

  void build(ModelBuilder& m) const override {
    m.g.set_unit({UnitKind::embedding, -1});
    const ValueId pixels = m.g.input(StepInput::image, 0, info_.takes_images[0]);
    ValueId x = m.product(pixels, "v.patch_embd.weight", block_.width);
    x = m.add(x, m.g.input(StepInput::image, 1, block_.width));
    for (int64_t layer = 0; layer < info_.layers; ++layer) x = vision_layer(m, x, layer, block_);
    m.g.set_unit({UnitKind::output, -1});
    if (m.has("v.post_ln.weight")) x = m.layer_norm(x, "v.post_ln", block_.eps);
    x = m.layer_norm(merge_patches(m, x, tower_), "mm.model.mlp.0", kProjectorEps);
    x = m.g.add(op::Gelu{}, {m.linear(x, "mm.model.mlp.1", tower_.width)});
    m.g.output(m.linear(x, "mm.model.mlp.3", tower_.width), "embeddings");
  }

 private:
  /// Rows of a prompt.
  int64_t rows_of(int64_t tiles) const { return (tiles > 1 ? tiles + 1 : 1) * results_ + 2; }

  VisionBlock block_;
  TileLimits tiles_;
  int64_t side_ = 1;          ///< of a picture, in pixels
  int64_t results_ = 1;       ///< of a picture
  std::vector<float> table_;  ///< [1 + patches][width]
};

/// Refuses a tower that has other tensors than its configuration says.
void require_as_said(TowerMap& m, bool said, const std::string& name) {
  m.config.require(said == m.tensors.has(name),
                   fmt::format("a tower {} {}", said ? "without" : "with", name));
}

/// The same of its norms: `usual` if it is not said which, and a tensor that LayerNorm alone has.
void require_norms(TowerMap& m, const char* usual, const std::string& bias) {
  const std::string norm = m.config.get_string("norm_type", usual);
  m.config.require(norm == "layer_norm" || norm == "rms_norm",
                   "norm_type '" + printable(norm) + "'");
  require_as_said(m, norm == "layer_norm", bias);
}

/// What both forms of the configuration say. Returns the side of a picture.
int64_t map_keys(TowerMap& m, const TowerFamily& family) {
  m.begin(family);
  m.require_processing(3);
  m.keys.set_float("vision.attention.layer_norm_epsilon",
                   m.config.get_float("layer_norm_eps", 1e-6));
  const int64_t side = m.config.need_int("image_size", 1, 1 << 14);
  m.keys.set_int("vision.image_size", side);
  const double ratio = m.whole_float("downsample_ratio", 0.5);
  const auto merged = static_cast<int64_t>(std::lround(ratio > 1.0 / 64 ? 1 / ratio : 64));
  m.config.require(static_cast<double>(merged) * ratio == 1,
                   fmt::format("downsample_ratio {}", ratio));
  m.keys.set_int("vision.projector.scale_factor", merged);
  return side;
}

/// As transformers saves it.
void map_hugging_face(TowerMap& m) {
  for (const auto& [key, value] : {std::pair{"hidden_size", 1024},
                                   {"intermediate_size", 4096},
                                   {"num_hidden_layers", 24},
                                   {"num_attention_heads", 16},
                                   {"image_size", 448},
                                   {"patch_size", 14}}) {
    m.config.assume(key, int64_t{value});
  }
  m.config.make_square("image_size");
  m.config.make_square("patch_size");
  const int64_t side =
      map_keys(m, {.projector = "internvl", .activation = "gelu", .colours = TowerColours::clip});
  m.config.require(m.whole_int("vision_feature_layer", -1, -1024, 1024) == -1,
                   "a vision_feature_layer that is not the last one");
  for (const auto& [key, usual] :
       {std::pair{"vision_feature_select_strategy", "default"}, {"projector_hidden_act", "gelu"}}) {
    const std::string found = m.whole_string(key, usual);
    m.config.require(found == usual, fmt::format("{} '{}'", key, printable(found)));
  }
  m.config.require(m.config.get_bool("use_absolute_position_embeddings", true),
                   "a tower without use_absolute_position_embeddings");
  for (const char* key : {"size.height", "size.width"}) m.require_processor(key, side);
  m.keys.set_int("vision.preproc_min_tiles", m.processor_int("min_patches", 1, 1, kMostTiles));
  m.keys.set_int("vision.preproc_max_tiles", m.processor_int("max_patches", 12, 1, kMostTiles));
  const std::string tower = "vision_tower.";
  require_norms(m, "layer_norm", tower + "encoder.layer.0.layernorm_before.bias");
  require_as_said(m, m.config.get_bool("use_qk_norm", false),
                  tower + "encoder.layer.0.attention.q_norm.weight");
  require_as_said(m, !m.config.get_bool("use_mean_pooling", true), tower + "layernorm.weight");
  m.patches(tower + "embeddings.patch_embeddings.projection", 1);
  m.tensors.copy(tower + "embeddings.cls_token", "v.class_embd");
  m.tensors.copy(tower + "embeddings.position_embeddings", "v.position_embd.weight");
  m.tensors.ignore_prefix(tower + "embeddings.mask_token");  // of training
  m.layers(tower + "encoder.layer.", {{"layernorm_before", "ln1"},
                                      {"layernorm_after", "ln2"},
                                      {"attention.q_proj", "attn_q"},
                                      {"attention.k_proj", "attn_k"},
                                      {"attention.v_proj", "attn_v"},
                                      {"attention.q_norm", "attn_q_norm"},
                                      {"attention.k_norm", "attn_k_norm"},
                                      {"attention.projection_layer", "attn_out"},
                                      {"mlp.fc1", "ffn_up"},
                                      {"mlp.fc2", "ffn_down"}});
  for (int64_t layer = 0; layer < m.layer_count(); ++layer) {
    const std::string from = fmt::format("{}encoder.layer.{}.lambda_", tower, layer);
    m.tensors.copy(from + "1", vision_name(layer, "ls1.weight"));
    m.tensors.copy(from + "2", vision_name(layer, "ls2.weight"));
  }
  m.tensor(tower + "layernorm", "v.post_ln");
  m.tensor("multi_modal_projector.layer_norm", "mm.model.mlp.0");
  m.tensor("multi_modal_projector.linear_1", "mm.model.mlp.1");
  m.tensor("multi_modal_projector.linear_2", "mm.model.mlp.3");
}

/// The makers' own form, InternVLChatModel. Queries, keys and values are rows of one matrix.
void map_own(TowerMap& m) {
  for (const auto& [key, value] : {std::pair{"hidden_size", 3200},
                                   {"intermediate_size", 12800},
                                   {"num_hidden_layers", 48},
                                   {"num_attention_heads", 25},
                                   {"image_size", 224},
                                   {"patch_size", 14}}) {
    m.config.assume(key, int64_t{value});
  }
  const std::string type = m.config.get_string("model_type", "intern_vit_6b");
  m.config.require(type == "intern_vit_6b", "a tower of '" + printable(type) + "'");
  const int64_t side = map_keys(
      m, {.projector = "internvl", .activation = "gelu", .colours = TowerColours::imagenet});
  m.keys.set_int("vision.projection_dim", m.whole_int("llm_config.hidden_size", 0, 1, kMaxWidth));
  const int64_t forced = m.whole_int("force_image_size", side, 1, 1 << 14);
  m.config.require(forced == side, fmt::format("force_image_size {} in place of {}", forced, side));
  for (const char* key : {"size", "size.height", "size.width"}) m.require_processor(key, side);
  const std::string shuffle = m.whole_string("ps_version", "v1");
  m.config.require(shuffle == "v2", "ps_version '" + printable(shuffle) + "'");
  m.config.require(!m.whole_bool("pad2square", false), "pad2square");
  const bool cuts = m.whole_bool("dynamic_image_size", false);
  const int64_t most = m.whole_int("max_dynamic_patch", 6, 1, kMostTiles);
  const int64_t least = m.whole_int("min_dynamic_patch", 1, 1, kMostTiles);
  m.config.require(!cuts || most == 1 || m.whole_bool("use_thumbnail", false),
                   "tiles without use_thumbnail");
  m.keys.set_int("vision.preproc_min_tiles", cuts ? least : 1);
  m.keys.set_int("vision.preproc_max_tiles", cuts ? most : 1);
  const std::string tower = "vision_model.", layers = tower + "encoder.layers.";
  require_norms(m, "rms_norm", layers + "0.norm1.bias");
  const bool normed = m.config.get_bool("qk_normalization", true);
  m.config.require(!normed || m.config.get_float("layer_norm_eps", 1e-6) == 1e-6,
                   "qk_normalization with another layer_norm_eps than 1e-6");
  require_as_said(m, normed, layers + "0.attn.q_norm.weight");
  m.patches(tower + "embeddings.patch_embedding", 1);
  m.tensors.copy(tower + "embeddings.class_embedding", "v.class_embd");
  m.tensors.copy(tower + "embeddings.position_embedding", "v.position_embd.weight");
  m.select_layers("select_layer", -1, layers);
  m.layers(layers, {{"norm1", "ln1"},
                    {"norm2", "ln2"},
                    {"attn.qkv", "attn_qkv"},
                    {"attn.q_norm", "attn_q_norm"},
                    {"attn.k_norm", "attn_k_norm"},
                    {"attn.proj", "attn_out"},
                    {"mlp.fc1", "ffn_up"},
                    {"mlp.fc2", "ffn_down"}});
  for (int64_t layer = 0; layer < m.layer_count(); ++layer) {
    for (const char* scale : {"ls1", "ls2"}) {
      m.tensors.copy(fmt::format("{}{}.{}", layers, layer, scale),
                     vision_name(layer, scale) + ".weight");
    }
  }
  for (const char* part : {"0", "1", "3"}) {
    m.tensor(std::string("mlp1.") + part, std::string("mm.model.mlp.") + part);
  }
}

void map(TowerMap& m) { return m.is(kOwnClass) ? map_own(m) : map_hugging_face(m); }

}  // namespace

const TowerDef& internvl_tower() {
  static constexpr const char* kProjectors[] = {"internvl"};
  static constexpr const char* kCheckpoints[] = {"InternVLForConditionalGeneration", kOwnClass};
  static const TowerDef def{kProjectors, create_tower<InternVl>, kCheckpoints, map};
  return def;
}

}  // namespace infer
