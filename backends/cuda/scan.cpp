#include "backends/cuda/scan.h"

#include <algorithm>

#include "backends/cuda/ops/scan.h"
#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

static_assert(kScanColumns == kStateColumns && kScanPad == kStatePad);

constexpr int64_t kMostScanRows = 256;
constexpr int64_t kMostRowsByElement = 128;

/// The kernel for `rows` of S.
const char* scan_kernel(const gpu::ScanCall& in, int64_t rows) {
  constexpr const char* kNames[] = {"scan_64", "scan_128", "scan_256"};
  constexpr const char* kByChannel[] = {"scan_by_channel_64", "scan_by_channel_128",
                                        "scan_by_channel_256"};
  if (in.by_element) return rows <= 16 ? "scan_by_element_16" : "scan_by_element_128";
  const int size = rows <= 64 ? 0 : rows <= 128 ? 1 : 2;
  return in.by_channel ? kByChannel[size] : kNames[size];
}

}  // namespace

void record_scan(const NodeCall& call, const gpu::ScanCall& in) {
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(in.kv_layer)];
  const bool corrects = in.gain.given();
  const int64_t rows = in.write.dim(0);
  const int64_t sharing = std::min(in.v.dim(2), kSequencesAtOnce);
  const int64_t offset = at.k_offset + in.at * int64_t{sizeof(float)};
  call.recorder.launch(
      scan_kernel(in, rows),
      ScanParams{.step = call.step,
                 .write = in.write.address,
                 .read = in.read.address,
                 .v = in.v.address,
                 .y = in.y.address,
                 .slots = in.slots.address,
                 .sequences = in.sequences.address,
                 .size = in.size.address,
                 .a = in.a.address,
                 .bias = in.bias.address,
                 .gain = in.gain.address,
                 .pass = in.pass.address,
                 .write_strides = strides_of(in.write),
                 .read_strides = strides_of(in.read),
                 .v_strides = strides_of(in.v),
                 .y_strides = strides_of(in.y),
                 .size_strides = in.size.given() ? strides_of(in.size) : StridePush{},
                 .gain_strides = corrects ? strides_of(in.gain) : StridePush{},
                 .size_width = in.size.given() ? in.size.size(0) : 1,
                 .gain_width = corrects ? in.gain.size(0) : 1,
                 .rows = static_cast<uint32_t>(rows),
                 .columns = in.v.size(0),
                 .heads = in.v.size(1),
                 .keys = in.write.size(1),
                 .tiled = in.tiled ? 1u : 0u,
                 .kind = static_cast<uint32_t>(at.kind),
                 .offset = static_cast<uint32_t>(offset),
                 .write_scale = in.write_scale,
                 .read_scale = in.read_scale,
                 .sharing = static_cast<uint32_t>(sharing),
                 .bound = in.bound,
                 .slope = in.slope},
      {div_ceil<int64_t>(in.v.dim(0), kStateColumns), in.v.dim(1), sharing}, kScanThreads);
}

Status scan_supports(int64_t rows, bool by_element) {
  const int64_t most = by_element ? kMostRowsByElement : kMostScanRows;
  if (rows <= most) return {};
  return error(StatusCode::unsupported, "a state of {} rows; at most {} are supported", rows, most);
}

}  // namespace infer::cuda
