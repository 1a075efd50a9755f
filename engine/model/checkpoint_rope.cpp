#include "engine/model/checkpoint_rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/core/file.h"
#include "engine/core/log.h"
#include "engine/core/portable_math.h"

namespace infer {
namespace {

/// Magnitude of YaRN with a multiplier (Peng et al. 2023, section 3.4; DeepSeek-AI 2024).
double yarn_magnitude(double factor, double multiplier) {
  return factor <= 1 ? 1.0 : 0.1 * multiplier * portable::log(factor) + 1.0;
}

void yarn(CheckpointMap& m, const Family& family, const std::string& section, double factor) {
  m.keys.set_string("rope.scaling.type", "yarn");
  m.keys.set_float("rope.scaling.factor", factor);
  const int64_t context = m.config.get_int("max_position_embeddings", 1, 1, kMaxContext);
  m.keys.set_int("rope.scaling.original_context_length",
                 m.config.get_int(
                     section + "original_max_position_embeddings",
                     m.config.get_int("original_max_position_embeddings", context, 1, kMaxContext),
                     1, kMaxContext));
  m.keys.set_float("rope.scaling.yarn_beta_fast", m.config.get_float(section + "beta_fast", 32.0));
  m.keys.set_float("rope.scaling.yarn_beta_slow", m.config.get_float(section + "beta_slow", 1.0));
  m.config.require(m.config.get_bool(section + "truncate", true) == family.yarn_rounding,
                   "YaRN with this 'truncate'");
  const double scale = m.config.get_float(section + "mscale", 0.0);
  const double scale_all = m.config.get_float(section + "mscale_all_dim", 0.0);
  if (m.config.has(section + "attention_factor")) {
    m.keys.set_float("rope.scaling.yarn_attn_factor",
                     m.config.get_float(section + "attention_factor", 1.0));
  } else if (scale != 0 && scale_all != 0 && !family.yarn_on_scores) {
    m.keys.set_float("rope.scaling.yarn_attn_factor",
                     yarn_magnitude(factor, scale) / yarn_magnitude(factor, scale_all));
  }
}

/// Frequencies whose waves are longer than the original context are slowed by the factor, short
/// ones are kept, and those between are blended (Dubey et al. 2024).
/// `written`: pairs that factors are written for, at least those of the dims.
void llama3_factors(CheckpointMap& m, const std::string& section, double base, int64_t dims,
                    int64_t written) {
  const double factor = m.config.get_float(section + "factor", 8.0);
  const double low = m.config.get_float(section + "low_freq_factor", 1.0);
  const double high = m.config.get_float(section + "high_freq_factor", 4.0);
  const auto context = static_cast<double>(
      m.config.get_int(section + "original_max_position_embeddings", 8192, 1, kMaxContext));
  if (!(high >= low)) {
    m.config.fail_with(
        error(StatusCode::bad_file,
              "{}: {}high_freq_factor: expected at least low_freq_factor, {}, found {}",
              m.config.source(), section, low, high));
    return;
  }
  std::vector<float> factors;
  for (int64_t i = 0; i < dims / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(dims);
    const double wave = 2 * std::numbers::pi * portable::pow(base, exponent);
    const double turns = context / wave;
    // Llama 4 has the same factor twice: nothing is blended.
    const double kept = high > low ? std::clamp((turns - low) / (high - low), 0.0, 1.0)
                                   : static_cast<double>(turns > high);
    factors.push_back(static_cast<float>(1 / ((1 - kept) / factor + kept)));
  }
  factors.resize(static_cast<size_t>(written), 1.0f);
  m.tensors.put_values("rope_freqs.weight", std::move(factors));
}

}  // namespace

/// Where the parameters of RoPE lie: in transformers 5 with the base, by the kind of layer where
/// there are several; before, those of scaling alone. Where users add the latter to a file of
/// transformers 5, as model cards tell them to, it replaces what else says of scaling.
std::string rope_section(const CheckpointConfig& config) {
  for (const char* section :
       {"rope_scaling.", "rope_parameters.full_attention.", "rope_parameters."}) {
    const std::string begin = config.prefix() + section;
    const auto& values = config.values().values();
    const auto it = values.lower_bound(begin);
    if (it != values.end() && it->first.starts_with(begin)) return section;
  }
  return "rope_scaling.";
}

void require_plain_rope(CheckpointMap& m) {
  const std::string section = rope_section(m.config);
  const std::string type =
      m.config.get_string(section + "rope_type", m.config.get_string(section + "type", "default"));
  m.config.require(type == "default", "RoPE scaling");
}

int64_t map_rope(CheckpointMap& m, const Family& family, int64_t head_dim) {
  const std::string section = rope_section(m.config);
  const auto parameter = [&](const std::string& name, double absent) {
    for (const std::string& from : {section, std::string("rope_parameters.full_attention."),
                                    std::string("rope_parameters."), std::string()}) {
      if (m.config.has(from + name)) return m.config.get_float(from + name, absent);
    }
    return absent;
  };
  const double base = parameter("rope_theta", family.rope_base);
  const double share = parameter("partial_rotary_factor", 1.0);
  if (!(share > 0 && share <= 1)) {
    m.config.fail_with(error(StatusCode::bad_file,
                             "{}: partial_rotary_factor: expected 0 to 1, found {}",
                             m.config.source(), share));
    return 0;
  }
  const std::string type =
      m.config.get_string(section + "rope_type", m.config.get_string(section + "type", "default"));
  const bool proportional = type == "proportional";
  const auto rotated = static_cast<int64_t>(static_cast<double>(head_dim) * share);
  const int64_t dims = proportional ? head_dim : rotated;
  m.keys.set_float("rope.freq_base", base);
  const int64_t written = family.rope_of_whole_head ? head_dim : dims;
  m.keys.set_int("rope.dimension_count", written);
  const double factor = m.config.get_float(section + "factor", 1.0);
  if (!(factor > 0)) {
    m.config.fail_with(error(StatusCode::bad_file, "{}: {}factor: expected more than 0, found {}",
                             m.config.source(), section, factor));
    return 0;
  }
  // Layers with a window have the plain form.
  const std::string local =
      m.config.get_string("rope_parameters.sliding_attention.rope_type", "default");
  m.config.require(local == "default", "RoPE scaling in sliding_attention");
  if (type == "linear") {
    m.keys.set_string("rope.scaling.type", "linear");
    m.keys.set_float("rope.scaling.factor", factor);
  } else if (type == "yarn") {
    yarn(m, family, section, factor);
  } else if (proportional) {
    // Frequencies are those of the whole head; pairs beyond the share stand still.
    constexpr float kStill = 1e30f;
    std::vector<float> factors(static_cast<size_t>(dims / 2), kStill);
    std::fill_n(factors.begin(), rotated / 2, static_cast<float>(factor));
    m.tensors.put_values("rope_freqs.weight", std::move(factors));
  } else if (type == "llama3") {
    llama3_factors(m, section, base, dims, written / 2);
  } else {
    // "dynamic" begins beyond the context that the model was trained for, which is the one written.
    if (type == "dynamic") {
      log(LogLevel::warning,
          "{}: RoPE scaling 'dynamic' is not applied: texts of more than {} tokens make little "
          "sense",
          m.config.source(), m.config.get_int("max_position_embeddings", 0, 0, kMaxContext));
    }
    // "mrope" rotates parts of a head by three positions, which are one for texts (Wang et al.
    // 2024).
    const bool long_short = family.long_rope && (type == "longrope" || type == "su");
    m.config.require(type == "default" || type == "dynamic" || type == "mrope" || long_short,
                     fmt::format("RoPE scaling '{}'", printable(type)));
  }
  return dims / 2;
}

void map_window_rope(CheckpointMap& m, int64_t head_dim) {
  const std::string section = "rope_parameters.sliding_attention.";
  m.keys.set_float("rope.freq_base_swa", m.config.get_float(section + "rope_theta", 10000.0));
  const double share = m.config.get_float(section + "partial_rotary_factor", 1.0);
  m.config.require(share > 0 && share <= 1, "this partial_rotary_factor of sliding_attention");
  m.keys.set_int("rope.dimension_count_swa",
                 static_cast<int64_t>(static_cast<double>(head_dim) * share));
}

bool map_long_rope(CheckpointMap& m) {
  const std::string section = rope_section(m.config);
  const std::string type =
      m.config.get_string(section + "rope_type", m.config.get_string(section + "type", "default"));
  if (type != "longrope" && type != "su") return false;
  const int64_t context = m.config.need_int("max_position_embeddings", 1, INT32_MAX);
  const int64_t original = m.config.get_int(
      "original_max_position_embeddings",
      m.config.get_int(section + "original_max_position_embeddings", context, 1, INT32_MAX), 1,
      INT32_MAX);
  // cos and sin grow with the stretch of the context, as the paper found best.
  const double stretch = m.config.get_float(
      section + "factor", static_cast<double>(context) / static_cast<double>(original));
  const double magnitude =
      stretch <= 1 ? 1.0
                   : std::sqrt(1 + std::log(stretch) / std::log(static_cast<double>(original)));
  m.keys.set_int("rope.scaling.original_context_length", original);
  m.keys.set_float("rope.scaling.attn_factor",
                   m.config.get_float(section + "attention_factor", magnitude));
  for (const char* which : {"long", "short"}) {
    std::vector<float> factors = m.config.get_floats(section + which + "_factor");
    if (static_cast<int64_t>(factors.size()) != m.rope_pairs()) {
      m.config.fail_with(error(StatusCode::bad_file,
                               "{}: {}{}_factor: expected {} numbers, found {}", m.config.source(),
                               section, which, m.rope_pairs(), factors.size()));
    }
    m.tensors.put_values(std::string("rope_factors_") + which + ".weight", std::move(factors));
  }
  return true;
}

void map_axes(CheckpointMap& m, std::vector<int64_t> absent) {
  std::vector<int64_t> sections = m.config.get_ints(rope_section(m.config) + "mrope_section");
  if (sections.empty()) sections = std::move(absent);
  sections.resize(4, 0);
  m.keys.set_ints("rope.dimension_sections", sections);
}

}  // namespace infer
