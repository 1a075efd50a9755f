#include "engine/session/unused_weights.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/core/log.h"
#include "engine/plan/planner.h"

namespace infer {
namespace {

/// Of a layer's weight, "blk.7.attn_q.weight".
std::optional<int64_t> layer_of(std::string_view name) {
  if (!name.starts_with("blk.")) return std::nullopt;
  int64_t layer = 0;
  const auto [end, failed] = std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  if (failed != std::errc{} || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return layer;
}

/// What files have beside what computes.
bool may_be_unused(std::string_view name, const ModelInfo& info, const WeightTable& weights) {
  constexpr std::string_view kTowers[] = {"v.", "a.", "mm."};
  if (std::ranges::any_of(kTowers,
                          [&](std::string_view tower) { return name.starts_with(tower); })) {
    return true;
  }
  // Activations are not rounded to the scale that NVFP4 and FP8 have for them; angles are computed.
  if (name.ends_with(".input_scale") || name.ends_with("rope_freqs.weight") ||
      name.ends_with(".rot_embd")) {
    return true;
  }
  // What makes logits or classes is not used for vectors.
  const auto layer = layer_of(name);
  if (!layer) return info.embeds.has_value();
  const std::string block = "blk." + std::to_string(*layer) + ".";
  if (info.architecture.starts_with("gemma3n") || info.architecture.starts_with("gemma4")) {
    // The scale is a constant of the graph. Layers that use the cache of another one have keys and
    // values.
    const std::string_view part = name.substr(block.size());
    if (part == "layer_output_scale.weight" || part.starts_with("attn_k") ||
        part.starts_with("attn_v")) {
      return true;
    }
  }
  // Both forms of one matrix.
  return name == block + "attn_kv_b.weight" && weights.index(block + "attn_k_b.weight") >= 0;
}

}  // namespace

Result<std::vector<bool>> weights_in_use(const Model& model, const WeightTable& weights) {
  INFER_TRY(const Graph graph,
            build_graph(model, weights, 1, 1, DType::f16, DType::f16, {}, {.adapters = true}));
  std::vector<bool> used(weights.source().weights().size(), false);
  for (const Value& value : graph.values()) {
    if (value.kind == Value::Kind::weight) used[static_cast<size_t>(value.index)] = true;
  }
  return used;
}

Status check_unused(const Model& model, const WeightTable& weights, size_t count) {
  const WeightSource& source = weights.source();
  const ModelInfo& info = model.info();
  Result<std::vector<bool>> built = weights_in_use(model, weights);
  if (!built) return {};
  std::vector<bool>& used = *built;
  if (info.ngrams) used[static_cast<size_t>(info.ngrams->table)] = true;
  for (const RopeSpec& rope : info.ropes) {  // angles are computed from them
    for (const int32_t factors : {rope.factors, rope.long_factors}) {
      if (factors >= 0) used[static_cast<size_t>(factors)] = true;
    }
  }
  const std::string key = info.architecture + ".block_count";
  const auto said = source.metadata().get_int(key, 0, INT64_MAX);
  const int64_t blocks = said && *said ? **said : INT64_MAX;
  size_t unused = 0;
  std::string_view first;
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = source.weights()[i].name;
    const auto layer = layer_of(name);
    const auto drafts = [&] {
      return weights.index("blk." + std::to_string(*layer) + ".nextn.eh_proj.weight") >= 0;
    };
    if (layer && *layer >= blocks && !drafts()) {
      return error(StatusCode::bad_file,
                   "{}: tensor '{}': the file has no such layer, since its key '{}' is {}",
                   source.metadata().source(), name, key, blocks);
    }
    if (used[i] || (layer && *layer >= info.layers) || may_be_unused(name, info, weights)) continue;
    if (unused++ == 0) first = name;
  }
  if (unused > 0) {
    log(LogLevel::warning,
        "{}: {} {} no place in a {} and {} not used, first '{}': the file may hold another model "
        "than its key "
        "'general.architecture' says",
        source.metadata().source(), unused, unused == 1 ? "tensor has" : "tensors have",
        info.architecture, unused == 1 ? "is" : "are", first);
  }
  return {};
}

}  // namespace infer
