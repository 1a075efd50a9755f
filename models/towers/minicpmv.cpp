// The tower of MiniCPM-V 4.6 and MiniCPM-OCR (OpenBMB 2026): SigLIP's encoder over images of any
// form. After some of its layers four patches, two by two, become one: they see each other alone,
// then a feed-forward takes all four, and their mean is added. A second feed-forward makes a result
// of four of these. Where files have four times as many results, the first step is left out. A
// large image is cut into slices, and a picture of it all stands before them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/core/file.h"
#include "engine/model/tower.h"
#include "engine/model/tower_checkpoint.h"
#include "engine/model/tower_patches.h"
#include "engine/model/tower_tiles.h"
#include "engine/model/vision_block.h"

namespace infer {
namespace {

constexpr const char* kTable = "v.position_embd.weight";
constexpr const char* kOcr = "MiniCPMOcrForConditionalGeneration";
constexpr float kProjectorEps = 1e-6f;
constexpr int64_t kUsualSlices = 9;
constexpr double kMostAspect = 200;
/// The lists of StepInput::output_rows: of the patches of a square, of the squares of a result, and
/// where the text of the squares begins and ends.
constexpr int32_t kSquares = 4, kBegins = 8, kLists = 10;

struct Size {
  double width = 0, height = 0;
};

/// The multiple of `unit` that is nearest, at least one.
double whole(double length, double unit) {
  return std::max(std::nearbyint(length / unit) * unit, unit);
}

class MiniCpmV final : public Tower {
 public:
  MiniCpmV(HparamReader& r, const WeightSource& source) {
    read_pixels(r);
    tower_.filter = Filter::bicubic;
    tower_.merged = r.get_int("vision.projector.scale_factor", 4, 2, 4);
    tower_.width = r.need_int("vision.projection_dim", 1, kMaxWidth);
    tower_.token = tower_.text = "<|image_pad|>";
    if (r.get_bool("vision.image_ids", true)) {
      tower_.expanded = "<image_id>{}</image_id><|image_pad|>";
    }
    enlarges_ = r.get_bool("vision.preproc_enlarge", true);
    side_ = r.need_int("vision.image_size", tower_.patch * tower_.merged, 1 << 14);
    most_slices_ = r.get_int("vision.preproc_max_tiles", kUsualSlices, 1, 256);
    const int64_t across = side_ / unit() + 1;
    tower_.picture_results = std::max(2 * across * across, 15 * across);
    tower_.least_results = 3;  // a result between two tokens
    tower_.usual_results = (most_slices_ + 1) * (tower_.picture_results + 3);
    block_ = read_vision_block(r, info_);
    block_.activation = op::Gelu::Kind::tanh;
    merges_ = tower_.merged == 4;
    if (!merges_ && tower_.merged != 2) wrong(r, "vision.projector.scale_factor", "2 or 4");
    info_.takes_images = {3 * tower_.patch * tower_.patch, block_.width};
    info_.parted = merges_;
    info_.more_output_rows = (merges_ ? kLists : kSquares) - 1;
    if (merges_) read_merger(r);
    table_ = read_square(r, source, kTable, block_.width, places_);
  }

  Result<ImageSize> fit(ImageSize size, int64_t most) const override {
    INFER_TRY(const Cut cut, cut_of(size, most));
    return cut.picture;
  }

  Result<TowerPictures> pictures(const Image& image, int64_t most) const override {
    INFER_TRY(const Cut cut, cut_of({image.width, image.height}, most));
    TowerPictures made;
    INFER_TRY(made.pictures.emplace_back(),
              resize(image, cut.picture.width, cut.picture.height, tower_.filter));
    made.texts = {"<image>"};
    std::string end = "</image>";
    if (cut.columns > 0) {
      INFER_TRY(const Image large, resize(image, cut.columns * cut.slice.width,
                                          cut.rows * cut.slice.height, tower_.filter));
      for (int32_t i = 0; i < cut.rows * cut.columns; ++i) {
        const int32_t column = i % cut.columns;
        made.texts.push_back(end + (i > 0 && column == 0 ? "\n<slice>" : "<slice>"));
        end = "</slice>";
        INFER_TRY(made.pictures.emplace_back(),
                  crop(large, column * cut.slice.width, i / cut.columns * cut.slice.height,
                       cut.slice.width, cut.slice.height));
      }
    }
    made.texts.push_back(end);
    return made;
  }

