// The experts of a Hugging Face checkpoint.
#pragma once

#include <string>

#include "engine/model/checkpoint.h"

namespace infer {

/// Of an expert's three matrices.
struct ExpertNames {
  const char* gate = "gate_proj";  ///< null: experts without a gate
  const char* up = "up_proj";
  const char* down = "down_proj";
  const char* both = "gate_up_proj";  ///< the gate's rows and then the others, of each expert
};

/// How experts are chosen: by softmax (V2); by sigmoid with a bias, weights normalised (V3); by
/// softmax, weights normalised (Mistral 4).
enum class DeepseekRouting : uint8_t { v2, v3, mistral };

/// The experts of a layer: each matrix of each expert a tensor (`in`.0.gate_proj.weight), each
/// matrix of all experts (`in`.up_proj), or gate and up together (`in`.gate_up_proj with the gate's
/// rows first, `in`.down_proj; or ExpertNames::both of each expert).
void add_experts(CheckpointTensors& tensors, int64_t layer, const std::string& in, int64_t count,
                 const ExpertNames& names = {});
/// The same of all experts at once, transposed: `in`.gate_up_proj, whose rows are the columns of
/// the gate and then the others, and `in`.down_proj.
void add_transposed_experts(CheckpointTensors& tensors, int64_t layer, const std::string& in);
/// Writes how many experts there are (num_experts, which transformers 5 renamed) and how many a
/// token takes. Returns the first.
int64_t map_expert_counts(CheckpointMap& m);
/// Experts, routers and shared experts as DeepSeek's configurations and checkpoints have them,
/// which others took over. Leaves out layers behind layer_count(). `routing`: what holds
/// where the configuration does not say. `names`: of an expert's matrices.
void map_deepseek_experts(CheckpointMap& m, DeepseekRouting routing, const ExpertNames& names = {});

}  // namespace infer
