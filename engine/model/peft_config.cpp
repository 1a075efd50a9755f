#include "engine/model/peft_config.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "engine/core/file.h"

namespace infer {
namespace {

/// Keys that make an adapter another kind of adapter, unless they are false or absent.
constexpr const char* kOtherKinds[] = {"use_dora", "use_qalora", "fan_in_fan_out", "lora_bias"};
/// The same of keys with any value.
constexpr const char* kOtherValues[] = {"alora_invocation_tokens", "layer_replication",
                                        "modules_to_save", "trainable_token_indices"};

/// Ways to begin a training (init_lora_weights) that subtract the first A and B from the model's
/// weights. PEFT subtracts them again when it loads the adapter.
constexpr const char* kChangeWeights[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};

std::string key(const std::string& name) { return kPeftConfig + name; }

Status refuse(const Metadata& metadata, const char* name) {
  return error(StatusCode::unsupported,
               "{}: adapter_config.json: {}: adapters of this kind are not supported",
               metadata.source(), name);
}

/// The end of a module's name that a pattern means, if it is one: "q_proj", or the regular
/// expression ".*\.q_proj".
std::optional<std::string> module_end(std::string_view pattern) {
  constexpr std::string_view kAny = ".*\\.";
  if (pattern.starts_with(kAny)) pattern.remove_prefix(kAny.size());
  std::string end;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern.substr(i).starts_with("\\.")) ++i;
    end += pattern[i];
  }
  if (end.find_first_of("\\^$*+?()[]{}|") != end.npos) return std::nullopt;
  return end;
}

/// A scale is computed in float32.
Status check_alpha(const Metadata& metadata, const std::string& at, double alpha) {
  if (std::abs(alpha) <= std::numeric_limits<float>::max()) return {};
  return error(StatusCode::bad_file, "{}: adapter_config.json: {}: expected a float32, found {}",
               metadata.source(), printable(at.substr(key("").size())), alpha);
}

Status check_beginning(const Metadata& metadata) {
  const std::string at = key("init_lora_weights");
  const auto found = metadata.values().find(at);
  if (found == metadata.values().end()) return {};
  const auto* const beginning = std::get_if<std::string>(&found->second);
  if (beginning == nullptr) return {};
  for (const char* name : kChangeWeights) {
    if (!beginning->starts_with(name)) continue;
    return error(StatusCode::unsupported,
                 "{}: adapter_config.json: init_lora_weights: '{}' changes the model's weights; "
                 "save the adapter as an ordinary one (PEFT: save_pretrained with "
                 "path_initial_model_for_weight_conversion)",
                 metadata.source(), printable(*beginning));
  }
  return {};
}

Status read_patterns(const Metadata& metadata, PeftConfig& config) {
  const std::string before = key("alpha_pattern.");
  for (auto it = metadata.values().lower_bound(before);
       it != metadata.values().end() && it->first.starts_with(before); ++it) {
    const std::string pattern = it->first.substr(before.size());
    const std::optional<std::string> end = module_end(pattern);
    if (!end) {
      return error(StatusCode::unsupported,
                   "{}: adapter_config.json: alpha_pattern '{}': expected the end of a module's "
                   "name; other regular expressions are not supported",
                   metadata.source(), printable(pattern));
    }
    INFER_TRY_S(const auto alpha, metadata.get_float(it->first));
    INFER_CHECK(check_alpha(metadata, it->first, alpha.value_or(0)));
    config.own.emplace_back(*end, alpha.value_or(0));
  }
  // PEFT takes the first in the file's order, which is not known here.
  for (const auto& [end, alpha] : config.own) {
    for (const auto& [longer, its] : config.own) {
      if (alpha == its || !longer.ends_with("." + end)) continue;
      return error(
          StatusCode::unsupported,
          "{}: adapter_config.json: alpha_pattern: '{}' and '{}' have different values for "
          "the same module; give each module one",
          metadata.source(), printable(end), printable(longer));
    }
  }
  return {};
}

}  // namespace

float PeftConfig::scale(const std::string& module, int64_t rank) const {
  double numerator = alpha;
  for (const auto& [end, its] : own) {
    if (module != end && !module.ends_with("." + end)) continue;
    numerator = its;
    break;
  }
  const auto r = static_cast<double>(rank);
  return static_cast<float>(numerator / (by_root ? std::sqrt(r) : r));
}

Result<PeftConfig> read_peft_config(const Metadata& metadata) {
  INFER_TRY(const auto kind, metadata.get_string(key("peft_type")));
  if (kind != "LORA") {
    return fail(StatusCode::unsupported,
                "{}: adapter_config.json: peft_type: expected LORA, found {}", metadata.source(),
                kind ? printable(*kind) : "nothing");
  }
  for (const char* name : kOtherKinds) {
    INFER_TRY(const auto on, metadata.get_bool(key(name)));
    if (on.value_or(false)) return tl::unexpected(refuse(metadata, name));
  }
  for (const char* name : kOtherValues) {
    const std::string at = key(name);
    const auto first = metadata.values().lower_bound(at);
    if (first == metadata.values().end()) continue;
    if (first->first == at || first->first.starts_with(at + ".")) {
      return tl::unexpected(refuse(metadata, name));
    }
  }
  INFER_CHECK_R(check_beginning(metadata));
  PeftConfig config;
  INFER_TRY(const auto alpha, metadata.get_float(key("lora_alpha")));
  if (!alpha) {
    return fail(StatusCode::bad_file, "{}: adapter_config.json: expected lora_alpha, found nothing",
                metadata.source());
  }
  INFER_CHECK_R(check_alpha(metadata, key("lora_alpha"), *alpha));
  config.alpha = *alpha;
  INFER_TRY(const auto by_root, metadata.get_bool(key("use_rslora")));
  config.by_root = by_root.value_or(false);
  INFER_CHECK_R(read_patterns(metadata, config));
  return config;
}

}  // namespace infer