  int64_t most_outputs(int64_t results) const override { return merges_ ? 4 * results : results; }

  TowerStep lay_out(const Image& image) const override {
    TowerInfo squares = tower_;
    squares.merged = 2;
    TowerStep step = cut_into_patches(image, squares, merges_ ? 1 : 0);
    const ImageSize grid = patch_grid(image, tower_);
    std::vector<float>& places = step.inputs.emplace_back();
    places.reserve(step.positions.size() * static_cast<size_t>(block_.width));
    for (const Position& at : step.positions) {
      const int64_t place =
          at.axes[0] * places_ / grid.height * places_ + at.axes[1] * places_ / grid.width;
      const auto* from = table_.data() + place * block_.width;
      places.insert(places.end(), from, from + block_.width);
    }
    if (merges_) merge_squares(step);
    return step;
  }

  void build(ModelBuilder& m) const override {
    m.g.set_unit({UnitKind::embedding, -1});
    const ValueId pixels = m.g.input(StepInput::image, 0, info_.takes_images[0]);
    ValueId x = m.linear(pixels, "v.patch_embd", block_.width);
    x = m.add(x, m.g.input(StepInput::image, 1, block_.width));
    VisionBlock block = block_;
    for (int64_t layer = 0; layer < info_.layers; ++layer) {
      x = vision_layer(m, x, layer, block);
      if (!merges_ || layer != merger_layer_) continue;
      x = merger(m, x);
      block.lists = kBegins;
    }
    m.g.set_unit({UnitKind::output, -1});
    x = gathered(m, m.layer_norm(x, "v.post_ln", block_.eps), merges_ ? kSquares : 0);
    x = m.layer_norm(x, "mm.input_norm", kProjectorEps);
    x = m.linear(x, "mm.up", 4 * block_.width);
    m.g.output(m.linear(m.g.add(op::Gelu{}, {x}), "mm.down", tower_.width), "embeddings");
  }

 private:
  /// How an image is cut: a picture of it all, and slices, if there are any.
  struct Cut {
    ImageSize picture, slice;
    int32_t columns = 0, rows = 0;
  };

  int64_t unit() const { return tower_.patch * tower_.merged; }

  static void wrong(HparamReader& r, const char* key, const std::string& expected) {
    r.set_error(error(StatusCode::bad_file, "{}: clip.{}: expected {}", r.metadata().source(), key,
                      expected));
  }

  void read_merger(HparamReader& r) {
    const char* key = "vision.wa_layer_indexes";
    const auto layers = r.metadata().get_ints("clip." + std::string(key), 0, info_.layers - 1);
    if (!layers) return r.set_error(layers.error());
    if (*layers && (*layers)->size() != 1) return wrong(r, key, "one layer");
    merger_layer_ = *layers ? (*layers)->front() : std::min<int64_t>(6, info_.layers - 1);
    const Weight* up = r.source().find("v.vit_merger.ds_ffn_up.weight");
    inner_ = up == nullptr ? 4 * block_.feed_forward : up->desc.shape[1];
  }

  /// An image, or a part of one, scaled to about the area of a square of `side` pixels.
  ImageSize scaled(Size size, double side, bool enlarged) const {
    if (size.height * size.width > side * side || enlarged) {
      const double aspect = size.width / size.height;
      size.height = std::floor(side / std::sqrt(aspect));
      size.width = std::floor(size.height * aspect);
    }
    const auto one = static_cast<double>(unit());
    return {static_cast<int32_t>(whole(size.width, one)),
            static_cast<int32_t>(whole(size.height, one))};
  }

  int64_t results(ImageSize size) const { return size.width / unit() * (size.height / unit()); }

  /// Columns and rows of slices, of so many at most; nothing: the image is not cut.
  std::optional<ImageSize> grid_of(ImageSize size, int64_t most) const {
    const double width = size.width, height = size.height;
    const double area = width * height / (static_cast<double>(side_) * static_cast<double>(side_));
    const int64_t about = std::min(static_cast<int64_t>(std::ceil(area)), most);
    if (about <= 1) return std::nullopt;
    const double form = std::log(width / height);
    ImageSize best{1, 1};
    double least = std::numeric_limits<double>::infinity();
    for (int64_t slices = about - 1; slices <= std::min(about + 1, most); ++slices) {
      for (int64_t rows = 1; rows <= slices && slices > 1; ++rows) {
        if (slices % rows != 0) continue;
        const double columns = static_cast<double>(slices) / static_cast<double>(rows);
        const double off = std::abs(form - std::log(columns / static_cast<double>(rows)));
        if (off > least || (off == least && rows <= best.height)) continue;
        least = off;
        best = {static_cast<int32_t>(slices / rows), static_cast<int32_t>(rows)};
      }
    }
    return best;
  }

