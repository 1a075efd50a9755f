#include "backends/vulkan/product.h"

#include <algorithm>

#include "backends/gpu/expert_groups.h"
#include "backends/gpu/step.h"
#include "backends/gpu/weight_layout.h"
#include "backends/vulkan/matrix.h"
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
/// ops/to_bytes.comp
struct BytesPush {
  VkDeviceAddress step, x, y;
  uint32_t pieces, d1, rows;
  StridePush x_strides;
};
constexpr int64_t kPiece = 32;       ///< activations
constexpr int64_t kBytePiece = 48;   ///< bytes of it, rounded
constexpr int64_t kBytesGroup = 64;  ///< invocations, of four activations each
/// Bytes of shared memory that a product takes beside normalised activations, at most.
constexpr int64_t kSharedBeside = 14 << 10;

bool has_shader(const std::string& name) {
  return std::ranges::any_of(all_shaders(), [&](const Shader& s) { return name == s.name; });
}

bool aligned(const Operand& x) {
  return x.address % 16 == 0 && x.dim(0) % 4 == 0 && x.value->desc.stride[1] % 16 == 0 &&
         x.value->desc.stride[2] % 16 == 0;
}

/// True if the shaders of a product multiply integers. Heads' own matrices (multi-head latent
/// attention) are few: they stay exact, as on a CPU.
bool multiplies_integers(const Tuning& tuning, DType type, MatrixOf matrix) {
  return tuning.integer && matrix != MatrixOf::by_place &&
         has_shader("product_int_" + std::string(dtype_info(type).ident));
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

/// How a product is computed, if not by cooperative matrices.
struct ProductShader {
  std::string name;
  bool tiled = false;
  MatrixOf matrix = MatrixOf::only;
  int64_t columns = 1;          ///< of a workgroup
  int64_t decoded_columns = 1;  ///< that share decoded weights, where it is not tiled
  bool rounded = false;         ///< the activations are rounded to bytes first
  uint32_t tall = 1;            ///< rows of a lane, likewise
};

ProductShader choose_shader(const NodeCall& call, const ProductCall& in) {
  const Tuning& tuning = call.tuning;
  const DType type = in.weights[0].w.value->desc.type;
  const int64_t columns = in.weights[0].y.dim(2);
  ProductShader shader;
  shader.matrix = in.matrix;
  if (in.matrix == MatrixOf::by_ids && product_groups(tuning, columns, in.weights[0].w.dim(2))) {
    shader.matrix = MatrixOf::by_groups;
  }
  const bool shared = shader.matrix == MatrixOf::only || shader.matrix == MatrixOf::by_groups;
  shader.tiled = tuning.tiles(columns) && shared && in.norm == nullptr && in.glu == nullptr;
  shader.decoded_columns = columns_together(tuning, shader.matrix, columns, in);
  shader.columns = shader.tiled ? kTileColumns : shader.decoded_columns;
  int64_t most_rows = 0;
  for (const ProductWeight& weight : in.weights) most_rows = std::max(most_rows, weight.w.dim(1));
  shader.tall = most_rows > call.device.subgroup ? tuning.tall : 1;
  const std::string ident(dtype_info(type).ident);
  const bool integer = multiplies_integers(tuning, type, in.matrix);
  shader.rounded = integer && (shader.tiled || shader.decoded_columns > 1);
  shader.name = (shader.tiled ? "tile_" : "product_") + std::string(integer ? "int_" : "") + ident;
  return shader;
}

/// Sorts the places of a product with experts into groups in the work space, of so many columns at
/// most. Returns how many groups there may be.
int64_t record_groups(const NodeCall& call, const ProductCall& in, int64_t columns) {
  const Operand& w = in.weights[0].w;
  const Operand& y = in.weights[0].y;
  const int64_t used = in.ids.dim(0);
  const gpu::ExpertGroups groups = gpu::expert_groups(used, y.dim(2), w.dim(2), columns);
  call.recorder.dispatch("moe_group",
                         MoeGroupConstants{.experts = w.size(2),
                                           .used = static_cast<uint32_t>(used),
                                           .most = static_cast<uint32_t>(columns),
                                           .workgroup = call.tuning.row_lanes},
                         GroupPush{.step = call.step,
                                   .ids = in.ids.address,
                                   .groups = call.scratch,
                                   .rows = shape_of(y).rows,
                                   .ids_stride = in.ids.stride(2),
                                   .places = static_cast<uint32_t>(groups.places)},
                         {1, 1, 1});
  call.recorder.barrier();
  return groups.most;
}

/// Where rounded activations are in the work space of a product, behind what else it keeps there.
int64_t bytes_offset(const NodeView& node, const Tuning& tuning, Roles roles) {
  if (node.node.op() == OpId::MoeMatmul) {
    const auto& ids = node.input(2)->desc.shape;
    const int64_t experts = node.input(1)->desc.shape[2];
    if (!product_groups(tuning, ids[2], experts)) return 0;
    return round_up<int64_t>(
        gpu::expert_groups(ids[0], ids[2], experts, 1).numbers * int64_t{sizeof(int32_t)}, 16);
  }
  return round_up<int64_t>(matrix_scratch(node, tuning, roles), 16);
}

/// Rounds the activations of a product to bytes at `to`.
void record_rounding(const NodeCall& call, const Operand& x, uint32_t rows, VkDeviceAddress to) {
  const int64_t pieces = x.dim(0) / kPiece;
  call.recorder.dispatch("to_bytes",
                         BytesPush{.step = call.step,
                                   .x = x.address,
                                   .y = to,
                                   .pieces = static_cast<uint32_t>(pieces),
                                   .d1 = x.size(1),
                                   .rows = rows,
                                   .x_strides = strides_of(x)},
                         {div_ceil<int64_t>(x.dim(0) / 4, kBytesGroup), x.dim(2), x.dim(1)});
  call.recorder.barrier();
}

}  // namespace

