// The names of tensors that PEFT saves, and GGUF's names of what they change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/status.h"

namespace infer {

/// "base_model.model.MODULE.lora_A.weight", "…lora_B.weight" or, of the embedding of tokens,
/// "….lora_embedding_A".
struct PeftName {
  std::string module;
  bool a = false;
  bool embedding = false;
};
/// unsupported, naming `file` and the tensor, for other names.
Result<PeftName> peft_name(const std::string& file, const std::string& name);

/// What a module is in GGUF. Only modules whose weights GGUF keeps as they are, but for what
/// ArchDef::Layout says.
struct PeftModule {
  enum class Kind : uint8_t {
    unknown,
    table,    ///< the embedding of tokens
    matrix,   ///< one tensor, or several, whose rows the module has one after the other
    expert,   ///< one matrix of a tensor
    experts,  ///< a parameter of all experts of a layer: gate and up, or down
  } kind = Kind::unknown;
  int64_t layer = -1;   ///< −1: outside of layers
  int64_t expert = -1;  ///< of Kind::expert
  /// The tensors, in each way that models may have them. Of Kind::experts: gate, up and down.
  std::vector<std::vector<std::string>> names;
};
PeftModule peft_module(const std::string& module);

/// A parameter of experts has the name of their module, which is wrapped once for each parameter.
std::string peft_parameter(const std::string& module, const char* parameter);

}  // namespace infer
