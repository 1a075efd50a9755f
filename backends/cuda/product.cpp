#include "backends/cuda/product.h"

#include <algorithm>

#include "backends/cuda/column_shape.h"
#include "backends/cuda/half_product.h"
#include "backends/cuda/ops/moe_group.h"
#include "backends/cuda/ops/to_bytes.h"
#include "backends/cuda/packing.h"
#include "backends/cuda/rounded_values.h"
#include "backends/cuda/weights/product.h"
#include "backends/cuda/weights/stream.h"
#include "backends/cuda/weights/tile.h"
#include "backends/gpu/expert_groups.h"
#include "backends/gpu/step.h"
#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

using gpu::MatrixOf;
using gpu::ProductWeight;

/// Bytes of dynamic shared memory for activations, at most: with the kernels' own arrays it stays
/// under the 48 KiB that every launch may have.
constexpr uint32_t kActivationBytes = 30 << 10;
/// What a block of weights/stream.cu has beside its stages, at most.
constexpr int64_t kOwnBytes = 18 << 10;
/// Above this many rows, products with experts group their columns by expert.
constexpr int64_t kSingleRows = 8;
/// Blocks of a launch for each multiprocessor: what it can hold at once.
constexpr int64_t kBlocksEach = 2;

bool product_groups(int64_t rows, int64_t experts) {
  return rows > kSingleRows && experts <= kMostGroupedExperts;
}

/// Columns as bytes (ops/to_bytes.h) in the work space. Kernels may copy some tiles beyond the
/// last, which they do not use.
struct BytesLayout {
  int64_t columns = 0;
  int64_t tiles = 0;  ///< of 64 elements of K
  uint32_t runs = 0;  ///< summed_runs()
  int64_t room() const { return columns * (tiles + int64_t{kStreamTiles} - 1); }
  int64_t scales_at() const { return room() * 64; }
  int64_t sums_at() const { return room() * 80; }
  int64_t bytes() const { return room() * (80 + 4 * int64_t{runs}); }
};
BytesLayout bytes_layout(const TensorDesc& x, DType type) {
  return {x.shape[1] * x.shape[2], div_ceil(x.shape[0], kTileElements), summed_runs(type)};
}
/// The groups of a product with experts come first.
int64_t bytes_offset(int64_t numbers) {
  return round_up<int64_t>(numbers * int64_t{sizeof(int32_t)}, 256);
}

/// Whether `places` columns of `matrices` matrices are enough for weights/tile.cu.
bool many_columns(int64_t places, int64_t matrices, const Tuning& tuning) {
  return places >= tuning.tile_columns && 2 * places >= tuning.tile_columns * matrices;
}

/// How a product is computed.
struct Choice {
  std::string kernel;
  /// weights/….cu
  enum class Kind : uint8_t { rows, column, product, stream, tile } kind = Kind::rows;
  bool integer = false;
  int64_t tile_warps = 0;  ///< of a block of weights/tile.cu
  MatrixOf matrix = MatrixOf::only;
  int64_t columns = 1;  ///< of a block
  int64_t tile_rows = kTileRows;
  bool generated_only = false;  ///< the tokens of prompts are computed apart

  /// Whether the columns are rounded before.
  bool takes_bytes() const { return kind == Kind::stream || kind == Kind::tile; }
};

/// Heads' own matrices (multi-head latent attention) are few: they stay exact, as on a CPU.
bool is_integer(DType type, MatrixOf matrix, const Tuning& tuning) {
  return rounds_activations(type, tuning) && matrix != MatrixOf::by_place;
}

/// Tiles of rows of all weights of a call.
int64_t row_tiles(const ProductCall& in, int64_t tile_rows) {
  int64_t tiles = 0;
  for (const ProductWeight& weight : in.weights) tiles += div_ceil(weight.w.dim(1), tile_rows);
  return in.glu != nullptr ? tiles / 2 : tiles;
}

/// Tiles of rows of a block of weights/tile.cu.
int64_t block_tiles(int64_t warps, bool glu) { return glu ? warps / 2 : warps; }

