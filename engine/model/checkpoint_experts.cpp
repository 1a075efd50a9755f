#include "engine/model/checkpoint_experts.h"

#include <array>

namespace infer {

void add_experts(CheckpointTensors& tensors, int64_t layer, const std::string& in, int64_t count,
                 const ExpertNames& names) {
  const std::string from = layer_name(layer, in) + ".";
  const std::string to = fmt::format("blk.{}.ffn_", layer);
  if (tensors.has(from + "gate_up_proj")) {
    tensors.split_rows(from + "gate_up_proj", to + "gate_exps.weight", to + "up_exps.weight");
    const std::array<int64_t, kMaxDims> shape = tensors.shape_of(from + "down_proj");
    tensors.put(to + "down_exps.weight",
                tensors.view(from + "down_proj", {shape[0], shape[1], shape[2]}));
    return;
  }
  const auto stack = [&](const char* part, const char* name) {
    std::vector<TensorView> parts;
    for (int64_t e = 0; e < count && tensors.ok(); ++e) {
      const std::string tensor = fmt::format("{}{}.{}.weight", from, e, part);
      const std::array<int64_t, kMaxDims> shape = tensors.shape_of(tensor);
      parts.push_back(tensors.view(tensor, {shape[0], shape[1]}));
    }
    tensors.put_stacked(to + name, std::move(parts));
  };
  stack(names.gate, "gate_exps.weight");
  stack(names.up, "up_exps.weight");
  stack(names.down, "down_exps.weight");
}

}  // namespace infer
