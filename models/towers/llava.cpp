// The tower of LLaVA 1.5 (Liu et al. 2024): CLIP's (Radford et al. 2021), a pre-norm encoder with a
// class token, learned positions and a norm before its layers, over an image of one size. Its last
// layer is left out. Each patch makes a result, by two products.
//
// As transformers' CLIPImageProcessor the image's shorter side is scaled, and the middle of the
// longer one is cut out; llama.cpp fills the image up to a square instead.
//
// LLaVA 1.6 (LLaVA-NeXT, Liu et al. 2024) reads a picture of the whole image first. Then the image
// is fitted into one of several grids of tiles. The results of the tiles follow line by line of the
// grid, less those of the black margins, with a learned row after each line.
#include <algorithm>

#include "engine/core/file.h"
#include "engine/model/tower.h"
#include "engine/model/tower_checkpoint.h"
#include "engine/model/tower_patches.h"
#include "engine/model/tower_tiles.h"
#include "engine/model/vision_block.h"

namespace infer {
namespace {

constexpr const char* kNext = "LlavaNextForConditionalGeneration";
constexpr const char* kGrids = "image_grid_pinpoints";
constexpr int64_t kMostGrids = 256;
constexpr int64_t kMostTiles = 1024;

class Llava final : public Tower {
 public:
  Llava(HparamReader& r, const WeightSource& source) {
    read_pixels(r);
    tower_.filter = Filter::bicubic;
    tower_.width = r.need_int("vision.projection_dim", 1, kMaxWidth);
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
    if (r.has(std::string("vision.") + kGrids)) read_grids(r, source);
  }

  Result<ImageSize> fit(ImageSize, int64_t) const override {
    return ImageSize{static_cast<int32_t>(side_), static_cast<int32_t>(side_)};
  }

  int64_t most_patches(int64_t results) const override {
    return results + 1;  // and the class token
  }

