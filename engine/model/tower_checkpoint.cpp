#include "engine/model/tower_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/core/file.h"
#include "engine/model/mapped_source.h"
#include "engine/model/tower.h"

namespace infer {
namespace {

constexpr int64_t kMostTowerCount = int64_t{1} << 20;
/// What the names of a tower's tensors begin with.
constexpr std::initializer_list<const char*> kParts = {
    "visual.",    "vision_tower.", "multi_modal_projector.", "embed_vision.", "vision_model.",
    "connector.", "mlp1.",         "image_newline",          "mm_projector.", "mlp_AR.",
    "merger."};
constexpr const char* kRoot = "model.";

std::string root_of(const WeightSource& raw) {
  const bool below = std::ranges::any_of(raw.weights(), [](const Weight& weight) {
    return std::ranges::any_of(
        kParts, [&](const std::string part) { return weight.name.starts_with(kRoot + part); });
  });
  return below ? kRoot : "";
}

}  // namespace

TowerMap::TowerMap(const WeightSource& raw)
    : config(raw.metadata(), "vision_config"),
      keys(raw.metadata().source()),
      tensors(raw, config, root_of(raw)) {}

bool TowerMap::is(const char* architecture) const {
  const auto classes = config.values().get_strings("hf.config.architectures");
  return classes && *classes != nullptr && !(*classes)->empty() &&
         (*classes)->front() == architecture;
}

std::string TowerMap::processor_key(const std::string& key) const {
  for (const char* file : {"hf.preprocessor_config.", "hf.processor_config.image_processor."}) {
    if (config.values().has(file + key)) return file + key;
  }
  return {};
}

const MetaValue* TowerMap::processor(const std::string& key) const {
  return config.values().find(processor_key(key));
}

int64_t TowerMap::processor_int(const std::string& key, int64_t absent, int64_t min, int64_t max) {
  const std::string found = processor_key(key);
  return found.empty() ? absent : config.take(config.values().get_int(found, min, max), absent);
}

double TowerMap::processor_float(const std::string& key, double absent) {
  const std::string found = processor_key(key);
  return found.empty() ? absent : config.take(config.values().get_float(found), absent);
}

bool TowerMap::processor_bool(const std::string& key, bool absent) {
  const std::string found = processor_key(key);
  return found.empty() ? absent : config.take(config.values().get_bool(found), absent);
}

void TowerMap::require_processor(const std::string& key, int64_t expected) {
  const int64_t found = processor_int(key, expected, 1, kMostTowerCount);
  config.require(found == expected, fmt::format("{} {} in place of {}", key, found, expected));
}

void TowerMap::require_processing(int64_t filter, bool normalised) {
  for (const auto& [key, expected] : {std::pair{"do_resize", true},
                                      {"do_rescale", true},
                                      {"do_normalize", normalised},
                                      {"do_pan_and_scan", false}}) {
    const bool found = processor_bool(key, expected);
    config.require(found == expected, fmt::format("{} {}", key, found));
  }
  const double factor = processor_float("rescale_factor", 1.0 / 255);
  config.require(std::abs(factor * 255 - 1) < 1e-6, fmt::format("rescale_factor {}", factor));
  const int64_t resample = processor_int("resample", filter, 0, 5);
  config.require(resample == filter, fmt::format("resample {}", resample));
}

int64_t TowerMap::whole_int(const std::string& key, int64_t absent, int64_t min, int64_t max) {
  return config.take(config.values().get_int("hf.config." + key, min, max), absent);
}

bool TowerMap::whole_bool(const std::string& key, bool absent) {
  return config.take(config.values().get_bool("hf.config." + key), absent);
}

double TowerMap::whole_float(const std::string& key, double absent) {
  return config.take(config.values().get_float("hf.config." + key), absent);
}

std::string TowerMap::whole_string(const std::string& key, const std::string& absent) {
  return config.take(config.values().get_string("hf.config." + key), absent);
}

void TowerMap::begin(const TowerFamily& family) {
  keys.set_architecture("clip");
  keys.set_string("projector_type", family.projector);
  keys.set_bool("has_vision_encoder", true);
  if (*family.activation != 0) {
    const std::string activation = config.get_string("hidden_act", family.activation);
    config.require(activation == family.activation,
                   "the tower's hidden_act '" + printable(activation) + "'");
  }
  layers_ = config.need_int(family.layers, 1, 1024);
  width_ = config.need_int(family.width, 1, kMostTowerCount);
  patch_ = config.need_int("patch_size", 1, 256);
  const int64_t ratio = config.get_int("mlp_ratio", 4, 1, 64);
  keys.set_int("vision.block_count", layers_);
  keys.set_int("vision.embedding_length", width_);
  keys.set_int("vision.feed_forward_length",
               config.get_int("intermediate_size", ratio * width_, 1, kMostTowerCount));
  keys.set_int("vision.attention.head_count", config.need_int(family.heads, 1, 4096));
  keys.set_int("vision.patch_size", patch_);
  const int64_t text = whole_int("hidden_size", 0, 1, kMostTowerCount);
  keys.set_int("vision.projection_dim",
               whole_int("text_config.hidden_size", text, 1, kMostTowerCount));

  using Values = std::vector<double>;
  const Values clip_mean{0.48145466, 0.4578275, 0.40821073};
  const Values clip_deviation{0.26862954, 0.26130258, 0.27577711};
  const Values mean{0.485, 0.456, 0.406}, deviation{0.229, 0.224, 0.225};
  for (const auto& [key, clip, imagenet] :
       {std::tuple{"image_mean", clip_mean, mean}, {"image_std", clip_deviation, deviation}}) {
    const std::string to = std::string("clip.vision.") + key;
    if (const MetaValue* value = processor(key); value != nullptr) {
      keys.set_whole(to, *value);
    } else if (family.colours != TowerColours::half) {
      keys.set_whole(to, family.colours == TowerColours::clip ? clip : imagenet);
    }
  }
}

void TowerMap::select_layers(const std::string& key, int64_t absent, const std::string& prefix) {
  const int64_t stored = layers_;
  const int64_t selected = whole_int(key, absent, -1024, 1024);
  const int64_t used = selected < 0 ? stored + 1 + selected : selected;
  config.require(used >= 1 && used <= stored, fmt::format("{} {}", key, selected));
  layers_ = std::clamp<int64_t>(used, 1, stored);
  keys.set_int("vision.block_count", layers_);
  for (int64_t layer = layers_; layer < stored; ++layer) {
    tensors.ignore_prefix(fmt::format("{}{}.", prefix, layer));
  }
}

void TowerMap::pixel_limits(int64_t frames) {
  for (const auto& [to, own, general] : {std::tuple{"min_pixels", "min_pixels", "shortest_edge"},
                                         {"max_pixels", "max_pixels", "longest_edge"}}) {
    const MetaValue* value = processor(own);
    if (value == nullptr) value = processor(std::string("size.") + general);
    if (value == nullptr) continue;
    const std::string key = std::string("clip.vision.image_") + to;
    const auto* pixels = std::get_if<int64_t>(value);
    keys.set_whole(key, pixels == nullptr ? *value : MetaValue(*pixels / frames));
  }
}

void TowerMap::layers(const std::string& prefix, std::initializer_list<TensorName> names) {
  for (int64_t i = 0; i < layers_; ++i) {
    for (const TensorName& name : names) {
      const std::string from = prefix + std::to_string(i) + "." + name.from;
      const std::string to = fmt::format("v.blk.{}.{}", i, name.to);
      tensors.copy(from + ".weight", to + ".weight", name.change);
      tensors.copy(from + ".bias", to + ".bias", name.change);
    }
  }
}

void TowerMap::siglip_layers(const std::string& prefix) {
  layers(prefix, {{"layer_norm1", "ln1"},
                  {"layer_norm2", "ln2"},
                  {"self_attn.q_proj", "attn_q"},
                  {"self_attn.k_proj", "attn_k"},
                  {"self_attn.v_proj", "attn_v"},
                  {"self_attn.out_proj", "attn_out"},
                  {"mlp.fc1", "ffn_up"},
                  {"mlp.fc2", "ffn_down"}});
}

void TowerMap::tensor(const std::string& from, const std::string& to) {
  tensors.copy(from + ".weight", to + ".weight");
  tensors.copy(from + ".bias", to + ".bias");
}

void TowerMap::patches(const std::string& name, int64_t frames) {
  constexpr int64_t kColours = 3;
  const int64_t area = patch_ * patch_;
  const TensorView all = tensors.view(name + ".weight", {area, frames, kColours, width_});
  for (int64_t frame = 0; frame < frames && tensors.ok(); ++frame) {
    const std::string to = frame == 0 ? "v.patch_embd" : fmt::format("v.patch_embd_{}", frame);
    tensors.put_parts(to + ".weight", {all.sliced(1, frame, 1)}, {kColours * area, width_});
  }
  tensors.copy(name + ".bias", "v.patch_embd.bias");
}

void TowerMap::pixel_patches(const std::string& name) {
  constexpr int64_t kColours = 3;
  const int64_t area = patch_ * patch_;
  const TensorView all = tensors.view(name + ".weight", {kColours, area, width_});
  tensors.put_parts("v.patch_embd.weight", {all.swapped(0, 1)}, {kColours * area, width_});
  tensors.copy(name + ".bias", "v.patch_embd.bias");
}

Result<std::unique_ptr<WeightSource>> TowerMap::result(std::unique_ptr<WeightSource> raw) {
  tensors.require_used(kParts);
  keys.add_general(tensors.elements());
  if (!config.status().ok()) return tl::unexpected(config.status());
  return std::make_unique<MappedSource>(std::move(raw), keys.take(), TokenizerSpec(),
                                        tensors.take());
}

Result<std::unique_ptr<WeightSource>> map_tower(std::unique_ptr<WeightSource> raw) {
  const std::string& source = raw->metadata().source();
  INFER_TRY(const std::vector<std::string>* classes,
            raw->metadata().get_strings("hf.config.architectures"));
  const std::string name = classes == nullptr || classes->empty() ? "" : classes->front();
  INFER_TRY(const std::optional<std::string> type,
            raw->metadata().get_string("hf.config.vision_config.model_type"));
  std::string known;
  const TowerDef* found = nullptr;
  for (const TowerDef* tower : all_towers()) {
    for (const char* candidate : tower->checkpoints) {
      known += (known.empty() ? "" : ", ") + std::string(candidate);
      if (name != candidate) continue;
      const bool other = tower->type == nullptr && found == nullptr;
      if (other || (tower->type != nullptr && type == tower->type)) found = tower;
    }
  }
  if (found != nullptr) {
    TowerMap map(*raw);
    found->map(map);
    return map.result(std::move(raw));
  }
  return fail(
      StatusCode::unsupported,
      "{}: config.json: architecture '{}': no vision tower of it is supported; supported: {}",
      source, printable(name), known);
}

}  // namespace infer
