// The tower of Gemma 4: an encoder with RMSNorm before and behind each block, a norm on every head,
// learned positions for columns and for rows, and RoPE whose halves turn by column and by row. An
// image keeps its form, and is scaled to make as many results as it may. Squares of patches are
// averaged. Products may hold their inputs and results within bounds.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "engine/model/tower.h"
#include "engine/model/tower_checkpoint.h"
#include "engine/model/tower_patches.h"
#include "engine/model/vision_block.h"

namespace infer {
namespace {

constexpr int64_t kUsualResults = 280;
constexpr int64_t kMostResults = 1 << 16;

/// What a product's inputs and results are held within.
struct Bounds {
  op::Scale input, output;
};

class Gemma4 final : public Tower {
 public:
  Gemma4(HparamReader& r, const WeightSource& source) {
    tower_.patch = r.need_int("vision.patch_size", 1, 256);
    tower_.filter = Filter::bicubic;
    tower_.merged = r.get_int("vision.projector.scale_factor", 3, 1, 64);
    tower_.width = r.need_int("vision.projection_dim", 1, kMaxWidth);
    tower_.usual_results = r.get_int("vision.max_soft_tokens", kUsualResults, 1, kMostResults);
    tower_.token = tower_.text = "<|image|>";
    tower_.expanded = "<|image><|image|><image|>";
    block_ = read_vision_block(r, info_);
    head_ = block_.width / block_.heads;
    for (uint8_t axis : {1, 0}) {  // columns turn the first half of a head
      RopeSpec rope;
      rope.pairs = static_cast<int32_t>(head_ / 4);
      rope.base = 100.0;
      for (int32_t i = 0; i < rope.pairs; ++i) {
        rope.of_pairs.push_back({axis, static_cast<double>(i) / rope.pairs});
      }
      info_.ropes.push_back(std::move(rope));
    }
    info_.takes_images = {3 * tower_.patch * tower_.patch, block_.width};
    read_places(r, source);
    if (source.find("v.std_bias") != nullptr || source.find("v.std_scale") != nullptr) {
      auto values = read_table(source, "v.std_bias", block_.width, 1);
      if (!values) r.set_error(values.error());
      if (values) bias_ = *std::move(values);
      info_.takes_images.push_back(block_.width);
    }
    read_bounds(r, source);
  }

  /// The largest size of about this form that makes at most `most` results.
  Result<ImageSize> fit(ImageSize size, int64_t most) const override {
    const auto unit = static_cast<double>(tower_.patch * tower_.merged);
    const auto budget = static_cast<double>(std::max<int64_t>(most, 1));
    const double factor = std::sqrt(budget / (static_cast<double>(size.width) * size.height));
    auto columns = static_cast<int64_t>(factor * size.width);
    auto rows = static_cast<int64_t>(factor * size.height);
    if (rows == 0) {
      rows = 1;
      columns = std::min<int64_t>(size.width / size.height, most);
    } else if (columns == 0) {
      columns = 1;
      rows = std::min<int64_t>(size.height / size.width, most);
    }
    const int64_t side = places_ / tower_.merged;
    columns = std::clamp<int64_t>(columns, 1, side);
    rows = std::clamp<int64_t>(rows, 1, side);
    return ImageSize{static_cast<int32_t>(static_cast<double>(columns) * unit),
                     static_cast<int32_t>(static_cast<double>(rows) * unit)};
  }

  TowerStep lay_out(const Image& image) const override {
    TowerStep step = cut_into_patches(image, tower_);
    std::vector<float>& places = step.inputs.emplace_back();
    places.reserve(step.positions.size() * static_cast<size_t>(block_.width));
    for (const Position& at : step.positions) {
      const float* column = table_.data() + at.axes[1] * block_.width;
      const float* row = table_.data() + (places_ + at.axes[0]) * block_.width;
      for (int64_t i = 0; i < block_.width; ++i) places.push_back(column[i] + row[i]);
    }
    if (bias_.empty()) return step;
    // What is taken from the results is taken from the patches, before these are averaged and
    // multiplied by the root of the width.
    const double root = std::sqrt(static_cast<double>(block_.width));
    std::vector<float>& taken = step.inputs.emplace_back();  // `places` may have moved
    taken.reserve(step.positions.size() * static_cast<size_t>(block_.width));
    for (size_t patch = 0; patch < step.positions.size(); ++patch) {
      for (const float bias : bias_) taken.push_back(static_cast<float>(-bias / root));
    }
    return step;
  }

