// The tower of Idefics3 (Laurençon et al. 2024) and SmolVLM (Marafioti et al. 2025): SigLIP (Zhai
// et al. 2023), a pre-norm encoder with learned positions, over pictures of one size. Squares of
// patches make one result. An image is scaled so that its longer side has a fixed length, stretched
// to whole tiles, and cut; a picture of it all follows the tiles.
//
// Sizes and filter are those of transformers' Idefics3ImageProcessorPil. llama.cpp scales an image
// once where this is twice, and gives the positions 0, 1, … to patches as here; transformers rounds
// the positions of some grids, such as 19 or 25 patches a side, but of none in a published model.
#include <algorithm>
#include <cmath>

#include "engine/model/tower.h"
#include "engine/model/tower_checkpoint.h"
#include "engine/model/tower_patches.h"
#include "engine/model/tower_tiles.h"
#include "engine/model/vision_block.h"

namespace infer {
namespace {

constexpr const char* kProjection = "mm.model.fc";
constexpr int64_t kMostEdge = 4096;  ///< pixels of an image's longer side, whatever a file says

class Idefics3 final : public Tower {
 public:
  Idefics3(HparamReader& r, const WeightSource& source) {
    read_pixels(r);
    tower_.filter = Filter::lanczos;
    tower_.merged = r.get_int("vision.projector.scale_factor", 2, 1, 64);
    tower_.width = r.need_int("vision.projection_dim", 1, kMaxWidth);
    tower_.token = tower_.text = "<image>";
    block_ = read_vision_block(r, info_);
    block_.activation = op::Gelu::Kind::tanh;
    side_ = r.need_int("vision.image_size", 1, kMostEdge);
    // Files without it are of models whose images are not cut.
    edge_ = r.get_int("vision.preproc_image_size", side_, 1, 1 << 20);
    splits_ = r.get_bool("vision.image_splitting", true);
    // Pixels beyond whole patches count for nothing, as 6 of SmolVLM 2.2B's 384.
    if (side_ / tower_.patch % tower_.merged != 0 || side_ < tower_.patch) {
      r.set_error(error(StatusCode::bad_file,
                        "{}: clip.vision.image_size: expected a multiple of {} patches of {}, "
                        "found {}",
                        r.metadata().source(), tower_.merged, tower_.patch, side_));
      side_ = tower_.patch * tower_.merged;
    }
    const int64_t across = side_ / tower_.patch;
    results_ = across / tower_.merged * (across / tower_.merged);
    const auto most = static_cast<int32_t>((std::min(edge_, kMostEdge) + side_ - 1) / side_);
    tower_.picture_results = results_;
    tower_.least_results = rows_of({1, 1});
    tower_.usual_results = splits_ ? rows_of({most, most}) : tower_.least_results;
    info_.takes_images = {3 * tower_.patch * tower_.patch, block_.width};
    info_.more_output_rows = tower_.merged * tower_.merged - 1;
    auto values = read_table(source, "v.position_embd.weight", block_.width, across * across);
    if (!values) r.set_error(values.error());
    if (values) table_ = *std::move(values);
  }

  Result<ImageSize> fit(ImageSize, int64_t) const override {
    return ImageSize{static_cast<int32_t>(side_), static_cast<int32_t>(side_)};
  }

  Result<TowerPictures> pictures(const Image& image, int64_t most) const override {
    const ImageSize size{image.width, image.height};
    ImageSize scaled = scale(size, edge_);
    ImageSize tiles = splits_ ? tiles_of(scaled) : ImageSize{1, 1};
    for (int64_t across = (edge_ - 1) / side_; rows_of(tiles) > most && across > 0; --across) {
      scaled = scale(size, across * side_);
      tiles = tiles_of(scaled);
    }
    INFER_TRY(Image whole, resize(image, scaled.width, scaled.height, tower_.filter));
    const auto side = static_cast<int32_t>(side_);
    INFER_TRY(whole, resize(whole, tiles.width * side, tiles.height * side, tower_.filter));
    TowerPictures made;
    if (tiles.width * tiles.height > 1) {
      INFER_TRY(made.pictures, cut_into_tiles(whole, side_));
      INFER_TRY(whole, resize(whole, side, side, tower_.filter));
    }
    made.pictures.push_back(std::move(whole));
    made.texts = texts_of(tiles);
    return made;
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
    x = merge_patches(m, m.layer_norm(x, "v.post_ln", block_.eps), tower_);
    m.g.output(m.linear(x, kProjection, tower_.width), "embeddings");
  }

 private:
  static ImageSize with_longer_side(ImageSize size, int64_t edge) {
    const double form = static_cast<double>(size.width) / size.height;
    const auto longer = static_cast<int32_t>(edge);
    if (size.width >= size.height) return {longer, static_cast<int32_t>(longer / form)};
    return {static_cast<int32_t>(longer * form), longer};
  }

