#include "backends/cuda/ops/text_attention.h"

#include <vector>

#include "backends/cuda/op.h"
#include "engine/core/checked.h"
#include "engine/graph/alibi.h"

namespace infer::cuda {
namespace {

/// Elements of a key or value, for which every GPU has the shared memory and registers.
constexpr int64_t kMostElements = 256;

Status supports(const NodeView& node) {
  for (const size_t i : {size_t{0}, size_t{2}}) {
    const int64_t elements = node.input(i)->desc.shape[0];
    if (elements <= kMostElements) continue;
    return error(StatusCode::unsupported, "heads of {} elements; at most {} are supported",
                 elements, kMostElements);
  }
  return {};
}

void record(const NodeCall& call) {
  const auto& p = call.params<op::TextAttention>();
  const Operand& q = call.inputs[0];
  const Operand& k = call.inputs[1];
  const Operand& v = call.inputs[2];
  const Operand& y = call.outputs[0];
  std::vector<float> slopes;
  for (int64_t h = 0; p.alibi && h < q.dim(1); ++h) slopes.push_back(alibi_slope(h, q.dim(1)));
  const int64_t elements = v.dim(0);
  call.recorder.launch(
      elements <= 64    ? "text_attention_64"
      : elements <= 128 ? "text_attention_128"
                        : "text_attention_256",
      TextAttentionParams{
          .step = call.step,
          .q = q.address,
          .k = k.address,
          .v = v.address,
          .y = y.address,
          .begins = call.inputs[3].address,
          .ends = call.inputs[4].address,
          .sinks = call.inputs[5].address,
          .slopes = p.alibi ? call.recorder.keep(std::as_bytes(std::span(slopes))) : 0,
          .q_strides = strides_of(q),
          .k_strides = strides_of(k),
          .v_strides = strides_of(v),
          .y_strides = strides_of(y),
          .k_dim = q.size(0),
          .v_dim = v.size(0),
          .group = q.size(1) / k.size(1),
          .scale = p.scale,
          .softcap = p.softcap,
          .before = p.before,
          .after = p.after,
          .chunk = static_cast<uint32_t>(p.chunk)},
      {div_ceil<int64_t>(q.dim(2), kTextQueries), q.dim(1), 1}, kTextKeys,
      q.dim(0) * kTextQueries * int64_t{sizeof(float)});
}

}  // namespace

const CudaOp& text_attention_cuda() {
  static const CudaOp op{OpId::TextAttention, supports, record};
  return op;
}

}  // namespace infer::cuda
