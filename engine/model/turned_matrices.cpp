#include "engine/model/turned_matrices.h"

#include <string>

#include "engine/model/builder.h"

namespace infer {

void map_turned(CheckpointMap& m, std::span<const TurnedMatrix> matrices) {
  for (int64_t i = 0; i < m.layer_count() && m.tensors.ok(); ++i) {
    for (const TurnedMatrix& matrix : matrices) {
      const std::string from = layer_name(i, matrix.from);
      const std::string to = block_name(i, matrix.to);
      const TensorView view = m.tensors.view(from + ".weight", {matrix.outputs, matrix.inputs});
      if (!m.tensors.ok()) return;
      m.tensors.put(to + ".weight", view.swapped(0, 1));
      m.tensors.copy(from + ".bias", to + ".bias");
    }
    for (const char* mask : {"attn.bias", "attn.masked_bias"})
      m.tensors.ignore(layer_name(i, mask));
  }
}

}  // namespace infer