  /// The size with a longer side of `edge` pixels, within kMostEdge, and an even shorter side.
  static ImageSize scale(ImageSize size, int64_t edge) {
    ImageSize scaled = with_longer_side(size, edge);
    int32_t& shorter = size.width >= size.height ? scaled.height : scaled.width;
    shorter = std::max(1, shorter + shorter % 2);
    if (std::max(scaled.width, scaled.height) <= kMostEdge) return scaled;
    scaled = with_longer_side(scaled, kMostEdge);
    return {std::max(1, scaled.width), std::max(1, scaled.height)};
  }

  /// Columns and rows of the tiles that an image of this size is stretched to.
  ImageSize tiles_of(ImageSize size) const {
    const auto side = static_cast<int32_t>(side_);
    const auto up = [&](int32_t pixels) { return std::max(1, (pixels + side - 1) / side); };
    const ImageSize scaled =
        with_longer_side(size, int64_t{up(std::max(size.width, size.height))} * side);
    return {up(scaled.width), up(scaled.height)};
  }

  /// Rows of a prompt, each text of a token or two as in the published vocabularies.
  int64_t rows_of(ImageSize tiles) const {
    const int64_t whole = results_ + 3;
    const int64_t count = int64_t{tiles.width} * tiles.height;
    return count == 1 ? whole : count * (results_ + 2) + tiles.height + whole;
  }

  static std::vector<std::string> texts_of(ImageSize tiles) {
    const std::string mark = "<fake_token_around_image>";
    std::vector<std::string> texts;
    if (tiles.width * tiles.height > 1) {
      for (int32_t row = 1; row <= tiles.height; ++row) {
        for (int32_t column = 1; column <= tiles.width; ++column) {
          const char* line = column == 1 && row > 1 ? "\n" : "";
          texts.push_back(fmt::format("{}{}<row_{}_col_{}>", line, mark, row, column));
        }
      }
    }
    texts.push_back((texts.empty() ? "" : "\n\n") + mark + "<global-img>");
    texts.push_back(mark);
    return texts;
  }

  VisionBlock block_;
  int64_t side_ = 1;          ///< of a picture, in pixels
  int64_t edge_ = 1;          ///< of the longer side of an image before it is cut, in pixels
  bool splits_ = true;        ///< images are cut into tiles
  int64_t results_ = 1;       ///< of a picture
  std::vector<float> table_;  ///< [patches][width]: learned places, row by row
};

/// Where a configuration leaves out what is as in Idefics3VisionConfig.
void assume_usual(CheckpointConfig& config) {
  for (const auto& [key, value] : {std::pair{"hidden_size", 1152},
                                   {"intermediate_size", 3072},
                                   {"num_hidden_layers", 12},
                                   {"num_attention_heads", 16},
                                   {"image_size", 224},
                                   {"patch_size", 32}}) {
    config.assume(key, int64_t{value});
  }
}

void map(TowerMap& m) {
  assume_usual(m.config);
  m.begin({.projector = "idefics3", .activation = "gelu_pytorch_tanh"});
  m.require_processing(1);
  m.keys.set_float("vision.attention.layer_norm_epsilon",
                   m.config.get_float("layer_norm_eps", 1e-6));
  const int64_t side = m.config.need_int("image_size", 1, kMostEdge);
  m.keys.set_int("vision.image_size", side);
  m.keys.set_int("vision.projector.scale_factor", m.whole_int("scale_factor", 2, 1, 64));
  m.require_processor("max_image_size.longest_edge", side);
  m.keys.set_int("vision.preproc_image_size",
                 m.processor_int("size.longest_edge", 4 * side, 1, 1 << 20));
  m.keys.set_bool("vision.image_splitting", m.processor_bool("do_image_splitting", true));
  const std::string tower = "vision_model.";
  m.patches(tower + "embeddings.patch_embedding", 1);
  m.tensors.copy(tower + "embeddings.position_embedding.weight", "v.position_embd.weight");
  m.siglip_layers(tower + "encoder.layers.");
  m.tensor(tower + "post_layernorm", "v.post_ln");
  m.tensor("connector.modality_projection.proj", kProjection);
}

}  // namespace

const TowerDef& idefics3_tower() {
  static constexpr const char* kProjectors[] = {"idefics3"};
  static constexpr const char* kCheckpoints[] = {"Idefics3ForConditionalGeneration",
                                                 "SmolVLMForConditionalGeneration"};
  static const TowerDef def{kProjectors, create_tower<Idefics3>, kCheckpoints, map};
  return def;
}

}  // namespace infer
