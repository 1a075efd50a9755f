#include "backends/vulkan/product.h"

#include <algorithm>

#include "backends/vulkan/packing.h"
#include "engine/core/checked.h"

namespace infer::vulkan {
namespace {

/// weights/product.comp
struct Push {
  VkDeviceAddress step, w, x, bias, scale, y, ids;
  uint32_t k, n, matrices;
  StridePush x_strides, y_strides;
  uint32_t ids_stride;
  uint32_t rows;
  std::array<uint32_t, 4> planes;
};

/// Columns of activations that share the decoded weights.
constexpr int64_t kColumns = 4;
/// Rows of a lane on a processor, where what lanes share is handed round slowly; others want many
/// workgroups instead.
constexpr int64_t kTall = 4;
/// Subgroups that share the sums of a workgroup on a device that runs many at once.
constexpr uint32_t kParts = 8;
/// What every device takes as a count of workgroups.
constexpr int64_t kMostGroups = 65535;

}  // namespace

Status product_supports(const NodeView&) { return {}; }

std::array<uint32_t, 4> plane_offsets(const TensorDesc& weight) {
  const WeightLayout layout(weight);
  std::array<uint32_t, 4> offsets{};
  for (size_t p = 1; p < layout.planes.size(); ++p) {
    offsets[p - 1] = static_cast<uint32_t>(layout.offsets[p] / 16);
  }
  return offsets;
}

void record_product(const NodeCall& call, const ProductInputs& in) {
  const Operand& y = call.outputs[0];
  const int64_t n = in.w.dim(1);
  const int64_t columns = y.dim(2);
  // The experts of two rows are not the same.
  const int64_t wide = in.matrix == MatrixOf::by_ids || columns == 1 ? 1 : kColumns;
  const uint32_t lanes = call.device.subgroup;
  const uint32_t parts = call.device.processor ? 1 : kParts;
  const int64_t tall = call.device.processor && n > lanes ? kTall : 1;
  const uint32_t constants[] = {lanes * parts,
                                lanes,
                                parts,
                                static_cast<uint32_t>(wide),
                                static_cast<uint32_t>(in.matrix),
                                in.bias.given() ? 1u : 0u,
                                in.scale.given() ? 1u : 0u,
                                static_cast<uint32_t>(tall)};
  const Push push{call.step,
                  in.w.address,
                  in.x.address,
                  in.bias.address,
                  in.scale.address,
                  y.address,
                  in.ids.address,
                  in.w.size(0),
                  in.w.size(1),
                  in.w.size(2),
                  strides_of(in.x),
                  strides_of(y),
                  in.ids.given() ? in.ids.stride(2) : 0,
                  shape_of(y).rows,
                  plane_offsets(in.w.value->desc)};
  const std::string shader = "product_" + std::string(dtype_info(in.w.value->desc.type).ident);
  call.recorder.dispatch(shader, constants, push,
                         {std::min(div_ceil<int64_t>(n, lanes * tall), kMostGroups),
                          div_ceil(columns, wide), in.matrix == MatrixOf::only ? 1 : y.dim(1)});
}

}  // namespace infer::vulkan