/// Changes a choice to weights/tile.cu: large blocks if there are enough of them.
void choose_tile(const NodeCall& call, const ProductCall& in, Choice& choice) {
  const DType type = in.weights[0].w.value->desc.type;
  const bool glu = in.glu != nullptr;
  choice.kind = Choice::Kind::tile;
  choice.columns = kTileColumns;
  const uint32_t runs = summed_runs(type);
  const auto has_room = [&](uint32_t warps) {
    return tile_bytes(warps, runs) <= call.gpu.shared_bytes;
  };
  // What a block takes beside what it asks for.
  constexpr int64_t kBeside = 2 << 10;
  const bool two = 2 * (tile_bytes(kTileWarps, runs) + kBeside) <= call.gpu.multiprocessor_shared;
  const uint32_t warps = two || !has_room(kMostTileWarps) ? kTileWarps : kMostTileWarps;
  const int64_t groups =
      div_ceil<int64_t>(in.weights[0].y.dim(1) * in.weights[0].y.dim(2), kTileColumns);
  const int64_t blocks = div_ceil(row_tiles(in, kTileRows), block_tiles(warps, glu)) * groups;
  const bool few = !has_room(warps) || blocks < call.gpu.multiprocessors;
  choice.tile_warps = few ? kFewWarps : warps;
  choice.kernel = "tile_" + std::string(dtype_info(type).ident);
  if (few) choice.kernel += "_few";
}

/// Bytes of dynamic shared memory of a block of weights/stream.cu.
int64_t stream_shared(DType type, int64_t columns) {
  const uint32_t stage =
      stream_bytes(bytes_of_rows(type), static_cast<uint32_t>(columns), summed_runs(type));
  return int64_t{kProductWarps} * kStreamStages * stage;
}
bool stream_fits(DType type, int64_t columns, const Gpu& gpu) {
  return stream_shared(type, columns) + kOwnBytes <= gpu.shared_bytes;
}

Choice choose(const NodeCall& call, const ProductCall& in) {
  const DType type = in.weights[0].w.value->desc.type;
  const int64_t rows = in.weights[0].y.dim(2);
  Choice choice;
  choice.integer = is_integer(type, in.matrix, call.tuning);
  choice.matrix = in.matrix;
  if (in.matrix == MatrixOf::by_ids && product_groups(rows, in.weights[0].w.dim(2))) {
    choice.matrix = MatrixOf::by_groups;
  }
  if (choice.matrix != MatrixOf::by_ids) {  // the experts of two rows are not the same
    choice.columns =
        std::min(choice.integer ? kProductColumns : kFloatColumns, std::max<int64_t>(rows, 1));
  }
  const std::string ident(dtype_info(type).ident);
  const bool grouped = choice.matrix == MatrixOf::by_groups;
  if (!has_fragments(type)) {
    choice.kernel = "rows_" + ident;
    choice.tile_rows = 32;
  } else if (choice.integer && choice.columns > 1) {
    const bool many = many_columns(grouped ? in.ids.dim(0) * rows : rows,
                                   grouped ? in.weights[0].w.dim(2) : 1, call.tuning);
    if (many || !stream_fits(type, 1, call.gpu)) {
      choose_tile(call, in, choice);
    } else {
      choice.kind = Choice::Kind::stream;
      choice.kernel = "stream_" + ident;
      while (!stream_fits(type, choice.columns, call.gpu)) {
        choice.columns = div_ceil<int64_t>(choice.columns, 2);
      }
    }
  } else {
    choice.kind = choice.integer ? Choice::Kind::column : Choice::Kind::product;
    choice.kernel = (choice.integer ? "column_" : "product_") + ident;
  }
  if (in.glu != nullptr) choice.kernel += "_glu";
  return choice;
}

/// Tiles along K of each warp of weights/product.cu that shared memory holds at a time.
uint32_t chunk_tiles(const Choice& choice, DType type, int64_t k) {
  const uint32_t of_unit = dtype_info(type).block_elements == 256 ? 4 : 1;
  const int64_t units = div_ceil<int64_t>(k, kTileElements * of_unit);
  const auto stretch = static_cast<uint32_t>(div_ceil<int64_t>(units, kProductWarps)) * of_unit;
  const uint32_t most =
      kActivationBytes / (kProductWarps * product_bytes(static_cast<uint32_t>(choice.columns)));
  return std::min(stretch, std::max(most / of_unit, 1u) * of_unit);
}

}  // namespace

bool rounds_activations(DType type, const Tuning& tuning) {
  return tuning.integer && has_fragments(type);
}

uint32_t summed_runs(DType type) {
  switch (type) {
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k: return 2;
    case DType::q2_k: return 4;
    default: return 0;
  }
}

