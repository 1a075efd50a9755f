#include "engine/model/checkpoint_qkv.h"

#include <vector>

#include "engine/model/builder.h"

namespace infer {

void map_grouped_qkv(CheckpointMap& m, const std::string& part, int64_t width, int64_t kv_heads) {
  const int64_t heads = m.head_count();
  m.config.require(width % heads == 0 && heads % kv_heads == 0,
                   "a hidden_size that heads do not divide, or heads that keys do not");
  if (!m.tensors.ok()) return;
  const int64_t head = width / heads;
  const int64_t group = heads / kv_heads;
  const int64_t rows = (heads + 2 * kv_heads) * head;
  const auto parts = [&](const TensorView& all, size_t axis) {
    return std::vector{all.sliced(axis, 0, group), all.sliced(axis, group, 1),
                       all.sliced(axis, group + 1, 1)};
  };
  for (int64_t i = 0; i < m.layer_count() && m.tensors.ok(); ++i) {
    const std::string from = layer_name(i, part);
    const std::string to = block_name(i, "attn_qkv");
    const TensorView all = m.tensors.view(from + ".weight", {width, head, group + 2, kv_heads});
    if (!m.tensors.ok()) return;
    m.tensors.put_parts(to + ".weight", parts(all, 2), {width, rows});
    if (!m.tensors.has(from + ".bias")) continue;
    const TensorView bias = m.tensors.view(from + ".bias", {head, group + 2, kv_heads});
    if (!m.tensors.ok()) return;
    m.tensors.put_parts(to + ".bias", parts(bias, 1), {rows});
  }
}

}  // namespace infer
