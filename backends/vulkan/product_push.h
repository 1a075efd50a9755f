// The push constants of products.
#pragma once

#include <vector>

#include "backends/vulkan/product.h"

namespace infer::vulkan {

/// glsl/product.glsl: Matrix, Push
struct MatrixPush {
  VkDeviceAddress w, bias, scale, y, residual;
  uint32_t n, first_tile;
  StridePush y_strides, residual_strides;
  float factor;
  uint32_t unused;
  std::array<uint32_t, 4> planes;
};
struct ProductPush {
  VkDeviceAddress step, weights, x, ids, norm;
  uint32_t k, matrices, tiles, weight_count;
  StridePush x_strides;
  uint32_t ids_stride;
  uint32_t rows;
  float eps;
  float alpha, limit;
};

/// The weights of a call and their tiles of `tile_rows` rows. The two of a Glu share theirs.
struct PushedWeights {
  std::vector<MatrixPush> weights;
  uint32_t tiles = 0;
};
PushedWeights pushed_weights(const ProductCall& product, int64_t tile_rows);

/// glsl/product.glsl: kAfter.
uint32_t what_follows(const ProductCall& product);

}  // namespace infer::vulkan