  /// With at most `most` rows of a prompt.
  Result<Cut> cut_of(ImageSize size, int64_t most) const {
    const double longer = std::max(size.width, size.height);
    const double shorter = std::min(size.width, size.height);
    if (shorter < 1 || longer > kMostAspect * shorter) {
      return fail(StatusCode::bad_file,
                  "an image of {} x {} pixels: expected a longer side of at most {} times the "
                  "shorter one",
                  size.width, size.height, kMostAspect);
    }
    for (int64_t slices = most_slices_;; --slices) {
      Cut cut;
      const std::optional<ImageSize> grid = grid_of(size, slices);
      const Size exact{static_cast<double>(size.width), static_cast<double>(size.height)};
      auto side = static_cast<double>(side_);
      cut.picture = scaled(exact, side, !grid && enlarges_);
      while (!grid && results(cut.picture) + 2 > std::max(most, tower_.least_results)) {
        side *= 0.95;
        cut.picture = scaled(exact, side, true);
      }
      if (!grid) return cut;
      cut.columns = grid->width;
      cut.rows = grid->height;
      const double columns = grid->width, rows = grid->height;
      cut.slice = scaled({whole(exact.width, columns) / columns, whole(exact.height, rows) / rows},
                         side, true);
      const int64_t count = columns_times_rows(cut);
      const int64_t texts = 2 + 2 * count + cut.rows - 1;
      if (results(cut.picture) + count * results(cut.slice) + texts <= most) return cut;
    }
  }

  static int64_t columns_times_rows(const Cut& cut) { return int64_t{cut.columns} * cut.rows; }

  /// The squares that make a result, and where their text begins and ends. Only the first rows of
  /// what is made of them are results.
  void merge_squares(TowerStep& step) const {
    const ImageSize squares = step.grid;
    const auto count = static_cast<size_t>(squares.width * squares.height);
    step.grid = {squares.width / 2, squares.height / 2};
    step.output_rows.resize(kLists, std::vector<int32_t>(count));
    for (int32_t i = 0; i < step.grid.width * step.grid.height; ++i) {
      for (int32_t part = 0; part < kSquares; ++part) {
        const int32_t row = i / step.grid.width * 2 + part / 2;
        const int32_t column = i % step.grid.width * 2 + part % 2;
        step.output_rows[static_cast<size_t>(kSquares + part)][static_cast<size_t>(i)] =
            row * squares.width + column;
      }
      step.rows.push_back(i);
    }
    std::ranges::fill(step.output_rows[kBegins + 1], static_cast<int32_t>(count));
  }

  /// Rows of four lists beside each other.
  static ValueId gathered(ModelBuilder& m, ValueId x, int32_t first) {
    ValueId all = kNoValue;
    for (int32_t i = first; i < first + kSquares; ++i) {
      const ValueId part = m.g.add(op::SelectRows{}, {x, m.g.input(StepInput::output_rows, i)});
      all = all == kNoValue ? part : m.g.add(op::Concat{}, {all, part});
    }
    return all;
  }

  /// x [width, 1, patches] → [width, 1, squares].
  ValueId merger(ModelBuilder& m, ValueId x) const {
    VisionBlock block = block_;
    block.division = 1;
    x = vision_attention(m, x, "v.vit_merger.", block);
    const ValueId mean = m.g.add(op::MeanRows{}, {x, m.g.input(StepInput::output_rows, 0),
                                                  m.g.input(StepInput::output_ends)});
    ValueId h = m.layer_norm(gathered(m, x, 0), "v.vit_merger.ds_ln", block_.eps);
    h = m.linear(h, "v.vit_merger.ds_ffn_up", inner_);
    h = m.g.add(op::Gelu{op::Gelu::Kind::tanh}, {h});
    return m.add(mean, m.linear(h, "v.vit_merger.ds_ffn_down", block_.width));
  }

