// What adapter_config.json of PEFT says of the scales of a LoRA adapter.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/status.h"
#include "engine/weights/metadata.h"

namespace infer {

/// What formats/safetensors opens a directory of PEFT's as has this key, true. Its configuration
/// has keys that begin with kPeftConfig.
inline constexpr const char* kPeftAdapter = "hf.adapter";
inline constexpr const char* kPeftConfig = "hf.adapter_config.";

struct PeftConfig {
  double alpha = 0;
  bool by_root = false;                             ///< scales are alpha / √rank
  std::vector<std::pair<std::string, double>> own;  ///< alphas by the end of a module's name

  /// Whether every scale is alpha / rank, with an alpha above zero.
  bool is_plain() const { return !by_root && own.empty() && alpha > 0; }
  /// What B·A of a module is multiplied with.
  float scale(const std::string& module, int64_t rank) const;
};

/// Errors: bad_file or unsupported, naming the key, for other adapters than LoRA's plain ones.
Result<PeftConfig> read_peft_config(const Metadata& metadata);

}  // namespace infer
