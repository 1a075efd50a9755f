// The tower of LFM2-VL (Liquid AI 2025): SigLIP 2 (Tschannen et al. 2025), a pre-norm encoder with
// learned positions, which are resampled to the picture's grid. Squares of patches make one result,
// by two products. A large image is cut into tiles, and a picture of it all follows them.
//
// Sizes, grids and positions are those of transformers' Lfm2VlImageProcessor and Lfm2VlModel,
// pixels those of Pillow's bilinear filter.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "engine/core/file.h"
#include "engine/model/tower.h"
#include "engine/model/tower_checkpoint.h"
#include "engine/model/tower_patches.h"
#include "engine/model/tower_tiles.h"
#include "engine/model/vision_block.h"

namespace infer {
namespace {

constexpr const char* kTable = "v.position_embd.weight";
constexpr float kProjectorEps = 1e-5f;
constexpr int64_t kMostTiles = 1024;
constexpr int64_t kMostSide = 1 << 14;
constexpr int64_t kMostResults = 1 << 16;  ///< of a picture, whatever a file says

/// What each of n points between the ends of a row of `places` takes of these: [n][places]. When
/// there are fewer points than places, every place counts.
std::vector<double> shares(int64_t places, int64_t n) {
  const double scale = static_cast<double>(places) / static_cast<double>(n);
  const double reach = std::max(1.0, scale);
  std::vector<double> all;
  for (int64_t i = 0; i < n; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale - 0.5;
    double sum = 0;
    for (int64_t place = 0; place < places; ++place) {
      const double distance = std::abs(static_cast<double>(place) - center);
      sum += all.emplace_back(std::max(0.0, 1 - distance / reach));
    }
    for (int64_t place = 0; place < places; ++place) *(all.end() - 1 - place) /= sum;
  }
  return all;
}

class Lfm2 final : public Tower {
 public:
  Lfm2(HparamReader& r, const WeightSource& source) {
    read_pixels(r);
    tower_.filter = Filter::bilinear;
    tower_.merged = r.get_int("vision.projector.scale_factor", 2, 1, 8);
    tower_.width = r.need_int("vision.projection_dim", 1, kMaxWidth);
    tower_.token = tower_.text = "<image>";
    block_ = read_vision_block(r, info_);
    block_.activation = op::Gelu::Kind::tanh;
    const int64_t area = unit() * unit();
    limits_ = read_pixel_limits(r, tower_, {64 * area, 256 * area});
    limits_.most = std::min(limits_.most, kMostResults * area);
    read_tiles(r);
    const int64_t most = std::max<int64_t>(1, limits_.most / area);
    tower_.picture_results = std::max(most, tiles_.most > 1 ? results_of_tile() : 1);
    tower_.least_results = 3;  // with what is around it
    tower_.usual_results = most + 2;
    if (tiles_.most > 1) {
      tower_.usual_results += tiles_.most * (results_of_tile() + 1) + (overview_ ? 1 : 0);
    }
    info_.takes_images = {3 * tower_.patch * tower_.patch, block_.width};
    info_.more_output_rows = tower_.merged * tower_.merged - 1;
    const Weight* table = source.find(kTable);
    const int64_t places = table == nullptr ? 1 : table->desc.shape[1];
    places_ = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(places))));
    auto values = read_table(source, kTable, block_.width, places_ * places_);
    if (!values) r.set_error(values.error());
    if (values) table_ = *std::move(values);
    inner_ = 1;
    if (const Weight* first = source.find("mm.1.weight")) inner_ = first->desc.shape[1];
  }

  /// The nearest multiples of the unit, scaled so that the area is within the limits.
  Result<ImageSize> fit(ImageSize size, int64_t most) const override {
    const auto side = static_cast<double>(unit());
    const double most_results =
        std::clamp<double>(std::floor(static_cast<double>(limits_.most) / (side * side)), 1,
                           static_cast<double>(std::max<int64_t>(1, most - 2)));
    const double most_area = most_results * side * side;
    const double least_area = std::min(static_cast<double>(limits_.least), most_area);
    const double area = static_cast<double>(size.width) * size.height;
    const auto units = [&](auto round, double factor) {
      const auto along = [&](int32_t pixels) {
        return std::max(1.0, round(static_cast<double>(pixels) * factor / side));
      };
      return std::pair(along(size.width), along(size.height));
    };
    auto [columns, rows] = units([](double x) { return std::nearbyint(x); }, 1.0);
    if (columns * rows > most_results) {
      const double by = std::sqrt(area / most_area);
      const auto along = [&](int32_t pixels) {
        return std::max(1.0, std::floor(static_cast<double>(pixels) / by / side));
      };
      columns = along(size.width);
      rows = along(size.height);
    } else if (columns * rows * side * side < least_area) {
      std::tie(columns, rows) =
          units([](double x) { return std::ceil(x); }, std::sqrt(least_area / area));
    }
    // transformers lets an image of one line of results have more of them than the limit.
    columns = std::min(columns, most_results);
    rows = std::min(rows, std::floor(most_results / columns));
    return ImageSize{static_cast<int32_t>(columns * side), static_cast<int32_t>(rows * side)};
  }

  Result<TowerPictures> pictures(const Image& image, int64_t most) const override {
    const ImageSize size{image.width, image.height};
    TowerPictures made;
    const ImageSize grid = grid_of(size, most);
    if (grid.width * grid.height > 1) {
      INFER_TRY(const Image whole,
                resize(image, static_cast<int32_t>(grid.width * tile_),
                       static_cast<int32_t>(grid.height * tile_), tower_.filter));
      INFER_TRY(made.pictures, cut_into_tiles(whole, tile_));
      for (int32_t i = 0; i < grid.width * grid.height; ++i) {
        made.texts.push_back(
            fmt::format("<|img_row_{}_col_{}|>", i / grid.width + 1, i % grid.width + 1));
      }
    }
    if (made.pictures.empty() || overview_) {
      INFER_TRY(const ImageSize fitted, fit(size, most));
      INFER_TRY(made.pictures.emplace_back(),
                resize(image, fitted.width, fitted.height, tower_.filter));
      made.texts.emplace_back(made.texts.empty() ? "" : "<|img_thumbnail|>");
    }
    made.texts.front().insert(0, "<|image_start|>");
    made.texts.emplace_back("<|image_end|>");
    return made;
  }

  TowerStep lay_out(const Image& image) const override {
    TowerStep step = cut_into_patches(image, tower_);
    add_resampled(step, patch_grid(image, tower_), {table_, block_.width, places_}, shares);
    return step;
  }

  void build(ModelBuilder& m) const override {
    m.g.set_unit({UnitKind::embedding, -1});
    const ValueId pixels = m.g.input(StepInput::image, 0, info_.takes_images[0]);
    ValueId x = m.linear(pixels, "v.patch_embd", block_.width);
    x = m.add(x, m.g.input(StepInput::image, 1, block_.width));
    for (int64_t layer = 0; layer < info_.layers; ++layer) x = vision_layer(m, x, layer, block_);
    m.g.set_unit({UnitKind::output, -1});
    x = merge_patches(m, m.layer_norm(x, "v.post_ln", block_.eps), tower_);
    if (m.has("mm.input_norm.weight")) x = m.layer_norm(x, "mm.input_norm", kProjectorEps);
    x = m.g.add(op::Gelu{}, {m.linear(x, "mm.1", inner_)});
    m.g.output(m.linear(x, "mm.2", tower_.width), "embeddings");
  }

 private:
  int64_t unit() const { return tower_.patch * tower_.merged; }
  int64_t results_of_tile() const { return tile_ / unit() * (tile_ / unit()); }

  void read_tiles(HparamReader& r) {
    tile_ = r.get_int("vision.preproc_image_size", 512, 1, kMostSide);
    tiles_.least = r.get_int("vision.preproc_min_tiles", 2, 1, kMostTiles);
    tiles_.most = r.get_int("vision.preproc_max_tiles", 10, tiles_.least, kMostTiles);
    overview_ = r.get_bool("vision.use_thumbnail", true);
    tolerance_ = r.get_float("vision.max_pixels_tolerance", 2.0);
    if (tiles_.most > 1 && tile_ % unit() != 0) {
      r.set_error(error(StatusCode::bad_file,
                        "{}: clip.vision.preproc_image_size: expected a multiple of {}, found {}",
                        r.metadata().source(), unit(), tile_));
      tile_ = unit();
    }
  }

  /// Columns and rows of the tiles that an image is cut into; 1 and 1: it is not.
  ImageSize grid_of(ImageSize size, int64_t most) const {
    const auto side = static_cast<double>(unit());
    const auto units = [&](int32_t pixels) {
      return std::max(static_cast<double>(tower_.patch), std::nearbyint(pixels / side) * side);
    };
    const double area = units(size.width) * units(size.height);
    if (area <= static_cast<double>(limits_.most) * tolerance_) return {1, 1};
    const int64_t rest = most - 3 - (overview_ ? limits_.most / (unit() * unit()) : 0);
    TileLimits limits = tiles_;
    limits.most = std::min(limits.most, rest / (results_of_tile() + 1));
    if (limits.most < std::max<int64_t>(2, limits.least)) return {1, 1};
    return closest_grid(size, limits, tile_);
  }

  PixelLimits limits_;  ///< of an image that is not cut, and of the picture of all
  VisionBlock block_;
  TileLimits tiles_;
  int64_t tile_ = 1;          ///< pixels of a tile's side
  bool overview_ = true;      ///< a picture of it all follows tiles
  double tolerance_ = 2.0;    ///< an image is cut if it has so many times the pixels of the limit
  int64_t inner_ = 1;         ///< width between the projector's products
  int64_t places_ = 1;        ///< of a side of the square of learned places
  std::vector<float> table_;  ///< [places · places][width]
};

