#include "engine/model/hparams.h"

#include <algorithm>

#include "engine/core/file.h"
#include "engine/core/portable_math.h"

namespace infer {
namespace {

constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 4096;

}  // namespace

HparamReader::HparamReader(const WeightSource& source, Part part, int64_t head)
    : source_(source), part_(part), head_(head) {
  Result<std::optional<std::string>> name = metadata().get_string("general.architecture");
  if (!name) {
    set_error(std::move(name).error());
  } else if (name->has_value()) {
    architecture_ = **name;
  }
  prefix_ = architecture_ + ".";
}

void HparamReader::set_error(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

bool HparamReader::has(const std::string& key) const { return metadata().has(prefix_ + key); }

template <typename T>
T HparamReader::take(Result<std::optional<T>> found, const std::string& key, const T* absent) {
  if (!found) {
    set_error(std::move(found).error());
  } else if (found->has_value()) {
    return std::move(**found);
  } else if (absent == nullptr) {
    set_error(
        error(StatusCode::bad_file, "{}: key '{}' is missing", metadata().source(), prefix_ + key));
  }
  return absent == nullptr ? T() : *absent;
}

int64_t HparamReader::need_int(const std::string& key, int64_t min, int64_t max) {
  const int64_t value = take<int64_t>(metadata().get_int(prefix_ + key, min, max), key, nullptr);
  return std::max(value, min);  // in range even after a failure
}

int64_t HparamReader::get_int(const std::string& key, int64_t absent, int64_t min, int64_t max) {
  return take(metadata().get_int(prefix_ + key, min, max), key, &absent);
}

double HparamReader::get_float(const std::string& key, double absent) {
  return take(metadata().get_float(prefix_ + key), key, &absent);
}

bool HparamReader::get_bool(const std::string& key, bool absent) {
  return take(metadata().get_bool(prefix_ + key), key, &absent);
}

std::string HparamReader::get_string(const std::string& key, const std::string& absent) {
  return take(metadata().get_string(prefix_ + key), key, &absent);
}

std::vector<int64_t> HparamReader::per_layer(const std::string& key, int64_t layers, int64_t absent,
                                             int64_t min, int64_t max) {
  const std::vector<int64_t> none{absent};
  std::vector<int64_t> values = take(metadata().get_ints(prefix_ + key, min, max), key, &none);
  if (values.size() == 1) values.assign(static_cast<size_t>(layers), values[0]);
  if (values.size() != static_cast<size_t>(layers)) {
    set_error(error(StatusCode::bad_file, "{}: key '{}': expected {} values, found {}",
                    metadata().source(), prefix_ + key, layers, values.size()));
    values.assign(static_cast<size_t>(layers), std::max(absent, min));
  }
  return values;
}

std::vector<float> HparamReader::limits(const std::string& key, int64_t layers) {
  const auto count = static_cast<size_t>(layers);
  auto found = metadata().get_floats(prefix_ + key);
  if (!found) set_error(found.error());
  if (!found || !*found) return std::vector<float>(count, 0.0f);
  std::vector<float>& limits = **found;
  if (limits.size() == 1) limits.assign(count, limits[0]);
  // Files may leave out those of layers that predict further tokens, which then have none.
  const size_t left_out = part_ == Part::head ? 1 : 0;
  const bool fit = limits.size() + left_out >= count &&
                   std::ranges::all_of(limits, [](float x) { return x >= 0 && x < 1e6f; });
  if (!fit) {
    set_error(error(StatusCode::bad_file, "{}: key '{}': expected {} numbers from 0 on",
                    metadata().source(), prefix_ + key, layers));
  }
  limits.resize(count, 0.0f);
  return std::move(limits);
}

std::vector<bool> HparamReader::flags(const std::string& key, int64_t layers) {
  const MetaValue* value = metadata().find(prefix_ + key);
  const auto* found = value == nullptr ? nullptr : std::get_if<std::vector<bool>>(value);
  if (found == nullptr) return {};
  if (found->size() < static_cast<size_t>(layers)) {
    set_error(error(StatusCode::bad_file, "{}: key '{}': expected {} values, found {}",
                    metadata().source(), prefix_ + key, layers, found->size()));
    return std::vector<bool>(static_cast<size_t>(layers), false);
  }
  return *found;
}

std::vector<bool> HparamReader::sliding_layers(int64_t layers, int64_t absent) {
  const std::string key = "attention.sliding_window_pattern";
  std::vector<bool> sliding = flags(key, layers);
  if (!sliding.empty()) return sliding;
  const int64_t period = get_int(key, absent, 0, INT32_MAX);
  for (int64_t i = 0; i < layers; ++i) sliding.push_back(period > 1 && i % period < period - 1);
  return sliding;
}

float HparamReader::epsilon(const std::string& key) {
  const double eps = get_float(key, 1e-5);
  if (!(eps >= 0 && eps < 1)) {
    set_error(error(StatusCode::bad_file, "{}: {}: expected 0 to 1, found {}", metadata().source(),
                    key, eps));
  }
  return static_cast<float>(eps);
}

DecoderParams read_decoder_params(HparamReader& r, bool recurrent) {
  DecoderParams p;
  // The last blocks may predict further tokens; they are no part of the decoder.
  const int64_t blocks = r.need_int("block_count", 1, kMaxLayers);
  p.layers = blocks;
  if (r.part() != HparamReader::Part::draft) {
    p.layers -= r.get_int("nextn_predict_layers", 0, 0, blocks - 1);
  }
  if (r.part() == HparamReader::Part::head && p.layers + r.head() < blocks) {
    p.first_layer = p.layers + r.head();
    p.layers = p.first_layer + 1;
  }
  p.embedding = r.need_int("embedding_length", 1, kMaxWidth);
  p.context = r.get_int("context_length", 2048, 1, int64_t{1} << 31);
  if (!r.has("attention.head_count")) r.need_int("attention.head_count", 1, kMaxHeads);
  // Models without attention have 0.
  p.layer_heads = r.per_layer("attention.head_count", blocks, 1, recurrent ? 0 : 1, kMaxHeads);
  for (int64_t& heads : p.layer_heads) heads = std::max<int64_t>(heads, 1);
  p.layer_heads.resize(static_cast<size_t>(p.layers));
  p.heads = p.layer_heads.front();
  if (!r.has("attention.key_length") && p.embedding % p.heads != 0) {
    r.set_error(error(StatusCode::bad_file, "{}: {} heads do not divide a width of {}",
                      r.metadata().source(), p.heads, p.embedding));
  }
  p.head_dim =
      r.get_int("attention.key_length", std::max<int64_t>(1, p.embedding / p.heads), 1, kMaxWidth);
  p.value_dim = r.get_int("attention.value_length", p.head_dim, 1, kMaxWidth);
  p.kv_heads =
      r.per_layer("attention.head_count_kv", blocks, p.heads, recurrent ? 0 : 1, kMaxHeads);
  p.kv_heads.resize(static_cast<size_t>(p.layers));
  for (size_t layer = 0; layer < p.kv_heads.size(); ++layer) {
    const int64_t kv = p.kv_heads[layer];
    if (kv > 0 && p.layer_heads[layer] % kv != 0) {
      r.set_error(error(StatusCode::bad_file, "{}: {} key-value heads do not divide {} heads",
                        r.metadata().source(), kv, p.layer_heads[layer]));
    }
  }
  p.feed_forward = r.per_layer("feed_forward_length", blocks, 0, 0, kMaxWidth);
  p.feed_forward.resize(static_cast<size_t>(p.layers));
  p.eps = r.epsilon("attention.layer_norm_rms_epsilon");
  p.experts = r.get_int("expert_count", 0, 0, 65536);
  p.experts_used = r.get_int("expert_used_count", 0, 0, std::max<int64_t>(p.experts, 0));
  if (p.experts > 0 && p.experts_used == 0) {
    r.set_error(error(StatusCode::bad_file, "{}: {} experts but none used for a token",
                      r.metadata().source(), p.experts));
  }
  if (r.part() == HparamReader::Part::draft) return p;
  const Weight* table = r.source().find("token_embd.weight");
  if (table == nullptr) {
    r.set_error(error(StatusCode::bad_file, "{}: tensor 'token_embd.weight' is missing",
                      r.metadata().source()));
  } else {
    p.vocabulary = table->desc.shape[1];
    const auto tokens = static_cast<int64_t>(r.source().tokenizer().tokens.size());
    if (tokens > p.vocabulary) {
      r.set_error(error(StatusCode::bad_file,
                        "{}: tensor 'token_embd.weight': expected rows for {} tokens, found {}",
                        r.metadata().source(), tokens, p.vocabulary));
    }
  }
  return p;
}

double read_rope_base(HparamReader& r, double absent) {
  const double base = r.get_float("rope.freq_base", absent);
  if (base > 1 && std::isfinite(base)) return base;
  r.set_error(error(StatusCode::bad_file, "{}: rope.freq_base: expected more than 1, found {}",
                    r.metadata().source(), base));
  return absent;
}

RopeSpec read_rope(HparamReader& r, int64_t head_dim, double default_base) {
  RopeSpec spec;
  const int64_t dims = r.get_int("rope.dimension_count", head_dim, 2, head_dim);
  if (dims % 2 != 0) {
    r.set_error(error(StatusCode::bad_file,
                      "{}: rope.dimension_count: expected an even number, found {}",
                      r.metadata().source(), dims));
  }
  spec.pairs = static_cast<int32_t>(dims / 2);
  spec.base = read_rope_base(r, default_base);
  // Files older than the scaling keys give the linear factor alone.
  const double factor = r.get_float("rope.scaling.factor", r.get_float("rope.scale_linear", 1.0));
  const std::string type = r.get_string("rope.scaling.type", factor != 1.0 ? "linear" : "none");
  if (!(factor > 0)) {
    r.set_error(error(StatusCode::bad_file,
                      "{}: rope.scaling.factor: expected more than 0, found {}",
                      r.metadata().source(), factor));
    return spec;
  }
  if (type == "linear" || type == "yarn") {
    spec.position_scale = 1.0 / factor;
  } else if (type == "longrope" ? factor != 1.0 : type != "none") {
    // LongRoPE's factors are tensors.
    r.set_error(
        error(StatusCode::unsupported,
              "{}: rope.scaling.type '{}'{} is not supported; supported: none, linear, yarn, "
              "longrope without a factor",
              r.metadata().source(), printable(type),
              type == "longrope" ? " with rope.scaling.factor" : ""));
  }
  spec.magnitude = r.get_float("rope.scaling.attn_factor", 1.0);
  if (type == "yarn") {
    spec.yarn = true;
    spec.original_context = static_cast<double>(
        r.get_int("rope.scaling.original_context_length",
                  r.get_int("context_length", 2048, 1, int64_t{1} << 31), 1, int64_t{1} << 31));
    spec.beta_fast = r.get_float("rope.scaling.yarn_beta_fast", 32.0);
    spec.beta_slow = r.get_float("rope.scaling.yarn_beta_slow", 1.0);
    spec.extrapolation = r.get_float("rope.scaling.yarn_ext_factor", 1.0);
    if (spec.extrapolation < 0) spec.extrapolation = 1.0;  // how files say "as usual"
    // The converter writes transformers' attention_factor as yarn_attn_factor: the whole magnitude,
    // in place of the paper's (OLMo 3 gives the paper's value itself). The multiplier is
    // mscale_all_dim, by which scores are scaled elsewhere, with an mscale of 1.
    const double multiplier = r.get_float("rope.scaling.yarn_log_multiplier", 0.0);
    const double stretched = std::max(0.0, 0.1 * portable::log(factor));
    spec.magnitude *= r.get_float("rope.scaling.yarn_attn_factor",
                                  (1.0 + stretched) / (1.0 + multiplier * stretched));
  }
  return spec;
}

void read_axes(HparamReader& r, RopeSpec& spec, bool interleaved) {
  const std::string key = r.architecture() + ".rope.dimension_sections";
  const auto sections = r.metadata().get_ints(key, 0, 1 << 20);
  if (!sections) return r.set_error(sections.error());
  if (!*sections) return;
  const std::vector<int64_t>& pairs = **sections;
  if (std::ranges::count(pairs, 0) == std::ssize(pairs)) return;
  if (pairs.size() < 3) {
    return r.set_error(error(StatusCode::bad_file, "{}: {}: expected at least 3 numbers, found {}",
                             r.metadata().source(), key, pairs.size()));
  }
  for (int32_t i = 0; i < spec.pairs; ++i) {
    uint8_t axis = 0;
    if (interleaved) {
      const auto turn = static_cast<uint8_t>(i % 3);
      if (turn > 0 && i < 3 * pairs[turn]) axis = turn;
    } else {
      if (i >= pairs[0]) axis = 1;
      if (i >= pairs[0] + pairs[1]) axis = 2;
    }
    spec.of_pairs.push_back({axis, static_cast<double>(i) / spec.pairs});
  }
}

op::MoeRoute read_route(HparamReader& r, const DecoderParams& p, int64_t absent, bool normalise) {
  op::MoeRoute route;
  route.used = static_cast<int32_t>(p.experts_used);
  int64_t gating = r.get_int("expert_gating_func", absent, 0, 4);
  if (gating == 0) gating = absent;  // how files say nothing
  using Gating = op::MoeRoute::Gating;
  route.gating = gating == 2   ? Gating::sigmoid
                 : gating == 3 ? Gating::softmax_of_chosen
                 : gating == 4 ? Gating::sqrt_softplus
                               : Gating::softmax;
  route.normalise = r.get_bool("expert_weights_norm", normalise);
  route.scale = static_cast<float>(r.get_float("expert_weights_scale", 1.0));
  if (route.scale == 0.0f) route.scale = 1.0f;  // how files say "none"
  const int64_t groups = std::max<int64_t>(1, r.get_int("expert_group_count", 1, 0, 65536));
  const int64_t groups_used =
      std::max<int64_t>(1, r.get_int("expert_group_used_count", groups, 0, groups));
  if (p.experts % groups != 0 || p.experts_used > p.experts / groups * groups_used) {
    r.set_error(error(StatusCode::bad_file,
                      "{}: {} of {} experts cannot be chosen from {} of {} groups",
                      r.metadata().source(), p.experts_used, p.experts, groups_used, groups));
  }
  route.groups = static_cast<int32_t>(groups);
  route.groups_used = static_cast<int32_t>(groups_used);
  return route;
}

int32_t weight_index(const WeightSource& source, std::string_view name) {
  const Weight* weight = source.find(name);
  return weight == nullptr ? -1 : static_cast<int32_t>(weight - source.weights().data());
}

ModelInfo decoder_info(const HparamReader& reader, const DecoderParams& p) {
  ModelInfo info;
  info.architecture = reader.architecture();
  info.vocabulary = p.vocabulary;
  info.context = p.context;
  info.embedding = p.embedding;
  info.layers = p.layers;
  for (auto layer = static_cast<size_t>(p.first_layer); layer < p.kv_heads.size(); ++layer) {
    if (p.kv_heads[layer] == 0) continue;
    KvLayerShape shape{static_cast<int32_t>(p.kv_heads[layer]), static_cast<int32_t>(p.head_dim),
                       static_cast<int32_t>(p.value_dim)};
    shape.layer = static_cast<int32_t>(layer);
    info.kv_layers.push_back(shape);
  }
  return info;
}

}  // namespace infer
