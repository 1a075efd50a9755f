// LoRA adapters as PEFT saves them: a directory with adapter_config.json and
// adapter_model.safetensors, with Hugging Face's names and layouts.
#pragma once

#include <memory>

#include "engine/weights/weight_source.h"

namespace infer {

/// An adapter as llama.cpp's converter makes it of PEFT's (adapters.h), for the model `base` under
/// GGUF's names. `raw`: the directory, with the keys that peft_config.h names. Scales that differ
/// between tensors, or that are not alpha / rank, are multiplied into B, which becomes F32.
/// bad_file naming the key or tensor that is missing or wrong; unsupported for other kinds of
/// adapters, and for modules whose weights have another layout in GGUF than in checkpoints.
Result<std::unique_ptr<WeightSource>> from_peft(std::unique_ptr<WeightSource> raw,
                                                const WeightSource& base);

}  // namespace infer