  void build(ModelBuilder& m) const override {
    m.g.set_unit({UnitKind::embedding, -1});
    const ValueId pixels = m.g.input(StepInput::image, 0, info_.takes_images[0]);
    ValueId x = m.linear(pixels, "v.patch_embd", block_.width);
    x = m.add(x, m.g.input(StepInput::image, 1, block_.width));
    for (int64_t layer = 0; layer < info_.layers; ++layer) x = add_layer(m, x, layer);
    m.g.set_unit({UnitKind::output, -1});
    if (!bias_.empty()) x = m.add(x, m.g.input(StepInput::image, 2, block_.width));
    x = m.g.add(op::MeanRows{},
                {x, m.g.input(StepInput::output_rows), m.g.input(StepInput::output_ends)});
    x = m.g.add(op::Scale{std::sqrt(static_cast<float>(block_.width))}, {x});
    if (!bias_.empty()) {
      x = m.g.add(op::Multiply{}, {x, m.weight("v.std_scale", {block_.width})});
    }
    x = m.g.add(op::RmsNorm{block_.eps}, {x, kNoValue});
    m.g.output(m.linear(x, "mm.input_projection", tower_.width), "embeddings");
  }

 private:
  void read_places(HparamReader& r, const WeightSource& source) {
    constexpr const char* kTable = "v.position_embd.weight";
    const Weight* table = source.find(kTable);
    places_ = table == nullptr ? 1 : table->desc.shape[1];
    auto values = read_table(source, kTable, block_.width, 2 * places_);
    if (!values) return r.set_error(values.error());
    table_ = *std::move(values);
    if (places_ < tower_.merged) {
      r.set_error(error(StatusCode::bad_file,
                        "{}: tensor '{}': expected at least {} places, found {}",
                        r.metadata().source(), kTable, tower_.merged, places_));
    }
  }

  /// "<product>.input_min", "input_max", "output_min" and "output_max", each one number.
  void read_bounds(HparamReader& r, const WeightSource& source) {
    for (const Weight& weight : source.weights()) {
      const size_t dot = weight.name.rfind('.');
      if (dot == std::string::npos || !weight.name.starts_with("v.blk.")) continue;
      const std::string part = weight.name.substr(dot + 1);
      const bool input = part.starts_with("input_");
      if (!input && !part.starts_with("output_")) continue;
      const auto value = read_table(source, weight.name, 1, 1);
      if (!value) return r.set_error(value.error());
      Bounds& bounds = bounds_[weight.name.substr(0, dot)];
      op::Scale& to = input ? bounds.input : bounds.output;
      (part.ends_with("min") ? to.least : to.most) = value->front();
    }
    for (const auto& [product, bounds] : bounds_) {
      for (const op::Scale& held : {bounds.input, bounds.output}) {
        if (held.least <= held.most) continue;
        r.set_error(
            error(StatusCode::bad_file,
                  "{}: '{}': expected a least input or output below the greatest, found {} and {}",
                  r.metadata().source(), product, held.least, held.most));
      }
    }
  }

  ValueId product(ModelBuilder& m, ValueId x, const std::string& name, int64_t n) const {
    const auto found = bounds_.find(name);
    if (found == bounds_.end()) return m.linear(x, name, n);
    x = m.linear(m.g.add(found->second.input, {x}), name, n);
    return m.g.add(found->second.output, {x});
  }

  /// Heads whose halves are turned by column and by row.
  ValueId turned(ModelBuilder& m, ValueId x) const {
    const auto style = op::Rope::Style::half_split;
    const ValueId first = m.rope(m.g.slice(x, 0, head_ / 2), style, 0);
    const ValueId second = m.rope(m.g.slice(x, head_ / 2, head_ / 2), style, 1);
    return m.g.add(op::Concat{}, {first, second});
  }