uint32_t bytes_of_rows(DType type) {
  const DTypeInfo& info = dtype_info(type);
  return static_cast<uint32_t>(kTileRows * kStreamTiles * kTileElements / info.block_elements *
                               info.block_bytes);
}

MatrixParams matrix_params(const ProductCall& in, const ProductWeight& weight) {
  MatrixParams params{};
  params.w = weight.w.address;
  params.bias = weight.bias.given() ? weight.bias.address : 0;
  params.scale = weight.scale.given() ? weight.scale.address : 0;
  params.n = weight.w.size(1);
  if (weight.y.given()) {
    params.y = weight.y.address;
    params.y_strides = strides_of(weight.y);
  }
  if (in.residual.given()) {
    params.residual = in.residual.address;
    params.residual_strides = strides_of(in.residual);
  }
  params.factor = in.add != nullptr ? in.add->scale : 1.0f;
  std::ranges::copy(plane_offsets(weight.w.value->desc), params.planes);
  return params;
}

uint32_t what_follows(const ProductCall& in) {
  if (in.glu != nullptr) return kAfterGlu + static_cast<uint32_t>(in.glu->kind);
  return in.add != nullptr ? kAfterSum : kAfterNothing;
}

bool aligned(const Operand& x) {
  return x.address % 16 == 0 && x.value->desc.stride[1] % 16 == 0 &&
         x.value->desc.stride[2] % 16 == 0;
}

uint64_t norm_address(const ProductCall& in) {
  return in.norm != nullptr && in.norm_weight.given() ? in.norm_weight.address : 0;
}

