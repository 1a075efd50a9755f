// The tower of Pixtral (Agrawal et al. 2024), Mistral Small 3.1 and later, and Ministral 3: a Llama
// encoder with 2-D RoPE. An image keeps its form. In the later ones four patches, two by two, make
// one result. A token stands between the lines of results, and one at the end.
#include <algorithm>
#include <cmath>

#include "engine/model/tower.h"
#include "engine/model/tower_patches.h"
#include "engine/model/vision_block.h"

namespace infer {
namespace {

constexpr const char* kMerger = "mm.patch_merger";

class Pixtral final : public Tower {
 public:
  Pixtral(HparamReader& r, const WeightSource& source) {
    read_pixels(r);
    tower_.filter = Filter::bicubic;
    tower_.merged = r.get_int("vision.spatial_merge_size", 1, 1, 8);
    tower_.width = r.need_int("vision.projection_dim", 1, 1 << 20);
    tower_.token = tower_.text = "[IMG]";
    tower_.expanded = "[IMG][IMG_END]";
    tower_.line_token = "[IMG_BREAK]";
    edge_ = r.need_int("vision.image_size", 1, 1 << 14);
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

}  // namespace

const TowerDef& pixtral_tower() {
  static constexpr const char* kProjectors[] = {"pixtral"};
  static const TowerDef def{kProjectors, create_tower<Pixtral>};
  return def;
}

}  // namespace infer
