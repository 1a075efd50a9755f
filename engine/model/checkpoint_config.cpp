#include "engine/model/checkpoint_config.h"

#include "engine/core/file.h"

namespace infer {
namespace {

constexpr std::string_view kWhole = "hf.config.";
/// The text of InternVL in its own form.
constexpr std::string_view kInternVlSection = "hf.config.llm_config.";
/// Of drafters as vLLM's `speculators` writes them.
constexpr std::string_view kLayerSection = "hf.config.transformer_layer_config.";

/// Classes for images around several families of decoders: `model_type` of the text, its class.
struct SeeingClass {
  const char* seeing;
  const char* text;
  const char* decoder;
};
constexpr SeeingClass kSeeing[] = {
    {"Mistral3ForConditionalGeneration", "mistral4", "Mistral4ForCausalLM"},
    {"LlavaForConditionalGeneration", "mistral", "MistralForCausalLM"},
    {"LlavaForConditionalGeneration", "llama", "LlamaForCausalLM"},
    {"LlavaNextForConditionalGeneration", "mistral", "MistralForCausalLM"},
    {"LlavaNextForConditionalGeneration", "llama", "LlamaForCausalLM"},
    {"LlavaNextForConditionalGeneration", "qwen2", "Qwen2ForCausalLM"},
    {"Idefics3ForConditionalGeneration", "llama", "LlamaForCausalLM"},
    {"Idefics3ForConditionalGeneration", "VLlama3", "LlamaForCausalLM"},
    {"SmolVLMForConditionalGeneration", "llama", "LlamaForCausalLM"},
    {"SmolVLMForConditionalGeneration", "VLlama3", "LlamaForCausalLM"},
    {"Lfm2VlForConditionalGeneration", "lfm2", "Lfm2ForCausalLM"},
    {"Lfm2VlForConditionalGeneration", "lfm2_moe", "Lfm2MoeForCausalLM"},
    {"InternVLForConditionalGeneration", "qwen2", "Qwen2ForCausalLM"},
    {"InternVLForConditionalGeneration", "qwen3", "Qwen3ForCausalLM"},
    {"InternVLForConditionalGeneration", "qwen3_moe", "Qwen3MoeForCausalLM"},
    {"InternVLForConditionalGeneration", "llama", "LlamaForCausalLM"},
    {"KimiVLForConditionalGeneration", "deepseek_v3", "DeepseekV3ForCausalLM"},
    {"KimiK25ForConditionalGeneration", "kimi_k2", "DeepseekV3ForCausalLM"},
    {"KimiK25ForConditionalGeneration", "deepseek_v3", "DeepseekV3ForCausalLM"},
    {"Kimi_K25ForConditionalGeneration", "kimi_k2", "DeepseekV3ForCausalLM"},
    {"Kimi_K25ForConditionalGeneration", "deepseek_v3", "DeepseekV3ForCausalLM"},
    {"MiniCPMV4_6ForConditionalGeneration", "qwen3_5_text", "Qwen3_5ForCausalLM"},
    {"MiniCPMOcrForConditionalGeneration", "qwen3_5_text", "Qwen3_5ForCausalLM"},
    {"Exaone4_5_ForConditionalGeneration", "exaone4", "Exaone4ForCausalLM"},
    {"Exaone4_5_ForConditionalGeneration", "exaone4_5_text", "Exaone4ForCausalLM"},
    {"Glm46VForConditionalGeneration", "glm4v_text", "Glm4vForConditionalGeneration"},
    {"Glm46VForConditionalGeneration", "glm4v_moe_text", "Glm4vMoeForConditionalGeneration"},
};

}  // namespace

CheckpointConfig::CheckpointConfig(const Metadata& raw) : values_(raw) {
  // LLaVA's text leaves out what is as in LlamaConfig.
  const bool section = values_.has("hf.config.text_config.num_hidden_layers") ||
                       (values_.has("hf.config.text_config.model_type") &&
                        values_.has("hf.config.vision_feature_select_strategy"));
  prefix_ = section ? "hf.config.text_config." : std::string(kWhole);
  if (values_.has("hf.config.llm_config.num_hidden_layers")) prefix_ = kInternVlSection;
  if (values_.has("hf.config.speculators_model_type")) {
    prefix_ = kLayerSection;
    // What the section lacks is said of the whole.
    for (const auto& [name, value] : raw.values()) {
      if (!name.starts_with(kWhole) || name.starts_with(kLayerSection)) continue;
      assume(name.substr(kWhole.size()), value);
    }
  }
  if (const Result<std::string> name = checkpoint_class(values_); name) checkpoint_ = *name;
}

CheckpointConfig::CheckpointConfig(const Metadata& raw, const std::string& section)
    : values_(raw), prefix_(std::string(kWhole) + section + ".") {
  if (const Result<std::string> name = checkpoint_class(values_); name) checkpoint_ = *name;
}

Result<std::string> checkpoint_class(const Metadata& raw) {
  INFER_TRY(const std::vector<std::string>* names, raw.get_strings("hf.config.architectures"));
  if (names != nullptr && !names->empty() && names->front() == "InternVLChatModel") {
    INFER_TRY(names, raw.get_strings("hf.config.llm_config.architectures"));
  }
  if (names == nullptr || names->empty()) {
    return fail(StatusCode::bad_file, "{}: config.json: key 'architectures' is missing",
                raw.source());
  }
  const auto type = raw.get_string("hf.config.text_config.model_type");
  const std::string text = type ? type->value_or("") : "";
  for (const auto& [seeing, type, decoder] : kSeeing) {
    if (names->front() == seeing && text == type) return decoder;
  }
  return names->front();
}

void CheckpointConfig::fail_with(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void CheckpointConfig::require(bool holds, const std::string& what) {
  if (holds) return;
  fail_with(error(StatusCode::unsupported, "{}: {}: {} is not supported", source(),
                  printable(checkpoint_), what));
}

bool CheckpointConfig::has(std::string_view name) const { return values_.has(key(name)); }

int64_t CheckpointConfig::need_int(const std::string& name, int64_t min, int64_t max) {
  if (!has(name)) {
    fail_with(error(StatusCode::bad_file, "{}: key '{}' is missing", source(), key(name)));
  }
  return get_int(name, min, min, max);
}

int64_t CheckpointConfig::get_int(const std::string& name, int64_t absent, int64_t min,
                                  int64_t max) {
  return take(values_.get_int(key(name), min, max), absent);
}

double CheckpointConfig::get_float(const std::string& name, double absent) {
  return take(values_.get_float(key(name)), absent);
}

bool CheckpointConfig::get_bool(const std::string& name, bool absent) {
  // Some files have an integer, which Python takes for a boolean too.
  const MetaValue* value = values_.find(key(name));
  if (value != nullptr && std::holds_alternative<int64_t>(*value)) {
    return std::get<int64_t>(*value) != 0;
  }
  return take(values_.get_bool(key(name)), absent);
}

std::string CheckpointConfig::get_string(const std::string& name, const std::string& absent) {
  return take(values_.get_string(key(name)), absent);
}

std::vector<float> CheckpointConfig::get_floats(const std::string& name) {
  return take(values_.get_floats(key(name)), {});
}

std::vector<int64_t> CheckpointConfig::get_ints(const std::string& name) {
  return take(values_.get_ints(key(name), INT64_MIN, INT64_MAX), {});
}

const std::vector<std::string>* CheckpointConfig::get_strings(const std::string& name) {
  const Result<const std::vector<std::string>*> found = values_.get_strings(key(name));
  if (found) return *found;
  fail_with(found.error());
  return nullptr;
}

void CheckpointConfig::make_square(const std::string& name) {
  const std::vector<int64_t> sides = get_ints(name);
  if (sides.size() == 2 && sides[0] == sides[1]) values_.set(key(name), sides[0]);
}

void CheckpointConfig::replace(const std::string& name, MetaValue value) {
  values_.set(key(name), std::move(value));
}

void CheckpointConfig::assume(const std::string& name, MetaValue value) {
  if (!has(name)) values_.set(key(name), std::move(value));
}

}  // namespace infer
