#include "backends/vulkan/matrix.h"

#include "backends/gpu/calls.h"
#include "backends/vulkan/product_push.h"
#include "engine/core/checked.h"

namespace infer::vulkan {
namespace {

/// ops/to_half.comp
struct HalfPush {
  VkDeviceAddress step, x, y, back;
  uint32_t k, stride;
  StridePush x_strides;
};

/// Values from a column to the next: whole steps along K.
int64_t padded(int64_t k) { return round_up<int64_t>(k, 32); }

}  // namespace

bool uses_matrices(const Graph& graph, const Node& node, Roles roles, const Tuning& tuning) {
  return tuning.matrices && roles != Roles::generated && node.op() == OpId::Matmul &&
         graph.value(node.outputs[0]).rows == Rows::tokens && !gpu::chooses_experts(graph, node);
}

int64_t matrix_scratch(const NodeView& node, const Tuning& tuning, Roles roles) {
  if (!uses_matrices(node.graph, node.node, roles, tuning)) return 0;
  const auto& shape = node.input(0)->desc.shape;
  return shape[2] * (padded(shape[0]) * 2 + int64_t{sizeof(float)});
}

void record_matrix_product(const NodeCall& call, const ProductCall& in) {
  const Tuning& tuning = call.tuning;
  const uint32_t subgroup = call.device.subgroup;
  const MatrixTile& tile = tuning.tile_of(in.x.dim(2));
  const MatrixShape& shape = call.device.matrices;
  const Operand& w = in.weights[0].w;
  const int64_t columns = in.x.dim(2);
  const int64_t stride = padded(in.x.dim(0));
  const VkDeviceAddress back = call.scratch + static_cast<VkDeviceAddress>(columns * stride * 2);
  call.recorder.dispatch("to_half", WorkgroupConstants{.workgroup = tuning.row_lanes},
                         HalfPush{.step = call.step,
                                  .x = in.x.address,
                                  .y = call.scratch,
                                  .back = back,
                                  .k = in.x.size(0),
                                  .stride = static_cast<uint32_t>(stride),
                                  .x_strides = strides_of(in.x)},
                         {1, columns, 1});
  call.recorder.barrier();

  const uint32_t of_tile = in.glu != nullptr ? 2 : 1;  // weights
  const auto [weights, tiles] = pushed_weights(in, tile.rows / of_tile);
  const ProductConstants constants{.workgroup = tile.lanes(subgroup),
                                   .lanes = subgroup,
                                   .matrix = static_cast<uint32_t>(MatrixOf::only),
                                   .aligned = 1,
                                   .after = what_follows(in),
                                   .tile_rows = tile.rows,
                                   .tile_columns = tile.columns,
                                   .own_rows = tile.own_rows / shape.m,
                                   .own_columns = tile.own_columns / shape.n,
                                   .share = tile.share(subgroup)};
  ProductPush push{};
  push.step = call.step;
  push.weights = call.recorder.keep(std::as_bytes(std::span(weights)));
  push.x = call.scratch;
  push.norm = back;
  push.k = w.size(0);
  push.matrices = 1;
  push.tiles = tiles;
  push.weight_count = static_cast<uint32_t>(weights.size()) / of_tile;
  push.alpha = in.glu != nullptr ? in.glu->alpha : 0.0f;
  push.limit = in.glu != nullptr ? in.glu->limit : 0.0f;
  push.x_strides = {0, static_cast<uint32_t>(stride)};
  const std::string type(dtype_info(w.value->desc.type).ident);
  call.recorder.dispatch("matrix_" + shape.name() + "_" + type, constants, push,
                         {tiles, div_ceil<int64_t>(columns, tile.columns), 1}, Parts::along_y);
}

}  // namespace infer::vulkan
