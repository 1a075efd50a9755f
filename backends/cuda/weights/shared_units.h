// Weights of the fragment layout in shared memory: what 16 rows have in some units, plane after
// plane. Included after the header of a type.
#pragma once

#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/weights/fragments.h"
#include "backends/cuda/weights/product.h"

namespace infer::cuda::INFER_TYPE {

INFER_DEVICE constexpr uint32_t unit_bytes() { return bytes_of_unit<Weights>(); }

/// A lane's part of the first unit, by plane: bytes from the begin of shared memory.
struct SharedPlace {
  struct Plane {
    SharedPtr<uint32_t> words;
    uint32_t at;
  } plane[4];
};
template <typename V>
INFER_DEVICE V plane_part(const SharedPlace::Plane& plane, uint32_t offset) {
  return load_shared<V>(plane.words, (plane.at + offset) / 4);
}
/// `at`: bytes; kUnits: that lie together.
template <uint32_t kUnits>
INFER_DEVICE SharedPlace shared_place(const SharedPtr<uint32_t>& words, uint32_t at) {
  SharedPlace place{{{words, 0}, {words, 0}, {words, 0}, {words, 0}}};
#pragma unroll
  for (uint32_t i = 0; i < Weights::kPlanes; ++i) {
    place.plane[i].at = at + lane() * Weights::lane_bytes(i) + lane() / 4 * Weights::group_bytes(i);
    at += kUnits * Weights::unit_bytes(i);
  }
  return place;
}

/// Address of a plane of a weight from a unit on, over all rows of tiles.
INFER_DEVICE uint64_t plane_at(const MatrixParams& of, uint32_t plane, uint64_t unit) {
  return of.w + (plane == 0 ? 0 : uint64_t{of.planes[plane - 1]} * 16) +
         unit * Weights::unit_bytes(plane);
}

/// Where the lane's first 16 bytes are in memory, by plane. `unit`: over all rows of tiles.
INFER_DEVICE void find_units(const MatrixParams& of, uint64_t unit,
                             uint64_t (&plane)[Weights::kPlanes]) {
#pragma unroll
  for (uint32_t i = 0; i < Weights::kPlanes; ++i) {
    plane[i] = plane_at(of, i, unit) + lane() * 16;
  }
}

/// The warp starts to copy the `given` of kUnits units, `to` words behind where `place(plane,
/// chunk)` has the lane's 16 bytes of a chunk of the first units.
template <uint32_t kUnits, typename PlaceOf>
INFER_DEVICE void copy_units(const PlaceOf& place, uint32_t to, uint32_t given,
                             const uint64_t (&plane)[Weights::kPlanes]) {
#pragma unroll
  for (uint32_t i = 0; i < Weights::kPlanes; ++i) {
    const uint32_t bytes = (kUnits == 1 ? 1 : given) * Weights::unit_bytes(i);
#pragma unroll
    for (uint32_t at = 0; at < kUnits * Weights::unit_bytes(i); at += 512) {
      const bool all = Weights::unit_bytes(i) % 512 == 0;  // lanes, or none
      if (at + (all ? 0 : lane() * 16) < bytes) {
        async_copy_constant_16(place(i, at / 512), to + at / 4, Global<const uint32_t>(plane[i]),
                               at / 4);
      }
    }
    to += kUnits * Weights::unit_bytes(i) / 4;
  }
}
/// The same to word `to`, in the order of memory.
template <uint32_t kUnits>
INFER_DEVICE void copy_units(const SharedPtr<uint32_t>& words, uint32_t to, uint32_t given,
                             const uint64_t (&plane)[Weights::kPlanes]) {
  const SharedPtr<uint32_t> own = words + lane() * 4;
  copy_units<kUnits>([&](uint32_t, uint32_t) { return own; }, to, given, plane);
}

}  // namespace infer::cuda::INFER_TYPE
