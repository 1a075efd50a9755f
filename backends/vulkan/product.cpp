#include "backends/vulkan/product.h"

#include <algorithm>

#include "backends/vulkan/matrix.h"
#include "backends/vulkan/packing.h"
#include "backends/vulkan/product_push.h"
#include "engine/core/checked.h"

namespace infer::vulkan {
namespace {

/// weights/tile.comp
constexpr uint32_t kTileRows = 128;
constexpr int64_t kTileColumns = 32;
/// ops/moe_group.comp
struct GroupPush {
  VkDeviceAddress step, ids, groups;
  uint32_t rows;
  uint32_t ids_stride;
  uint32_t places;
};
constexpr int64_t kMostExperts = 1024;
/// Bytes of shared memory that a product takes beside normalised activations, at most.
constexpr int64_t kSharedBeside = 11 << 10;

bool has_shader(const std::string& name) {
  return std::ranges::any_of(all_shaders(), [&](const Shader& s) { return name == s.name; });
}

bool aligned(const Operand& x) {
  return x.address % 16 == 0 && x.value->desc.stride[1] % 16 == 0 &&
         x.value->desc.stride[2] % 16 == 0;
}

/// Columns that share decoded weights: no more than there are, but for the sake of few shaders.
int64_t columns_together(const Tuning& tuning, MatrixOf matrix, int64_t columns,
                         const ProductCall& in) {
  if (matrix == MatrixOf::by_ids) return 1;  // the experts of two rows are not the same
  if (matrix == MatrixOf::by_groups) {
    columns = columns * in.ids.dim(0) / in.weights[0].w.dim(2) / 4;  // of which one group is ragged
  }
  for (const int64_t wide : {1, 4}) {
    if (columns <= wide) return wide;
  }
  return tuning.columns;
}

/// What a product with experts makes of its places [used, 1, rows]: groups of so many at most,
/// which share an expert.
struct ExpertGroups {
  int64_t most = 1;     ///< groups
  int64_t places = 0;   ///< where they begin, in numbers of four bytes
  int64_t numbers = 0;  ///< all
};

ExpertGroups expert_groups(int64_t used, int64_t rows, int64_t experts, int64_t columns) {
  const int64_t places = used * rows;
  ExpertGroups groups;
  groups.most = div_ceil(places, columns) + std::min(experts, places);
  groups.places = 4 + 4 * groups.most;
  groups.numbers = groups.places + 2 * places;
  return groups;
}

}  // namespace

bool product_groups(const Tuning& tuning, int64_t rows, int64_t experts) {
  return rows > tuning.single_rows && experts <= kMostExperts;
}

int64_t expert_scratch(const NodeView& node, const Tuning& tuning, Roles) {
  const auto& ids = node.input(2)->desc.shape;
  const int64_t experts = node.input(1)->desc.shape[2];
  if (!product_groups(tuning, ids[2], experts)) return 0;
  return expert_groups(ids[0], ids[2], experts, 1).numbers * int64_t{sizeof(int32_t)};
}

Status product_supports(const NodeView& node) {
  const std::string type(dtype_info(node.input(1)->desc.type).ident);
  if (has_shader("product_" + type)) return {};
  return error(StatusCode::unsupported, "there are no shaders for weights of type {}", type);
}

uint32_t what_follows(const ProductCall& in) {
  return in.glu != nullptr ? 2 + static_cast<uint32_t>(in.glu->kind) : in.add != nullptr ? 1 : 0;
}

PushedWeights pushed_weights(const ProductCall& in, int64_t tile_rows) {
  std::vector<MatrixPush> weights;
  uint32_t tiles = 0;
  for (const ProductWeight& weight : in.weights) {
    weights.push_back({weight.w.address, weight.bias.address, weight.scale.address,
                       weight.y.address, in.residual.address, weight.w.size(1), tiles,
                       weight.y.given() ? strides_of(weight.y) : StridePush{},
                       in.residual.given() ? strides_of(in.residual) : StridePush{},
                       in.add != nullptr ? in.add->scale : 1.0f, 0,
                       plane_offsets(weight.w.value->desc)});
    if (in.glu != nullptr && weights.size() == 2) break;
    tiles += static_cast<uint32_t>(div_ceil<int64_t>(weight.w.dim(1), tile_rows));
  }
  return {std::move(weights), tiles};
}

std::array<uint32_t, 4> plane_offsets(const TensorDesc& weight) {
  const WeightLayout layout(weight);
  std::array<uint32_t, 4> offsets{};
  for (size_t p = 1; p < layout.planes.size(); ++p) {
    offsets[p - 1] = static_cast<uint32_t>(layout.offsets[p] / 16);
  }
  return offsets;
}

bool product_can_norm(const PhysicalDevice& device, int64_t k) {
  return k * int64_t{sizeof(float)} + kSharedBeside <= device.limits.maxComputeSharedMemorySize;
}

ProductCall product_of(const Node& node, std::span<const Operand> in,
                       std::span<const Operand> out) {
  ProductCall call;
  call.x = in[0];
  switch (node.op()) {
    case OpId::MoeMatmul:
      call.weights = {{in[1], in[3], in[4], out[0]}};
      call.ids = in[2];
      call.matrix = MatrixOf::by_ids;
      break;
    case OpId::HeadMatmul:
      call.weights = {{in[1], {}, {}, out[0]}};
      call.matrix = MatrixOf::by_place;
      break;
    default: call.weights = {{in[1], in[2], in[3], out[0]}};
  }
  return call;
}

void record_single_product(const NodeCall& call) {
  record_product(call, product_of(call.node, call.inputs, call.outputs));
}

void record_product(const NodeCall& call, const ProductCall& in) {
  const bool by_matrices = uses_matrices(call.graph, call.node, call.roles, call.tuning);
  if (by_matrices) record_matrix_product(call, in);
  if (by_matrices && call.roles == Roles::prompt) return;
  const Tuning& tuning = call.tuning;
  const Operand& w = in.weights[0].w;
  const Operand& y = in.weights[0].y;
  const int64_t columns = y.dim(2);
  const bool grouped = in.matrix == MatrixOf::by_ids && product_groups(tuning, columns, w.dim(2));
  const MatrixOf matrix = grouped ? MatrixOf::by_groups : in.matrix;
  const int64_t wide = columns_together(tuning, matrix, columns, in);
  const uint32_t lanes = call.device.subgroup;
  // Heads' own matrices (multi-head latent attention) are few: they stay exact, as on a CPU.
  const std::string type(dtype_info(w.value->desc.type).ident);
  const bool integer =
      tuning.integer && in.matrix != MatrixOf::by_place && has_shader("product_int_" + type);
  const bool tiled = tuning.tiles(columns) && (matrix == MatrixOf::only || grouped) &&
                     in.norm == nullptr && in.glu == nullptr;
  int64_t most_rows = 0;
  for (const ProductWeight& weight : in.weights) most_rows = std::max(most_rows, weight.w.dim(1));
  const uint32_t tall = most_rows > lanes ? tuning.tall : 1;

  VkDeviceAddress ids = in.ids.address;
  int64_t groups = 0;
  if (grouped) {
    const int64_t used = in.ids.dim(0);
    const int64_t together = tiled ? kTileColumns : wide;
    const ExpertGroups made = expert_groups(used, columns, w.dim(2), together);
    const uint32_t constants[] = {w.size(2), static_cast<uint32_t>(used),
                                  static_cast<uint32_t>(together)};
    call.recorder.dispatch("moe_group", constants,
                           GroupPush{call.step, ids, call.scratch, shape_of(y).rows,
                                     in.ids.stride(2), static_cast<uint32_t>(made.places)},
                           {1, 1, 1});
    call.recorder.barrier();
    ids = call.scratch;
    groups = made.most;
  }

  const int64_t tile_rows = tiled ? int64_t{kTileRows} : int64_t{lanes} * tall;

  const auto [weights, tiles] = pushed_weights(in, tile_rows);
  const uint32_t norm = in.norm == nullptr ? 0 : in.norm_weight.given() ? 2 : 1;
  const uint32_t after = what_follows(in);
  const uint32_t constants[] = {tiled ? kTileRows : lanes * tuning.parts,
                                lanes,
                                tuning.parts,
                                static_cast<uint32_t>(wide),
                                tall,
                                static_cast<uint32_t>(matrix),
                                tuning.handed ? 1u : 0u,
                                aligned(in.x) ? 1u : 0u,
                                norm,
                                norm != 0 ? w.size(0) : 1,
                                after};
  const ProductPush push{call.step,
                         call.recorder.keep(std::as_bytes(std::span(weights))),
                         in.x.address,
                         ids,
                         in.norm_weight.address,
                         w.size(0),
                         w.size(2),
                         tiles,
                         in.glu != nullptr ? 1 : static_cast<uint32_t>(weights.size()),
                         strides_of(in.x),
                         in.ids.given() ? in.ids.stride(2) : 0,
                         by_matrices ? kGeneratedRows : shape_of(y).rows,
                         in.norm != nullptr ? in.norm->eps : 0.0f,
                         in.glu != nullptr ? in.glu->alpha : 0.0f,
                         in.glu != nullptr ? in.glu->limit : 0.0f};
  const std::string shader =
      (tiled ? "tile_" : "product_") + std::string(integer ? "int_" : "") + type;
  if (tiled) {
    call.recorder.dispatch(shader, constants, push,
                           {tiles, grouped ? groups : div_ceil(columns, kTileColumns), 1});
    return;
  }
  call.recorder.dispatch(
      shader, constants, push,
      {std::min<int64_t>(tiles, norm != 0 ? tuning.normed_groups : tuning.groups),
       grouped ? groups : div_ceil(columns, wide),
       matrix == MatrixOf::by_ids || matrix == MatrixOf::by_place ? y.dim(1) : 1});
}

}  // namespace infer::vulkan
