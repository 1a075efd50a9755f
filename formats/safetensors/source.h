// Hugging Face checkpoints: a directory of safetensors files and JSON, or one such file.
#pragma once

#include <memory>
#include <string>

#include "engine/weights/weight_source.h"

namespace infer::safetensors {

/// Whether the path is a directory that holds a config.json and weights, or an adapter_config.json,
/// or a safetensors file.
bool recognise(const std::string& path);

/// Opens a directory (model.safetensors.index.json and its shards, model.safetensors, or the only
/// file *.safetensors) or a single file. Names and types of weights are the checkpoint's own
/// (shapes reversed, types as header.h says); those that are quantised in several tensors are put
/// together (assembled.h). The metadata are, where the files are there,
///   hf.checkpoint             true; of a LoRA adapter's directory (PEFT's) hf.adapter is
///   hf.adapter_config.KEY     adapter_config.json, of such a directory
///   hf.metadata.KEY           the weights' `__metadata__`
///   hf.config.KEY             config.json, flattened as json_file.h says
///   hf.generation_config.KEY  generation_config.json
///   hf.preprocessor_config.KEY, hf.processor_config.KEY   the files of these names
///   hf.tokenizer_config.chat_template, hf.chat_templates.NAME   (Jinja)
/// The vocabulary is what tokenizer_json.h says. not_found, io, bad_file or unsupported, naming the
/// file and what is wrong. map() is unsupported for weights whose type is widened or that lie
/// unaligned.
Result<std::unique_ptr<WeightSource>> open_source(const std::string& path,
                                                  ModelParts parts = ModelParts::all);

/// The vocabulary of a directory that holds a tokenizer.json, tokenizer.model or tokenizer.jsonl,
/// whatever else is in it; not_found without these files. Failures as tokenizer_json.h says.
Result<TokenizerSpec> open_vocabulary(const std::string& path);

}  // namespace infer::safetensors
