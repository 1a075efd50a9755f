#include <algorithm>

#include "backends/cuda/packing.h"
#include "backends/cuda/product.h"
#include "backends/cuda/weights/embed.h"
#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const Operand& tokens = call.inputs[0];
  const Operand& table = call.inputs[1];
  const Operand& y = call.outputs[0];
  EmbedParams params{};
  params.step = call.step;
  params.w = table.address;
  params.tokens = tokens.address;
  params.y = y.address;
  params.width = table.size(0);
  params.vocabulary = table.size(1);
  params.y_stride = y.stride(2);
  params.rows = shape_of(y).rows;
  params.factor = call.params<op::Embed>().scale;
  std::ranges::copy(plane_offsets(table.value->desc), params.planes);
  constexpr int64_t kElements = kEmbedThreads * 32;  // of a block
  const DType type = table.value->desc.type;
  const char* const kernel = has_fragments(type) ? "embed_tiles_" : "embed_rows_";
  call.recorder.launch(kernel + std::string(dtype_info(type).ident), params,
                       {div_ceil<int64_t>(table.dim(0), kElements), y.dim(2), 1}, kEmbedThreads);
}

}  // namespace

const CudaOp& embed_cuda() {
  static const CudaOp op{OpId::Embed, product_supports, record};
  return op;
}

}  // namespace infer::cuda
