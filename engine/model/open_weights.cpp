#include "engine/model/open_weights.h"

#include "engine/core/file.h"
#include "engine/model/arch.h"
#include "engine/model/checkpoint.h"
#include "engine/model/matrix_type.h"
#include "engine/model/peft_config.h"

namespace infer {

Result<std::unique_ptr<WeightSource>> open_weights(const std::string& path,
                                                   std::optional<DType> matrices) {
  INFER_TRY(std::unique_ptr<WeightSource> raw, open_model(path));
  const Metadata& metadata = raw->metadata();
  INFER_TRY(const auto kind, metadata.get_string("general.type"));
  if (kind == "adapter" || metadata.has(kPeftAdapter)) {
    return fail(StatusCode::unsupported,
                "{}: expected a model, found a LoRA adapter: name the model, and this with --lora",
                path);
  }
  if (!metadata.has("hf.checkpoint")) {
    raw = with_usual_forms(std::move(raw));
    if (matrices) return with_matrices(std::move(raw), *matrices);
    return raw;
  }
  INFER_TRY(const std::string name, checkpoint_class(metadata));
  std::string known;
  for (const ArchDef* arch : all_architectures()) {
    for (const char* candidate : arch->checkpoints) {
      if (name == candidate) {
        CheckpointMap map(*raw, arch->layout.interleaves, matrices);
        arch->map(map);
        return map.result(std::move(raw));
      }
      known += (known.empty() ? "" : ", ") + std::string(candidate);
    }
  }
  return fail(StatusCode::unsupported,
              "{}: config.json: architecture '{}' is not supported; supported: {}", path,
              printable(name), known);
}

}  // namespace infer
