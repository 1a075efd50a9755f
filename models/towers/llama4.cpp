// The tower of Llama 4 (Meta AI 2025): a pre-norm encoder with a class token, learned positions and
// 2-D RoPE, over pictures of one size. Squares of patches make one result, by two products with
// GELU and a third. An image is fitted into a grid of tiles, to the left and above, on black; a
// picture of it all follows more than one.
//
// Sizes and grids are those of transformers' Llama4ImageProcessor, which divides sizes in float32
// and rounds values of pixels to bfloat16; pixels are those of Pillow's bilinear filter.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "engine/core/file.h"
#include "engine/core/half.h"
#include "engine/model/tower.h"
#include "engine/model/tower_checkpoint.h"
#include "engine/model/tower_patches.h"
#include "engine/model/tower_tiles.h"
#include "engine/model/vision_block.h"

namespace infer {
namespace {

constexpr const char* kTable = "v.position_embd.weight";
constexpr const char* kClass = "v.class_embd";
constexpr const char* kSquare = "mm.model.mlp.2.weight";
constexpr int64_t kMostSide = 1 << 14;
constexpr int64_t kMostTiles = 256;

float rounded(float value) { return bf16_to_f32(f32_to_bf16(value)); }

/// What the processor divides: in float32 where a canvas is the limit, else in float64.
struct Ratio {
  int32_t to = 1, from = 1;
  bool single = false;
  double value() const {
    if (single) return static_cast<float>(to) / static_cast<float>(from);
    return static_cast<double>(to) / from;
  }
  int32_t times(int32_t length) const {
    const double product =
        single ? static_cast<double>(static_cast<float>(length) * static_cast<float>(value()))
               : length * value();
    return static_cast<int32_t>(std::floor(product));
  }
};

class Llama4 final : public Tower {
 public:
  Llama4(HparamReader& r, const WeightSource& source) {
    read_pixels(r);
    tower_.filter = Filter::bilinear;
    tower_.merged = r.get_int("vision.projector.scale_factor", 2, 1, 64);
    tower_.width = r.need_int("vision.projection_dim", 1, kMaxWidth);
    tower_.token = tower_.text = "<|image|>";
    side_ = r.need_int("vision.image_size", 1, kMostSide);
    most_tiles_ = r.get_int("vision.preproc_max_tiles", 16, 1, kMostTiles);
    if (side_ % (tower_.patch * tower_.merged) != 0) {
      r.set_error(error(StatusCode::bad_file,
                        "{}: clip.vision.image_size: expected a multiple of {} patches of {}, "
                        "found {}",
                        r.metadata().source(), tower_.merged, tower_.patch, side_));
      side_ = tower_.patch * tower_.merged;
    }
    block_ = read_vision_block(r, info_);
    block_.rotate = true;
    block_.style = op::Rope::Style::interleaved;
    RopeSpec rope = image_rope(block_.width / block_.heads, read_rope_base(r, 10000.0));
    for (auto& pair : rope.of_pairs) pair.axis ^= 1;  // columns first
    info_.ropes = {rope};
    info_.takes_images = {3 * tower_.patch * tower_.patch, block_.width};
    info_.more_output_rows = tower_.merged * tower_.merged - 1;
    tower_.picture_results = results();
    tower_.least_results = results() + 3;
    tower_.usual_results = rows_of(most_tiles_);
    for (const auto& [name, to, rows] :
         {std::tuple{kTable, &table_, 1 + across() * across()}, {kClass, &class_, int64_t{1}}}) {
      auto values = read_table(source, name, block_.width, rows);
      if (!values) r.set_error(values.error());
      if (values) *to = *std::move(values);
    }
    for (size_t i = 0; i < class_.size() && !table_.empty(); ++i) {
      *(table_.end() - std::ssize(class_) + static_cast<int64_t>(i)) += class_[i];
    }
    const Weight* square = source.find(kSquare);
    inner_ = square == nullptr ? 1 : square->desc.shape[1];
    if (square == nullptr) {
      r.set_error(error(StatusCode::bad_file, "{}: tensor '{}' is missing", r.metadata().source(),
                        kSquare));
    } else if (square->desc.shape[0] != inner_) {
      r.set_error(error(StatusCode::bad_file, "{}: tensor '{}': expected a square, found {}",
                        r.metadata().source(), kSquare, shape_string(square->desc)));
    }
  }

  Result<ImageSize> fit(ImageSize, int64_t) const override {
    return ImageSize{static_cast<int32_t>(side_), static_cast<int32_t>(side_)};
  }

  int64_t most_patches(int64_t results) const override {
    return results * tower_.merged * tower_.merged + 1;  // and the class token
  }