  VisionBlock block_;
  bool merges_ = true;    ///< patches inside the encoder
  bool enlarges_ = true;  ///< small images
  int64_t side_ = 1;      ///< of a picture, in pixels, if it is a square
  int64_t most_slices_ = 1;
  int64_t merger_layer_ = 0;  ///< the last layer before patches are merged
  int64_t inner_ = 1;         ///< of the merger's feed-forward
  int64_t places_ = 1;        ///< learned ones of a side
  std::vector<float> table_;  ///< [places · places][width]
};

/// How images are cut, and what stands before them.
void map_slices(TowerMap& m) {
  m.keys.set_int("vision.image_size", m.processor_int("scale_resolution", 448, 1, 1 << 14));
  const bool cuts = m.processor_bool("slice_mode", true);
  m.keys.set_int("vision.preproc_max_tiles",
                 cuts ? m.processor_int("max_slice_nums", kUsualSlices, 1, 256) : 1);
  if (!m.processor_bool("use_image_id", true)) m.keys.set_bool("vision.image_ids", false);
  const std::string key = m.processor_key("small_image_upsize");
  if (key.empty()) return;
  const std::string found = m.config.take(m.config.values().get_string(key), std::string());
  m.config.require(found == "always" || found == "never",
                   "small_image_upsize '" + printable(found) + "'");
  if (found == "never") m.keys.set_bool("vision.preproc_enlarge", false);
}

void map(TowerMap& m) {
  m.begin({.projector = "minicpmv4_6", .activation = "gelu_pytorch_tanh"});
  m.require_processing(3);
  m.require_processor("patch_size", m.patch());
  const std::string usual = m.is(kOcr) ? "4x" : "16x";
  const std::string mode = m.whole_string("downsample_mode", usual);
  const std::string key = m.processor_key("downsample_mode");
  const std::string other =
      key.empty() ? usual : m.config.take(m.config.values().get_string(key), usual);
  m.config.require(mode == other && (mode == "4x" || mode == "16x"),
                   fmt::format("downsample_mode '{}'", printable(mode == other ? mode : other)));
  const bool merges = mode == "16x";
  m.keys.set_int("vision.projector.scale_factor", merges ? 4 : 2);
  const int64_t layer = m.whole_int("insert_layer_id", 6, -1, 1024);
  m.config.require(!merges || (layer >= 0 && layer < m.layer_count()),
                   fmt::format("insert_layer_id {}", layer));
  if (merges) m.keys.set_ints("vision.wa_layer_indexes", {layer});
  const int64_t times = m.whole_int("merger_times", 1, 1, 16);
  m.config.require(times == 1, fmt::format("merger_times {}", times));
  m.config.require(!m.whole_bool("drop_vision_last_layer", false), "drop_vision_last_layer");
  const std::vector<int64_t> window = m.config.get_ints("window_kernel_size");
  m.config.require(window.empty() || window == std::vector<int64_t>{2, 2},
                   "this window_kernel_size");
  map_slices(m);
  m.keys.set_float("vision.attention.layer_norm_epsilon",
                   m.config.get_float("layer_norm_eps", 1e-6));
  const std::string v = "vision_tower.";
  m.patches(v + "embeddings.patch_embedding", 1);
  m.tensors.copy(v + "embeddings.position_embedding.weight", kTable);
  m.siglip_layers(v + "encoder.layers.");
  m.tensor(v + "post_layernorm", "v.post_ln");
  const std::string merger = v + "vit_merger.";
  if (!merges) m.tensors.ignore_prefix(merger);
  for (const auto& [from, to] : {std::pair{"layer_norm1", "ln1"},
                                 {"self_attn.q_proj", "attn_q"},
                                 {"self_attn.k_proj", "attn_k"},
                                 {"self_attn.v_proj", "attn_v"},
                                 {"self_attn.out_proj", "attn_out"},
                                 {"pre_norm", "ds_ln"},
                                 {"linear_1", "ds_ffn_up"},
                                 {"linear_2", "ds_ffn_down"}}) {
    if (merges) m.tensor(merger + from, std::string("v.vit_merger.") + to);
  }
  m.tensor("merger.mlp.0.pre_norm", "mm.input_norm");
  m.tensor("merger.mlp.0.linear_1", "mm.up");
  m.tensor("merger.mlp.0.linear_2", "mm.down");
}

}  // namespace

const TowerDef& minicpmv_tower() {
  static constexpr const char* kProjectors[] = {"minicpmv4_6"};
  static constexpr const char* kCheckpoints[] = {"MiniCPMV4_6ForConditionalGeneration", kOcr};
  static const TowerDef def{kProjectors, create_tower<MiniCpmV>, kCheckpoints, map};
  return def;
}

}  // namespace infer