  Result<TowerPictures> pictures(const Image& image, int64_t most) const override {
    if (!grids_.empty()) return with_tiles(image, most);
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
    add_class_row(step, info_.takes_images[0]);
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
  /// The sizes of LLaVA 1.6, in pixels, as grids of tiles.
  void read_grids(HparamReader& r, const WeightSource& source) {
    const std::string key = std::string("clip.vision.") + kGrids;
    const auto fail_with = [&](const std::string& expected) {
      r.set_error(
          error(StatusCode::bad_file, "{}: {}: expected {}", r.metadata().source(), key, expected));
    };
    const auto sides = r.metadata().get_ints(key, 1, 1 << 20);
    if (!sides) return r.set_error(sides.error());
    const std::vector<int64_t>& all = **sides;
    if (all.empty() || all.size() % 2 != 0 || all.size() > 2 * kMostGrids) {
      return fail_with(fmt::format("1 to {} widths with heights", kMostGrids));
    }
    for (size_t i = 0; i < all.size(); i += 2) {
      const int64_t columns = all[i] / side_, rows = all[i + 1] / side_;
      if (all[i] % side_ != 0 || all[i + 1] % side_ != 0 || columns * rows > kMostTiles) {
        return fail_with(fmt::format("multiples of {}, at most {} tiles, found {} x {}", side_,
                                     kMostTiles, all[i], all[i + 1]));
      }
      grids_.push_back({static_cast<int32_t>(columns), static_cast<int32_t>(rows)});
    }
    const std::string merge = r.get_string("vision.mm_patch_merge_type", "spatial_unpad");
    if (merge != "spatial_unpad") {
      r.set_error(error(StatusCode::unsupported,
                        "{}: clip.vision.mm_patch_merge_type '{}' is not supported; supported: "
                        "spatial_unpad",
                        r.metadata().source(), printable(merge)));
    }
    auto line = read_table(source, "model.image_newline", tower_.width, 1);
    if (!line) return r.set_error(line.error());
    line_end_ = *std::move(line);
    ++tower_.least_results;
    for (const ImageSize& grid : grids_) {
      tower_.usual_results = std::max(tower_.usual_results, rows_of(grid));
    }
  }

  /// Rows of a prompt at most.
  int64_t rows_of(ImageSize grid) const {
    const int64_t across = side_ / tower_.patch;
    return across * across + grid.height * across * (grid.width * across + 1);
  }

  Result<TowerPictures> with_tiles(const Image& image, int64_t most) const {
    const auto side = static_cast<int32_t>(side_);
    TowerPictures made;
    INFER_TRY(made.pictures.emplace_back(), resize(image, side, side, tower_.filter));
    const auto results = static_cast<int32_t>(tower_.picture_results);
    for (int32_t i = 0; i < results; ++i) made.rows.push_back(i);
    std::vector<ImageSize> fitting;
    std::ranges::copy_if(grids_, std::back_inserter(fitting),
                         [&](const ImageSize& grid) { return rows_of(grid) <= most; });
    const ImageSize size{image.width, image.height};
    const std::optional<ImageSize> grid = fullest_grid(size, fitting, side_);
    if (!grid) {
      made.rows.push_back(-1);
      return made;
    }
    INFER_TRY(const Image whole,
              centred_on_black(image, {grid->width * side, grid->height * side}, tower_.filter));
    INFER_TRY(std::vector<Image> tiles, cut_into_tiles(whole, side_));
    std::ranges::move(tiles, std::back_inserter(made.pictures));
    const auto across = static_cast<int32_t>(side_ / tower_.patch);
    const CoveredCells cells = covered_cells(size, {grid->width * across, grid->height * across});
    for (int32_t y = cells.first_line; y < cells.end_line; ++y) {
      for (int32_t x = cells.first_column; x < cells.end_column; ++x) {
        const int32_t tile = 1 + y / across * grid->width + x / across;
        made.rows.push_back(tile * results + y % across * across + x % across);
      }
      made.rows.push_back(-1);
    }
    return made;
  }

  VisionBlock block_;
  int64_t side_ = 1;              ///< of a picture, in pixels
  std::vector<float> table_;      ///< [1 + patches][width]
  std::vector<ImageSize> grids_;  ///< of LLaVA 1.6: tiles
};

/// The sizes that LLaVA 1.6 fits images into. The checkpoint has heights before widths.
void map_grids(TowerMap& m) {
  const auto read = [&](const std::string& key) {
    std::vector<int64_t> sides;
    const Metadata& values = m.config.values();
    for (int64_t i = 0; i <= kMostGrids && values.has(fmt::format("{}.{}", key, i)); ++i) {
      const auto pair = m.config.take(values.get_ints(fmt::format("{}.{}", key, i), 1, 1 << 20),
                                      std::vector<int64_t>{});
      m.config.require(pair.size() == 2,
                       fmt::format("{} {} of {} numbers", kGrids, i, pair.size()));
      sides.insert(sides.end(), pair.rbegin(), pair.rend());
    }
    return sides;
  };
  std::vector<int64_t> sides = read(std::string("hf.config.") + kGrids);
  if (sides.empty()) sides = {672, 336, 336, 672, 672, 672, 336, 1008, 1008, 336};
  const std::string other = m.processor_key(std::string(kGrids) + ".0");
  if (!other.empty()) {
    m.config.require(read(other.substr(0, other.size() - 2)) == sides,
                     fmt::format("another {} in the image processor", kGrids));
  }
  m.keys.set_ints(std::string("vision.") + kGrids, sides);
  m.tensors.copy("image_newline", "model.image_newline");
}

void map(TowerMap& m) {
  const bool next = m.is(kNext);
  for (const auto& [key, value] : {std::pair{"hidden_size", 768},
                                   {"intermediate_size", 3072},
                                   {"num_hidden_layers", 12},
                                   {"num_attention_heads", 12},
                                   {"image_size", 224},
                                   {"patch_size", 32}}) {
    m.config.assume(key, int64_t{value});
  }
  m.begin({.projector = "mlp", .colours = TowerColours::clip});
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
  for (const char* key :
       {"size.shortest_edge", "size.height", "size.width", "crop_size.height", "crop_size.width"}) {
    m.require_processor(key, side);
  }
  m.config.require(m.processor_bool("do_center_crop", true), "do_center_crop false");
  m.config.require(next || !m.processor_bool("do_pad", false), "do_pad");
  if (next) map_grids(m);
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
  m.select_layers("vision_feature_layer", -2, tower + "encoder.layers.");
  m.siglip_layers(tower + "encoder.layers.");
  m.tensors.ignore_prefix(tower + "post_layernorm.");  // of the vector of an image
  m.tensor(projector + "linear_1", "mm.0");
  m.tensor(projector + "linear_2", "mm.2");
}

}  // namespace

const TowerDef& llava_tower() {
  static constexpr const char* kProjectors[] = {"mlp"};
  static constexpr const char* kCheckpoints[] = {"LlavaForConditionalGeneration", kNext};
  static const TowerDef def{kProjectors, create_tower<Llava>, kCheckpoints, map,
                            "clip_vision_model"};
  return def;
}

}  // namespace infer