  Result<TowerPictures> pictures(const Image& image, int64_t most) const override {
    const ImageSize size{image.width, image.height};
    int64_t tiles = most_tiles_;
    while (tiles > 1 && rows_of(tiles) > most) --tiles;
    const ImageSize grid = grid_of(size, tiles);
    const auto side = static_cast<int32_t>(side_);
    const ImageSize canvas{grid.width * side, grid.height * side};
    const ImageSize inner = fitted(size, canvas);
    INFER_TRY(const Image scaled, resize(image, inner.width, inner.height, tower_.filter));
    TowerPictures made;
    INFER_TRY(made.pictures, cut_into_tiles(placed_on_black(scaled, canvas, 0, 0), side_));
    if (made.pictures.size() == 1) {
      made.texts = {"<|image_start|><|image|>", "<|image_end|>"};
      return made;
    }
    made.texts.emplace_back("<|image_start|>");
    for (int32_t i = 1; i < grid.width * grid.height; ++i) {
      made.texts.emplace_back(i % grid.width == 0 ? "<|tile_y_separator|>"
                                                  : "<|tile_x_separator|>");
    }
    made.texts.emplace_back("<|tile_y_separator|><|image|>");
    made.texts.emplace_back("<|image_end|>");
    INFER_TRY(made.pictures.emplace_back(), resize(image, side, side, tower_.filter));
    return made;
  }

  /// The class token is the last row. It has no pixels and is not turned: patches begin at 1.
  TowerStep lay_out(const Image& image) const override {
    TowerStep step = cut_into_patches(image, tower_);
    round_pixels(step.inputs[0]);
    std::vector<float>& places = step.inputs.emplace_back();
    places.reserve(table_.size());
    for (Position& at : step.positions) {
      const float* place = table_.data() + (at.axes[0] * across() + at.axes[1]) * block_.width;
      places.insert(places.end(), place, place + block_.width);
      at = Position(at.axes[0] + 1, at.axes[1] + 1, 0);
    }
    places.insert(places.end(), table_.end() - block_.width, table_.end());
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
    x = merge_patches(m, m.layer_norm(x, "v.post_ln", block_.eps), tower_);
    x = m.g.add(op::Gelu{}, {m.linear(x, "mm.model.mlp.1", inner_)});
    x = m.g.add(op::Gelu{}, {m.linear(x, "mm.model.mlp.2", inner_)});
    m.g.output(m.linear(x, "mm.model.fc", tower_.width), "embeddings");
  }

 private:
  int64_t across() const { return side_ / tower_.patch; }
  /// Of a picture.
  int64_t results() const { return across() / tower_.merged * (across() / tower_.merged); }
  /// Rows of a prompt of an image of so many tiles.
  int64_t rows_of(int64_t tiles) const {
    return (tiles > 1 ? tiles * (results() + 1) : 0) + results() + 3;
  }

  /// The values as they are made in bfloat16.
  void round_pixels(std::vector<float>& values) const {
    const size_t of_colour = static_cast<size_t>(tower_.patch * tower_.patch);
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t colour = i / of_colour % 3;
      const float mean = tower_.mean[colour], deviation = tower_.deviation[colour];
      const float byte = std::nearbyint((values[i] * deviation + mean) * 255.0f);
      const float share = rounded(byte * static_cast<float>(1.0 / 255));
      values[i] = rounded(rounded(share - rounded(mean)) / rounded(deviation));
    }
  }

  /// Columns and rows of at most so many tiles: where the image is enlarged least, or if it has to
  /// be made smaller, where it is so least; of equals the first of those with the fewest tiles.
  /// Grids of one form stand together, in the order in which these come with ever less tiles.
  ImageSize grid_of(ImageSize size, int64_t most) const {
    std::vector<std::vector<ImageSize>> forms;
    for (auto tiles = static_cast<int32_t>(most); tiles > 0; --tiles) {
      for (int32_t rows = 1; rows <= tiles; ++rows) {
        if (tiles % rows != 0) continue;
        const ImageSize grid{tiles / rows, rows};
        const auto form = std::ranges::find_if(forms, [&](const auto& known) {
          return known[0].width * grid.height == known[0].height * grid.width;
        });
        if (form == forms.end()) {
          forms.push_back({grid});
        } else {
          form->push_back(grid);
        }
      }
    }
    const auto scale_of = [&](ImageSize grid) {
      const auto side = static_cast<float>(side_);
      return std::min(static_cast<float>(grid.width) * side / static_cast<float>(size.width),
                      static_cast<float>(grid.height) * side / static_cast<float>(size.height));
    };
    float enlarged = std::numeric_limits<float>::infinity(), reduced = 0;
    for (const auto& form : forms) {
      for (const ImageSize& grid : form) {
        const float scale = scale_of(grid);
        if (scale >= 1) enlarged = std::min(enlarged, scale);
        if (scale < 1) reduced = std::max(reduced, scale);
      }
    }
    const float chosen = std::isfinite(enlarged) ? enlarged : reduced;
    ImageSize best{0, 0};
    for (const auto& form : forms) {
      for (const ImageSize& grid : form) {
        if (scale_of(grid) != chosen) continue;
        const bool fewer = grid.width * grid.height < best.width * best.height;
        if (best.width == 0 || fewer) best = grid;
      }
    }
    return best;
  }