void map(TowerMap& m) {
  for (const auto& [key, value] : {std::pair{"hidden_size", 768},
                                   {"intermediate_size", 3072},
                                   {"num_hidden_layers", 12},
                                   {"num_attention_heads", 12},
                                   {"patch_size", 16}}) {
    m.config.assume(key, int64_t{value});
  }
  m.begin({.projector = "lfm2", .activation = "gelu_pytorch_tanh"});
  m.require_processing(2);
  m.keys.set_float("vision.attention.layer_norm_epsilon",
                   m.config.get_float("layer_norm_eps", 1e-6));
  m.config.require(m.whole_int("vision_feature_layer", -1, -1024, 1024) == -1,
                   "a vision_feature_layer that is not the last one");
  const std::string activation = m.whole_string("projector_hidden_act", "gelu");
  m.config.require(activation == "gelu", "projector_hidden_act '" + printable(activation) + "'");
  const int64_t merged = m.whole_int("downsample_factor", 2, 1, 8);
  m.keys.set_int("vision.projector.scale_factor", merged);
  m.require_processor("downsample_factor", merged);
  m.require_processor("encoder_patch_size", m.patch());
  const int64_t area = merged * merged * m.patch() * m.patch();
  m.keys.set_int("vision.image_min_pixels",
                 area * m.processor_int("min_image_tokens", 64, 1, kMostResults));
  m.keys.set_int("vision.image_max_pixels",
                 area * m.processor_int("max_image_tokens", 256, 1, kMostResults));
  const bool splits = m.processor_bool("do_image_splitting", true);
  m.keys.set_int("vision.preproc_min_tiles",
                 splits ? m.processor_int("min_tiles", 2, 1, kMostTiles) : 1);
  m.keys.set_int("vision.preproc_max_tiles",
                 splits ? m.processor_int("max_tiles", 10, 1, kMostTiles) : 1);
  m.keys.set_int("vision.preproc_image_size", m.processor_int("tile_size", 512, 1, kMostSide));
  m.keys.set_bool("vision.use_thumbnail", m.processor_bool("use_thumbnail", true));
  m.keys.set_float("vision.max_pixels_tolerance", m.processor_float("max_pixels_tolerance", 2.0));
  std::string tower = "vision_tower.vision_model.";
  if (!m.tensors.has(tower + "post_layernorm.weight")) tower = "vision_tower.";
  m.pixel_patches(tower + "embeddings.patch_embedding");
  m.tensors.copy(tower + "embeddings.position_embedding.weight", kTable);
  m.siglip_layers(tower + "encoder.layers.");
  m.tensor(tower + "post_layernorm", "v.post_ln");
  m.tensors.ignore_prefix(tower + "head.");  // makes one vector of an image
  if (m.config.take(m.config.values().get_bool("hf.config.projector_use_layernorm"), true)) {
    const std::string norm = "multi_modal_projector.layer_norm.";
    const int64_t inputs = merged * merged * m.width();
    m.tensors.put("mm.input_norm.weight", m.tensors.view(norm + "weight", {inputs}));
    m.tensors.put("mm.input_norm.bias", m.tensors.view(norm + "bias", {inputs}));
  }
  m.tensor("multi_modal_projector.linear_1", "mm.1");
  m.tensor("multi_modal_projector.linear_2", "mm.2");
}

}  // namespace

const TowerDef& lfm2_tower() {
  static constexpr const char* kProjectors[] = {"lfm2"};
  static constexpr const char* kCheckpoints[] = {"Lfm2VlForConditionalGeneration"};
  static const TowerDef def{kProjectors, create_tower<Lfm2>, kCheckpoints, map};
  return def;
}

}  // namespace infer