bool product_groups(const Tuning& tuning, int64_t rows, int64_t experts) {
  return rows > tuning.single_rows && experts <= kMostExperts;
}

int64_t product_scratch(const NodeView& node, const Tuning& tuning, Roles roles) {
  const int64_t others = bytes_offset(node, tuning, roles);
  const auto& x = node.input(0)->desc.shape;
  const bool grouped = node.node.op() == OpId::Matmul || others > 0;
  const bool alone = node.graph.value(node.node.outputs[0]).desc.shape[2] <= 1 || !grouped;
  if (alone || !multiplies_integers(tuning, node.input(1)->desc.type, MatrixOf::only)) {
    return others;
  }
  return others + x[0] / kPiece * x[1] * x[2] * kBytePiece;
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
    weights.push_back(
        {.w = weight.w.address,
         .bias = weight.bias.address,
         .scale = weight.scale.address,
         .y = weight.y.address,
         .residual = in.residual.address,
         .n = weight.w.size(1),
         .first_tile = tiles,
         .y_strides = weight.y.given() ? strides_of(weight.y) : StridePush{},
         .residual_strides = in.residual.given() ? strides_of(in.residual) : StridePush{},
         .factor = in.add != nullptr ? in.add->scale : 1.0f,
         .unused = 0,
         .planes = plane_offsets(weight.w.value->desc)});
    if (in.glu != nullptr && weights.size() == 2) break;
    tiles += static_cast<uint32_t>(div_ceil<int64_t>(weight.w.dim(1), tile_rows));
  }
  return {std::move(weights), tiles};
}

std::array<uint32_t, 4> plane_offsets(const TensorDesc& weight) {
  const gpu::WeightLayout layout(weight);
  std::array<uint32_t, 4> offsets{};
  for (size_t p = 1; p < layout.planes; ++p) {
    offsets[p - 1] = static_cast<uint32_t>(layout.offsets[p] / 16);
  }
  return offsets;
}

bool product_can_norm(const PhysicalDevice& device, int64_t k) {
  return k * int64_t{sizeof(float)} + kSharedBeside <= device.limits.maxComputeSharedMemorySize;
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
  const ProductShader shader = choose_shader(call, in);
  VkDeviceAddress ids = in.ids.address;
  int64_t groups = div_ceil(y.dim(2), shader.columns);
  if (shader.matrix == MatrixOf::by_groups) {
    groups = record_groups(call, in, shader.columns);
    ids = call.scratch;
  }

  const uint32_t rows = by_matrices ? gpu::kGeneratedRows : shape_of(y).rows;
  VkDeviceAddress x = in.x.address;
  StridePush x_strides = strides_of(in.x);
  if (shader.rounded) {
    x = call.scratch + static_cast<VkDeviceAddress>(
                           bytes_offset({call.graph, call.node, call.device}, tuning, call.roles));
    record_rounding(call, in.x, rows, x);
    const auto pieces = static_cast<uint32_t>(in.x.dim(0) / kPiece);
    x_strides = {in.x.dim(1) > 1 ? pieces : 0, pieces * in.x.size(1)};
  }

  const uint32_t lanes = call.device.subgroup;
  const int64_t tile_rows = shader.tiled ? int64_t{kTileRows} : int64_t{lanes} * shader.tall;
  const auto [weights, tiles] = pushed_weights(in, tile_rows);
  const uint32_t norm = in.norm == nullptr ? 0 : in.norm_weight.given() ? 2 : 1;
  const ProductConstants constants{.workgroup = shader.tiled ? kTileRows : lanes * tuning.parts,
                                   .lanes = lanes,
                                   .parts = tuning.parts,
                                   .columns = static_cast<uint32_t>(shader.decoded_columns),
                                   .rows = shader.tall,
                                   .matrix = static_cast<uint32_t>(shader.matrix),
                                   .handed = tuning.handed ? 1u : 0u,
                                   .aligned = aligned(in.x) ? 1u : 0u,
                                   .norm = norm,
                                   .normed = norm != 0 ? w.size(0) : 1,
                                   .after = what_follows(in)};
  const ProductPush push{
      .step = call.step,
      .weights = call.recorder.keep(std::as_bytes(std::span(weights))),
      .x = x,
      .ids = ids,
      .norm = in.norm_weight.address,
      .k = w.size(0),
      .matrices = w.size(2),
      .tiles = tiles,
      .weight_count = in.glu != nullptr ? 1 : static_cast<uint32_t>(weights.size()),
      .x_strides = x_strides,
      .ids_stride = in.ids.given() ? in.ids.stride(2) : 0,
      .rows = rows,
      .eps = in.norm != nullptr ? in.norm->eps : 0.0f,
      .alpha = in.glu != nullptr ? in.glu->alpha : 0.0f,
      .limit = in.glu != nullptr ? in.glu->limit : 0.0f};
  if (shader.tiled) {
    call.recorder.dispatch(shader.name, constants, push, {tiles, groups, 1}, Parts::along_y);
    return;
  }
  const bool by_place = shader.matrix == MatrixOf::by_ids || shader.matrix == MatrixOf::by_place;
  call.recorder.dispatch(
      shader.name, constants, push,
      {std::min<int64_t>(tiles, norm != 0 ? tuning.normed_groups : tuning.groups), groups,
       by_place ? y.dim(1) : 1},
      Parts::along_y);
}

}  // namespace infer::vulkan