namespace {

/// Sorts the places of a product with experts into groups in the work space. Returns how many there
/// may be.
int64_t record_groups(const NodeCall& call, const ProductCall& in, int64_t columns) {
  const Operand& w = in.weights[0].w;
  const Operand& y = in.weights[0].y;
  const int64_t used = in.ids.dim(0);
  const gpu::ExpertGroups groups = gpu::expert_groups(used, y.dim(2), w.dim(2), columns);
  call.recorder.launch("moe_group",
                       MoeGroupParams{.step = call.step,
                                      .ids = in.ids.address,
                                      .groups = call.scratch,
                                      .rows = shape_of(y).rows,
                                      .ids_stride = in.ids.stride(2),
                                      .places = static_cast<uint32_t>(groups.places),
                                      .experts = w.size(2),
                                      .used = static_cast<uint32_t>(used),
                                      .most = static_cast<uint32_t>(columns)},
                       {1, 1, 1}, kGroupThreads, 3 * w.dim(2) * int64_t{sizeof(uint32_t)});
  return groups.most;
}

/// Rounds the columns to bytes in the work space, after a norm if the call has one.
ColumnBytes record_bytes(const NodeCall& call, const ProductCall& in, int64_t numbers) {
  const BytesLayout layout = bytes_layout(in.x.value->desc, in.weights[0].w.value->desc.type);
  const uint64_t at = call.scratch + static_cast<uint64_t>(bytes_offset(numbers));
  const ToBytesParams params{.step = call.step,
                             .x = in.x.address,
                             .norm = norm_address(in),
                             .to = {.words = at,
                                    .scales = at + static_cast<uint64_t>(layout.scales_at()),
                                    .sums = at + static_cast<uint64_t>(layout.sums_at()),
                                    .columns = static_cast<uint32_t>(layout.columns),
                                    .d1 = in.x.size(1)},
                             .strides = strides_of(in.x),
                             .k = in.x.size(0),
                             .tiles = static_cast<uint32_t>(layout.tiles),
                             .rows = shape_of(in.weights[0].y).rows,
                             .runs = layout.runs,
                             .aligned = aligned(in.x) ? 1u : 0u,
                             .eps = in.norm != nullptr ? in.norm->eps : 0.0f};
  if (in.norm != nullptr) {
    call.recorder.launch("to_bytes_normed", params, {1, in.x.dim(1), in.x.dim(2)},
                         kToBytesNormedThreads);
  } else {
    call.recorder.launch(
        "to_bytes", params,
        {div_ceil<int64_t>(2 * layout.tiles * 8, kToBytesThreads), in.x.dim(1), in.x.dim(2)},
        kToBytesThreads);
  }
  return params.to;
}

/// Launches weights [first, first + count) of the call. `bytes`: the columns, if they are rounded.
void launch(const NodeCall& call, const ProductCall& in, const Choice& choice, uint64_t ids,
            int64_t groups, const ColumnBytes& bytes, size_t first, size_t count) {
  const Operand& w = in.weights[first].w;
  const Operand& y = in.weights[0].y;
  const DType type = w.value->desc.type;
  ProductParams params{};
  params.step = call.step;
  params.x = in.x.address;
  params.ids = ids;
  params.norm = norm_address(in);
  params.x_strides = strides_of(in.x);
  params.k = w.size(0);
  params.matrices = w.size(2);
  params.weight_count = in.glu != nullptr ? 1 : static_cast<uint32_t>(count);
  params.ids_stride = in.ids.given() ? in.ids.stride(2) : 0;
  params.rows = choice.generated_only ? gpu::kGeneratedRows : shape_of(y).rows;
  params.matrix = static_cast<uint32_t>(choice.matrix);
  params.columns = static_cast<uint32_t>(choice.columns);
  params.normed = in.norm != nullptr && !choice.takes_bytes() ? 1 : 0;
  params.aligned = aligned(in.x) ? 1 : 0;
  params.after = what_follows(in);
  params.chunk = choice.kind == Choice::Kind::product ? chunk_tiles(choice, type, w.dim(0)) : 0;
  params.bytes = choice.takes_bytes() ? bytes : call.rounded.bytes(in.x);
  if (in.glu != nullptr) {
    params.results = call.rounded.bytes(in.weights[0].y);
    params.result_runs = call.rounded.runs(in.weights[0].y);
  }
  params.eps = in.norm != nullptr ? in.norm->eps : 0.0f;
  params.alpha = in.glu != nullptr ? in.glu->alpha : 0.0f;
  params.limit = in.glu != nullptr ? in.glu->limit : 0.0f;
  for (size_t i = 0; i < count; ++i) {
    params.weights[i] = matrix_params(in, in.weights[first + i]);
    params.weights[i].first_tile = params.tiles;
    if (in.glu != nullptr && i == 1) break;  // it has the tiles of the first
    params.tiles +=
        static_cast<uint32_t>(div_ceil<int64_t>(in.weights[first + i].w.dim(1), choice.tile_rows));
  }
  if (choice.kind == Choice::Kind::tile) {
    const int64_t each = block_tiles(choice.tile_warps, in.glu != nullptr);
    call.recorder.launch(choice.kernel, params,
                         {std::max<int64_t>(div_ceil<int64_t>(params.tiles, each), 1), groups, 1},
                         static_cast<int>(32 * choice.tile_warps),
                         tile_bytes(static_cast<uint32_t>(choice.tile_warps), summed_runs(type)));
    return;
  }
  const bool by_place = choice.matrix == MatrixOf::by_ids || choice.matrix == MatrixOf::by_place;
  const int64_t places = by_place ? y.dim(1) : 1;
  if (choice.kind == Choice::Kind::column) {
    const ColumnShape shape = column_shape({.type = type,
                                            .k = w.dim(0),
                                            .rows = params.tiles,
                                            .weights = in.glu != nullptr ? 2 : 1,
                                            .in_pieces = params.results.words != 0,
                                            .others = groups * places},
                                           call.gpu);
    params.share = shape.share;
    params.stages = shape.stages;
    call.recorder.launch(choice.kernel, params, {shape.blocks, groups, places}, kProductThreads,
                         shape.shared);
    return;
  }
  int64_t shared = 0;
  int64_t held = kBlocksEach;  // blocks that a multiprocessor holds at once
  if (choice.kind == Choice::Kind::product) {
    shared = int64_t{kProductWarps} * params.chunk *
             product_bytes(static_cast<uint32_t>(choice.columns));
  } else if (choice.kind == Choice::Kind::stream) {
    shared = stream_shared(type, choice.columns);
    held = std::clamp<int64_t>(call.gpu.multiprocessor_shared / (shared + kOwnBytes), 1, held);
  }
  // All blocks at once. Of weights/product.cu each takes as many tiles as any other, since each
  // copies all columns; of weights/stream.cu as many blocks as there can be share the tiles.
  const int64_t most = std::max<int64_t>(call.gpu.multiprocessors * held, 1);
  const int64_t tiles = std::max<int64_t>(params.tiles, 1);
  const int64_t blocks = choice.kind == Choice::Kind::stream
                             ? std::min(tiles, most)
                             : div_ceil(tiles, div_ceil(tiles, most));
  call.recorder.launch(choice.kernel, params, {blocks, groups, places}, kProductThreads, shared);
}

}  // namespace