  /// The size of an image in a canvas: it is enlarged up to one tile's side alone.
  ImageSize fitted(ImageSize size, ImageSize canvas) const {
    const auto side = static_cast<int32_t>(side_);
    const auto along = [&](int32_t length, int32_t limit) {
      const int32_t wanted = std::max(length, side);
      return Ratio{std::min(wanted, limit), length, limit < wanted};
    };
    const Ratio across = along(size.width, canvas.width);
    const Ratio down = along(size.height, canvas.height);
    const bool single = across.single || down.single;
    const bool wide = single ? static_cast<float>(across.value()) < static_cast<float>(down.value())
                             : across.value() < down.value();
    if (wide) return {across.to, std::max(1, std::min(across.times(size.height), down.to))};
    return {std::max(1, std::min(down.times(size.width), across.to)), down.to};
  }

  VisionBlock block_;
  int64_t side_ = 1;          ///< of a picture, in pixels
  int64_t most_tiles_ = 1;    ///< of an image
  int64_t inner_ = 1;         ///< width between the adapter's products
  std::vector<float> table_;  ///< [patches + 1][width]: row by row, then of the class token
  std::vector<float> class_;  ///< [width]
};

void map(TowerMap& m) {
  for (const auto& [key, value] : {std::pair{"hidden_size", 768},
                                   {"intermediate_size", 5632},
                                   {"num_hidden_layers", 34},
                                   {"num_attention_heads", 16},
                                   {"image_size", 448},
                                   {"patch_size", 14}}) {
    m.config.assume(key, int64_t{value});
  }
  m.begin({.projector = "llama4", .activation = "gelu"});
  m.require_processing(2);
  m.keys.set_float("vision.attention.layer_norm_epsilon", m.config.get_float("norm_eps", 1e-5));
  const int64_t side = m.config.need_int("image_size", 1, kMostSide);
  m.keys.set_int("vision.image_size", side);
  m.require_processor("size.height", side);
  m.require_processor("size.width", side);
  m.keys.set_int("vision.preproc_max_tiles", m.processor_int("max_patches", 16, 1, kMostTiles));
  m.config.require(!m.processor_bool("resize_to_max_canvas", false), "resize_to_max_canvas");
  const double ratio = m.config.get_float("pixel_shuffle_ratio", 0.5);
  const double merged = ratio > 0 ? 1 / ratio : 0;
  m.config.require(merged >= 1 && merged <= 64 && std::abs(merged - std::nearbyint(merged)) < 1e-6,
                   fmt::format("pixel_shuffle_ratio {}", ratio));
  m.keys.set_int("vision.projector.scale_factor",
                 std::clamp<int64_t>(static_cast<int64_t>(std::nearbyint(merged)), 1, 64));
  const double base = m.config.get_float("rope_theta", 10000.0);
  m.keys.set_float("rope.freq_base", m.config.get_float("rope_parameters.rope_theta", base));
  const std::string v = "vision_model.";
  m.tensors.copy(v + "patch_embedding.linear.weight", "v.patch_embd.weight");
  m.tensors.copy(v + "class_embedding", kClass);
  m.tensors.copy(v + "positional_embedding_vlm", kTable);
  m.tensor(v + "layernorm_pre", "v.pre_ln");
  m.layers(v + "model.layers.", {{"input_layernorm", "ln1"},
                                 {"post_attention_layernorm", "ln2"},
                                 {"self_attn.q_proj", "attn_q"},
                                 {"self_attn.k_proj", "attn_k"},
                                 {"self_attn.v_proj", "attn_v"},
                                 {"self_attn.o_proj", "attn_out"},
                                 {"mlp.fc1", "ffn_up"},
                                 {"mlp.fc2", "ffn_down"}});
  m.tensor(v + "layernorm_post", "v.post_ln");
  m.tensor(v + "vision_adapter.mlp.fc1", "mm.model.mlp.1");
  m.tensor(v + "vision_adapter.mlp.fc2", "mm.model.mlp.2");
  m.tensor("multi_modal_projector.linear_1", "mm.model.fc");
}

}  // namespace

const TowerDef& llama4_tower() {
  static constexpr const char* kProjectors[] = {"llama4"};
  static constexpr const char* kCheckpoints[] = {"Llama4ForConditionalGeneration"};
  static const TowerDef def{kProjectors, create_tower<Llama4>, kCheckpoints, map};
  return def;
}

}  // namespace infer