  ValueId add_layer(ModelBuilder& m, ValueId x, int64_t layer) const {
    const auto name = [&](const char* part) { return vision_name(layer, part); };
    const auto norm = [&](ValueId of, const char* part) {
      return m.rms_norm(of, name(part) + ".weight", block_.eps);
    };
    m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
    ValueId h = norm(x, "ln1");
    const auto heads = [&](const char* part) {
      return m.g.split_heads(product(m, h, name(part), block_.width), block_.heads);
    };
    const ValueId q = turned(m, norm(heads("attn_q"), "attn_q_norm"));
    const ValueId k = turned(m, norm(heads("attn_k"), "attn_k_norm"));
    const ValueId v = m.g.add(op::RmsNorm{block_.eps}, {heads("attn_v"), kNoValue});
    h = product(m, m.text_attention(q, k, v, {.scale = 1.0f}), name("attn_out"), block_.width);
    x = m.add(x, norm(h, "attn_post_norm"));
    m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
    h = norm(x, "ln2");
    const ValueId gate = product(m, h, name("ffn_gate"), block_.feed_forward);
    const ValueId up = product(m, h, name("ffn_up"), block_.feed_forward);
    h = m.g.add(op::Glu{op::Glu::Kind::gelu_tanh}, {gate, up});
    return m.add(x, norm(product(m, h, name("ffn_down"), block_.width), "ffn_post_norm"));
  }

  VisionBlock block_;
  int64_t head_ = 4;
  int64_t places_ = 1;        ///< that an image has at most, in patches, across and down
  std::vector<float> table_;  ///< [2][places][width]: of columns, then of rows
  std::vector<float> bias_;   ///< [width]: taken from the results; empty: nothing
  std::unordered_map<std::string, Bounds> bounds_;  ///< by product
};

void map(TowerMap& m) {
  m.begin({.projector = "gemma4v", .activation = "gelu_pytorch_tanh"});
  m.require_processing(3, false);
  m.keys.set_int("vision.max_soft_tokens",
                 m.processor_int("max_soft_tokens", kUsualResults, 1, kMostResults));
  m.keys.set_float("vision.attention.layer_norm_epsilon", m.config.get_float("rms_norm_eps", 1e-6));
  m.keys.set_int("vision.projector.scale_factor",
                 m.config.get_int("pooling_kernel_size", 3, 1, 64));
  const std::string tower = "vision_tower.";
  m.pixel_patches(tower + "patch_embedder.input_proj");
  m.tensors.copy(tower + "patch_embedder.position_embedding_table", "v.position_embd.weight");
  const std::initializer_list<TensorName> products = {
      {"self_attn.q_proj", "attn_q"}, {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"}, {"self_attn.o_proj", "attn_out"},
      {"mlp.gate_proj", "ffn_gate"},  {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  for (int64_t layer = 0; layer < m.layer_count(); ++layer) {
    for (const TensorName& product : products) {
      const std::string from =
          tower + "encoder.layers." + std::to_string(layer) + "." + product.from + ".";
      const std::string to = vision_name(layer, product.to) + ".";
      m.tensors.copy(from + "linear.weight", to + "weight");
      for (const char* bound : {"input_min", "input_max", "output_min", "output_max"}) {
        m.tensors.copy(from + bound, to + bound);
      }
    }
  }
  m.layers(tower + "encoder.layers.", {{"input_layernorm", "ln1"},
                                       {"pre_feedforward_layernorm", "ln2"},
                                       {"post_attention_layernorm", "attn_post_norm"},
                                       {"post_feedforward_layernorm", "ffn_post_norm"},
                                       {"self_attn.q_norm", "attn_q_norm"},
                                       {"self_attn.k_norm", "attn_k_norm"}});
  m.tensors.copy(tower + "std_bias", "v.std_bias");
  m.tensors.copy(tower + "std_scale", "v.std_scale");
  m.tensor("embed_vision.embedding_projection", "mm.input_projection");
}

}  // namespace

const TowerDef& gemma4_tower() {
  static constexpr const char* kProjectors[] = {"gemma4v"};
  static constexpr const char* kCheckpoints[] = {"Gemma4ForConditionalGeneration"};
  static const TowerDef def{kProjectors, create_tower<Gemma4>, kCheckpoints, map};
  return def;
}

}  // namespace infer