std::array<uint32_t, 4> plane_offsets(const TensorDesc& weight) {
  const gpu::WeightLayout layout = weight_layout(weight);
  std::array<uint32_t, 4> offsets{};
  for (size_t p = 1; p < layout.planes; ++p) {
    offsets[p - 1] = static_cast<uint32_t>(layout.offsets[p] / 16);
  }
  return offsets;
}

int64_t product_scratch(const NodeView& node, const Tuning& tuning, Roles roles) {
  const bool halves = uses_halves(node, tuning, roles);
  const int64_t of_halves = halves ? halves_scratch(node) : 0;
  if (halves && roles == Roles::prompt) return of_halves;
  const TensorDesc& weight = node.input(1)->desc;
  const bool experts = node.node.op() == OpId::MoeMatmul;
  const int64_t rows = node.graph.value(node.node.outputs[0]).desc.shape[2];
  const int64_t used = experts ? node.input(2)->desc.shape[0] : 1;
  const int64_t matrices = experts ? weight.shape[2] : 1;
  const bool grouped = experts && product_groups(rows, matrices);
  const int64_t numbers = grouped ? gpu::expert_groups(used, rows, matrices, 1).numbers : 0;
  const MatrixOf matrix = experts ? MatrixOf::by_ids : MatrixOf::only;
  const bool several = grouped || (!experts && rows > 1);
  if (!several || !is_integer(weight.type, matrix, tuning)) {
    return std::max(of_halves, numbers * int64_t{sizeof(int32_t)});
  }
  const int64_t of_bytes = bytes_layout(node.input(0)->desc, weight.type).bytes();
  return std::max(of_halves, bytes_offset(numbers) + of_bytes);
}

/// Every type has kernels, in either of the two layouts; those of fragments need room for a column.
Status product_supports(const NodeView& node) {
  const TensorDesc& weight = node.input(1)->desc;
  if (!has_fragments(weight.type) || column_fits(weight.type, weight.shape[0], node.gpu)) return {};
  return error(StatusCode::unsupported,
               "rows of {} elements of {}: the GPU's shared memory is too small for them",
               weight.shape[0], dtype_info(weight.type).name);
}

bool product_takes(const NodeView& product, OpId with, const Tuning& tuning, Roles) {
  const bool fragments = has_fragments(product.input(1)->desc.type);
  const auto& shape = product.graph.value(product.node.outputs[0]).desc.shape;
  switch (with) {
    // Where columns are not rounded before, each block computes the norm anew: worth it for few.
    case OpId::RmsNorm:
      return fragments &&
             (shape[2] <= kFloatColumns || (tuning.integer && product.node.op() == OpId::Matmul));
    case OpId::Glu: return fragments;
    case OpId::HeadMatmul: return false;  // each has its own heads
    default: return true;
  }
}

void record_single_product(const NodeCall& call) {
  record_products(call, gpu::product_of(call.node, call.inputs, call.outputs));
}

void record_products(const NodeCall& call, const ProductCall& in) {
  const bool halves = uses_halves({call.graph, call.node, call.gpu}, call.tuning, call.roles);
  if (halves) record_halves(call, in);
  if (halves && call.roles == Roles::prompt) return;
  Choice choice = choose(call, in);
  choice.generated_only = halves;
  if (halves && choice.takes_bytes()) call.recorder.barrier();  // the work space is used again
  uint64_t ids = in.ids.given() ? in.ids.address : 0;
  int64_t groups = div_ceil<int64_t>(in.weights[0].y.dim(2), choice.columns);
  int64_t numbers = 0;  // of groups, in the work space
  if (choice.matrix == MatrixOf::by_groups) {
    groups = record_groups(call, in, choice.columns);
    ids = call.scratch;
    numbers = gpu::expert_groups(in.ids.dim(0), in.weights[0].y.dim(2), in.weights[0].w.dim(2), 1)
                  .numbers;
  }
  ColumnBytes bytes{};
  if (choice.takes_bytes()) bytes = record_bytes(call, in, numbers);
  call.recorder.barrier();
  for (size_t first = 0; first < in.weights.size(); first += kProductWeights) {
    const size_t count = std::min<size_t>(in.weights.size() - first, kProductWeights);
    launch(call, in, choice, ids, groups, bytes, first, count);
  }
}

}  // namespace infer::cuda
